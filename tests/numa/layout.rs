//! Is the virtual node the machine that the other tests believe it is?

use crate::node::Node;
use crate::placed::{BIND, DEFAULT, PREFERRED, assert_memory, cpus, pages_on};
use crate::slurm::run::Witness;
use gpu_tune_engine::NodeSet;
use std::fs;

#[test]
fn short_each_socket_has_half_of_the_cpus_the_gpus_and_a_network_device() {
    let Some(node) = Node::get() else { return };
    let truth = &node.truth;
    let half = truth.cpus().len() / 2;
    assert_eq!((truth.cpus_of(0).len(), truth.cpus_of(1).len()), (half, half));
    let gpus: Vec<u32> = truth.gpus.iter().map(|gpu| gpu.node).collect();
    assert_eq!(gpus, [0, 0, 0, 0, 1, 1, 1, 1]);
    let mut networks: Vec<String> = fs::read_dir("/sys/class/net")
        .unwrap()
        .flatten()
        .filter_map(|net| {
            fs::read_to_string(net.path().join("device/../numa_node")).ok().map(|text| text.trim().to_owned())
        })
        .collect();
    networks.sort();
    assert_eq!(networks, ["0", "1"]);
}

fn under_numactl(node: &Node, words: &str) -> Witness {
    let words = format!("{words} {}", node.witness());
    let words: Vec<&str> = words.split(' ').collect();
    node.cluster.run("numactl", &words, &[]).fine().witnesses().remove(0)
}

#[test]
fn short_the_kernel_places_pages_as_a_policy_asks() {
    let Some(node) = Node::get() else { return };
    let (first, second) = (NodeSet::from_iter([0]), NodeSet::from_iter([1]));
    let touched = under_numactl(&node, "--cpunodebind=1");
    assert_eq!((touched.policy, cpus(&touched)), (DEFAULT, node.truth.cpus_of(1)));
    assert!(pages_on(&touched, &second) >= 99, "{touched:?}");
    assert_memory(&under_numactl(&node, "--cpunodebind=0 --preferred=1"), PREFERRED, &second);
    assert_memory(&under_numactl(&node, "--cpunodebind=1 --membind=0"), BIND, &first);
}
