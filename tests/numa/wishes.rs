//! What the user asked for himself stays, and `verbose` says so.

use crate::node::Node;
use crate::placed::{BIND, assert_memory, assert_no_policy, cpus};
use gpu_tune_engine::{CpuSet, NodeSet};

#[test]
fn a_cpu_bind_of_the_user_stays() {
    let Some(node) = Node::get() else { return };
    let output = node
        .output("-n2 -c2 --gpus-per-node=2 --gres-flags=enforce-binding --cpu-bind=map_cpu:3,1 --gpu-tune=h200,verbose")
        .fine();
    let found: Vec<CpuSet> = output.witnesses().iter().map(cpus).collect();
    assert_eq!(found, [CpuSet::from_iter([3]), CpuSet::from_iter([1])], "{output:?}");
    assert!(output.stderr.contains("--cpu-bind"), "{}", output.stderr);
}

#[test]
fn a_mem_bind_of_the_user_stays() {
    let Some(node) = Node::get() else { return };
    let output = node
        .output("-n2 -c2 --gpus-per-node=2 --gres-flags=enforce-binding --mem-bind=map_mem:1,1 --gpu-tune=h200,verbose")
        .fine();
    for task in output.witnesses() {
        assert_memory(&task, BIND, &NodeSet::from_iter([1]));
    }
    assert!(output.stderr.contains("--mem-bind"), "{}", output.stderr);
}

#[test]
fn numactl_inside_a_task_has_the_last_word() {
    let Some(node) = Node::get() else { return };
    let numactl = "numactl --physcpubind=+0 --membind=1";
    let words = format!("-n2 -c2 --gpus-per-node=2 --gres-flags=enforce-binding --gpu-tune=h200 {numactl}");
    for task in node.srun(&words) {
        assert_eq!(cpus(&task).len(), 1, "{task:?}");
        assert_memory(&task, BIND, &NodeSet::from_iter([1]));
    }
}

#[test]
fn numactl_before_a_rank_of_a_launcher_has_the_last_word() {
    let Some(node) = Node::get() else { return };
    let launcher = node.launcher();
    let words = format!("-n1 -c16 --gpus-per-node=8 --gpu-tune=h200 {launcher} 2 numactl --membind=1");
    for rank in node.run(&words).fine().witnesses() {
        assert_memory(&rank, BIND, &NodeSet::from_iter([1]));
    }
}

#[test]
fn off_leaves_no_policy_and_slurms_own_masks() {
    let Some(node) = Node::get() else { return };
    let (plain, off) = (node.srun("-n4 -c2 --gpus-per-node=4"), node.srun("-n4 -c2 --gpus-per-node=4 --gpu-tune=off"));
    for (plain, off) in plain.iter().zip(&off) {
        assert_no_policy(off);
        assert_eq!(plain.cpus, off.cpus);
    }
}
