//! One task per GPU.

use crate::node::Node;
use crate::placed::{assert_beside, assert_each_beside, assert_shared_out, own_gpu, pages_on};
use gpu_tune_engine::NodeSet;

#[test]
fn short_tasks_with_a_gpu_each_run_and_allocate_beside_it() {
    let Some(node) = Node::get() else { return };
    let tasks = node.srun("-n8 -c2 --gpus-per-task=1 --gpu-tune=h200");
    assert_eq!(tasks.len(), 8);
    let mut seen = NodeSet::new();
    for task in &tasks {
        assert_beside(task, own_gpu(&node.truth, task));
        assert!(seen.insert(task.devices[0]), "two tasks have one GPU: {tasks:#?}");
    }
    assert_shared_out(&tasks, &node.truth.cpus());
}

#[test]
fn tasks_that_all_see_all_gpus_take_the_one_of_their_local_id() {
    let Some(node) = Node::get() else { return };
    let tasks = node.srun("-n8 -c2 --gpus-per-node=8 --gpu-tune=h200");
    assert!(tasks.iter().all(|task| task.devices.len() == 8), "{tasks:?}");
    assert_each_beside(&tasks, &node.truth.gpus);
    assert_shared_out(&tasks, &node.truth.cpus());
}

#[test]
fn without_us_ranks_run_and_allocate_on_the_wrong_socket() {
    let Some(node) = Node::get() else { return };
    let tasks = node.srun("-n8 -c2 --gpus-per-node=8 --gpu-tune=off");
    let far = |(task, gpu): &(&_, &crate::truth::Gpu)| pages_on(task, &NodeSet::from_iter([gpu.node])) < 50;
    let misplaced = tasks.iter().zip(&node.truth.gpus).filter(far).count();
    assert!(misplaced > 0, "nothing to put right here: {tasks:#?}");
}
