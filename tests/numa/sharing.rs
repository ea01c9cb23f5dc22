//! Steps that do not have the whole node.

use crate::node::{Job, Node};
use crate::placed::{assert_beside, assert_shared_out, cpus, pages_on};

#[test]
fn a_part_of_one_socket_is_shared_out_among_its_gpus() {
    let Some(node) = Node::get() else { return };
    let tasks = node.srun("-n2 -c2 --gpus-per-node=2 --gres-flags=enforce-binding --gpu-tune=h200");
    for (task, gpu) in tasks.iter().zip(&node.truth.gpus) {
        assert_beside(task, gpu);
        assert_eq!(cpus(task).len(), 2, "{task:?}");
    }
}

#[test]
fn tasks_whose_cpus_are_on_the_wrong_socket_keep_them_and_are_told() {
    let Some(node) = Node::get() else { return };
    let holder = Job::submit(&node, "-n8 --distribution=block:block", "echo here; sleep 600");
    holder.wait_for("here");
    // All GPUs, but CPUs of the second socket only.
    let output = node.output("-n8 -c1 --gpus-per-node=8 --gres-flags=disable-binding --gpu-tune=h200").fine();
    drop(holder);
    let (tasks, there) = (output.witnesses(), node.truth.cpus_of(1));
    assert_shared_out(&tasks, &there);
    for task in tasks {
        assert!(pages_on(&task, &node.truth.nodes_of(&there)) >= 99, "{task:?}");
    }
    assert!(output.stderr.contains("enforce-binding"), "{}", output.stderr);
}

#[test]
fn two_jobs_on_the_node_keep_out_of_each_others_way() {
    let Some(node) = Node::get() else { return };
    let words = "-n4 -c2 --gpus-per-node=4 --gres-flags=enforce-binding";
    let first = Job::submit(&node, words, "srun --gpu-tune=h200 $PROBE; echo placed; sleep 600");
    let first = first.wait_for("placed").witnesses();
    let second = node.srun(&format!("{words} --gpu-tune=h200"));
    for (tasks, gpus) in [(&first, &node.truth.gpus[..4]), (&second, &node.truth.gpus[4..])] {
        tasks.iter().zip(gpus).for_each(|(task, gpu)| assert_beside(task, gpu));
    }
    assert_shared_out(&[first, second].concat(), &node.truth.cpus());
}
