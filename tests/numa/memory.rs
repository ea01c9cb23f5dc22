//! What the memory policies do when memory is short.

use crate::node::Node;
use crate::placed::{BIND, PREFERRED, assert_memory, pages_on};
use gpu_tune_engine::NodeSet;
use std::fs;

/// Takes nearly all of a NUMA node's memory away, as huge pages, until it is dropped.
struct Full(String);

/// What is left free, in MiB.
const LEFT: u64 = 160;

impl Full {
    fn node(node: u32) -> Self {
        let path = format!("/sys/devices/system/node/node{node}");
        // Cached files would be given up one by one, and read again, for minutes.
        fs::write("/proc/sys/vm/drop_caches", "3").unwrap();
        let meminfo = fs::read_to_string(format!("{path}/meminfo")).unwrap();
        let free = meminfo.lines().find(|line| line.contains("MemFree:")).unwrap();
        let free: u64 = free.split_whitespace().nth(3).unwrap().parse().unwrap();
        let full = Self(format!("{path}/hugepages/hugepages-2048kB/nr_hugepages"));
        fs::write(&full.0, ((free / 1024 - LEFT) / 2).to_string()).unwrap();
        full
    }
}

impl Drop for Full {
    fn drop(&mut self) {
        let _ = fs::write(&self.0, "0");
    }
}

/// The witness of the first GPU, with more memory than is left on its node.
fn touch_too_much(node: &Node, mem: &str) -> crate::slurm::run::Output {
    let probe = node.cluster.probe_path();
    node.run(&format!(
        "-n1 -c2 --gpus-per-node=1 --gres-flags=enforce-binding --gpu-tune=h200,mem={mem} {probe} {}",
        LEFT * 2
    ))
}

#[test]
fn preferred_spills_to_the_other_node_when_its_own_is_full() {
    let Some(node) = Node::get() else { return };
    let _full = Full::node(0);
    let tasks = touch_too_much(&node, "preferred").fine().witnesses();
    let own = NodeSet::from_iter([0]);
    assert_eq!(tasks[0].policy, PREFERRED);
    assert!((5..95).contains(&pages_on(&tasks[0], &own)), "{tasks:?}");
}

#[test]
fn bind_ends_the_task_when_its_node_is_full() {
    let Some(mut node) = Node::get() else { return };
    let full = Full::node(0);
    let output = touch_too_much(&node, "bind");
    drop(full);
    assert!(![0, 124].contains(&output.code), "it was to be killed: {output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    node.cluster.check_alive();
}

#[test]
fn bind_holds_all_pages_where_there_is_room() {
    let Some(node) = Node::get() else { return };
    let tasks = node.srun("-n4 -c2 --gpus-per-node=4 --gres-flags=enforce-binding --gpu-tune=h200,mem=bind");
    assert_eq!(tasks.len(), 4);
    for (task, gpu) in tasks.iter().zip(&node.truth.gpus) {
        assert_memory(task, BIND, &NodeSet::from_iter([gpu.node]));
    }
}
