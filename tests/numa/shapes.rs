//! Other shapes of the node: hardware threads, a NUMA node that is only memory, sockets of two NUMA nodes.

use crate::node::Node;
use crate::placed::{PREFERRED_MANY, assert_beside, assert_memory, assert_shared_out, cpus};
use gpu_tune_engine::{CpuSet, NodeSet};
use std::sync::MutexGuard;

fn with_threads() -> Option<MutexGuard<'static, Node>> {
    let node = Node::get()?;
    if node.truth.threads < 2 {
        println!("skipped: needs hardware threads, `make vm-test` boots such a node");
        return None;
    }
    Some(node)
}

fn with_memory_node() -> Option<MutexGuard<'static, Node>> {
    let node = Node::get()?;
    if node.truth.nodes.len() != 3 {
        println!("skipped: needs a third NUMA node, `make vm-test` boots such a node");
        return None;
    }
    Some(node)
}

#[test]
fn a_core_is_never_split_between_ranks() {
    let Some(node) = with_threads() else { return };
    let tasks = node.srun("-n8 -c2 --gpus-per-node=8 --gpu-tune=h200");
    for (task, gpu) in tasks.iter().zip(&node.truth.gpus) {
        assert_beside(task, gpu);
        let own = cpus(task);
        assert!(own.iter().all(|cpu| node.truth.core_of(cpu).is_subset(&own)), "{task:?}");
    }
    assert_shared_out(&tasks, &node.truth.cpus());
}

#[test]
fn smt_one_gives_one_thread_of_each_core() {
    let Some(node) = with_threads() else { return };
    let tasks = node.srun("-n8 -c2 --gpus-per-node=8 --gpu-tune=h200,smt=one");
    for (task, gpu) in tasks.iter().zip(&node.truth.gpus) {
        assert_beside(task, gpu);
        let own = cpus(task);
        let alone = |cpu| (&node.truth.core_of(cpu) & &own) == CpuSet::from_iter([cpu]);
        assert!(own.iter().all(alone), "{task:?}");
    }
}

#[test]
fn a_node_of_memory_alone_is_nobodys() {
    let Some(node) = with_memory_node() else { return };
    assert!(node.truth.cpus_of(2).is_empty());
    let tasks = node.srun("-n8 -c2 --gpus-per-node=8 --gpu-tune=h200");
    for (task, gpu) in tasks.iter().zip(&node.truth.gpus) {
        assert_beside(task, gpu);
        assert!(!task.pages.contains_key(&2), "{task:?}");
    }
}

#[test]
fn split_sockets_are_preferred_whole_by_ranks_that_may_use_all_of_them() {
    let Some(node) = Node::get() else { return };
    if node.truth.nodes.len() != 4 {
        println!("skipped: needs two NUMA nodes on each socket, `make vm-test` boots such a node");
        return;
    }
    let tasks = node.srun("-n8 -c2 --gpus-per-node=8 --gpu-tune=h200,bind=socket");
    for (task, gpu) in tasks.iter().zip(&node.truth.gpus) {
        let both = NodeSet::from_iter([gpu.node, gpu.node + 1]);
        assert_eq!(cpus(task), &node.truth.cpus_of(gpu.node) | &node.truth.cpus_of(gpu.node + 1), "{task:?}");
        assert_memory(task, PREFERRED_MANY, &both);
    }
}
