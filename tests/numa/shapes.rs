//! Other shapes of the node: hardware threads, a NUMA node that is only memory, sockets of two NUMA nodes.

use crate::node::{Node, skip};
use crate::placed::{PREFERRED_MANY, all_cpus, assert_each_beside, assert_memory, assert_shared_out, cpus};
use gpu_tune_engine::{CpuSet, NodeSet};
use std::sync::MutexGuard;

fn with_threads() -> Option<MutexGuard<'static, Node>> {
    let node = Node::get()?;
    if node.truth.threads < 2 {
        skip("a node with hardware threads");
        return None;
    }
    Some(node)
}

fn with_memory_node() -> Option<MutexGuard<'static, Node>> {
    let node = Node::get()?;
    if node.truth.nodes.len() != 3 {
        skip("a node with a third NUMA node");
        return None;
    }
    Some(node)
}

#[test]
fn threads_of_a_core_are_never_split_between_ranks() {
    let Some(node) = with_threads() else { return };
    let tasks = node.srun("-n8 -c2 --gpus-per-node=8 --gpu-tune=h200");
    assert_each_beside(&tasks, &node.truth.gpus);
    for task in &tasks {
        let own = cpus(task);
        assert!(own.iter().all(|cpu| node.truth.core_of(cpu).is_subset(&own)), "{task:?}");
    }
    assert_shared_out(&tasks, &node.truth.cpus());
}

#[test]
fn threads_are_left_idle_by_smt_one_which_gives_one_thread_of_each_core() {
    let Some(node) = with_threads() else { return };
    let tasks = node.srun("-n8 -c2 --gpus-per-node=8 --gpu-tune=h200,smt=one");
    assert_each_beside(&tasks, &node.truth.gpus);
    for task in &tasks {
        let own = cpus(task);
        let alone = |cpu| (&node.truth.core_of(cpu) & &own) == CpuSet::from_iter([cpu]);
        assert!(own.iter().all(alone), "{task:?}");
    }
    let mut cores = CpuSet::new();
    all_cpus(&tasks).iter().for_each(|cpu| cores.extend(&node.truth.core_of(cpu)));
    assert_eq!(cores, node.truth.cpus(), "a core was left out");
}

#[test]
fn memory_node_without_cpus_is_nobodys() {
    let Some(node) = with_memory_node() else { return };
    assert!(node.truth.cpus_of(2).is_empty());
    let tasks = node.srun("-n8 -c2 --gpus-per-node=8 --gpu-tune=h200");
    assert_each_beside(&tasks, &node.truth.gpus);
    for task in &tasks {
        assert!(!task.pages.contains_key(&2), "{task:?}");
    }
}

#[test]
fn split_sockets_are_preferred_whole_by_ranks_that_may_use_all_of_them() {
    let Some(node) = Node::get() else { return };
    if node.truth.nodes.len() != 4 {
        return skip("a node with two NUMA nodes on each socket");
    }
    let tasks = node.srun("-n8 -c2 --gpus-per-node=8 --gpu-tune=h200,bind=socket");
    assert_eq!(tasks.len(), 8);
    for (task, gpu) in tasks.iter().zip(&node.truth.gpus) {
        let both = NodeSet::from_iter([gpu.node, gpu.node + 1]);
        assert_eq!(cpus(task), &node.truth.cpus_of(gpu.node) | &node.truth.cpus_of(gpu.node + 1), "{task:?}");
        assert_memory(task, PREFERRED_MANY, &both);
    }
}
