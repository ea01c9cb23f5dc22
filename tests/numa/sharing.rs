//! Steps that do not have the whole node.

use crate::node::{Job, Node};
use crate::placed::{all_cpus, assert_each_beside, assert_shared_out, cpus, pages_on};
use crate::slurm::Setup;
use crate::slurm::run::Witness;

#[test]
fn a_part_of_one_socket_is_shared_out_among_its_gpus() {
    let Some(node) = Node::get() else { return };
    let tasks = node.srun("-n2 -c2 --gpus-per-node=2 --gres-flags=enforce-binding --gpu-tune=h200");
    assert_each_beside(&tasks, &node.truth.gpus[..2]);
    assert!(tasks.iter().all(|task| cpus(task).len() == 2), "{tasks:?}");
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
    let first = Job::submit(&node, words, "witness --gpu-tune=h200; echo placed; sleep 600");
    let first = first.wait_for("placed").witnesses();
    let second = node.srun(&format!("{words} --gpu-tune=h200"));
    for (tasks, gpus) in [(&first, &node.truth.gpus[..4]), (&second, &node.truth.gpus[4..])] {
        assert_each_beside(tasks, gpus);
    }
    assert_shared_out(&[first, second].concat(), &node.truth.cpus());
}

/// Under cgroup v2 slurmstepd has the job's CPUs when the plan is made, not the step's.
#[test]
fn a_step_narrower_than_its_job_shares_out_its_own_cpus() {
    let Some(node) = Node::get() else { return };
    let step = "witness --exact -n4 -c2 --gpus-per-node=4";
    let script = format!("{step} --gpu-tune=off; {step} --gpu-tune=h200; echo placed; sleep 600");
    let job = Job::submit(&node, "-n8 -c2 --gpus-per-node=8", &script);
    let (tuned, plain): (Vec<Witness>, Vec<Witness>) =
        job.wait_for("placed").witnesses().into_iter().partition(|task| task.var("GPU_TUNE_PROFILE").is_some());
    let of_step = all_cpus(&plain);
    assert_eq!((plain.len(), tuned.len(), of_step.len()), (4, 4, 8));
    assert_shared_out(&tuned, &of_step);
}

#[test]
fn without_task_affinity_the_cpuset_is_shared_out() {
    let Some(node) = Node::start(Setup::this_machine().constrained().task_plugin("task/cgroup")) else { return };
    let step = "-n8 -c2 --gpus-per-node=8";
    let plain = node.srun(step);
    assert!(plain.iter().all(|task| cpus(task) == node.truth.cpus()), "nothing to share out: {plain:?}");
    let tasks = node.srun(&format!("{step} --gpu-tune=h200"));
    assert_each_beside(&tasks, &node.truth.gpus);
    assert_shared_out(&tasks, &node.truth.cpus());
}
