//! What the user asked for himself stays, and `verbose` says so.

use crate::node::Node;
use crate::placed::{BIND, assert_memory, assert_no_policy, assert_shared_out, cpus, local_rank, pages_on};
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

/// Whose memory the user binds to node 1 has the cores beside his GPUs from us, and is told so.
fn memory_only(options: &str, numactl: &str, told: &str) {
    let Some(node) = Node::get() else { return };
    let step =
        format!("-n2 -c2 --gpus-per-node=2 --gres-flags=enforce-binding {options} --gpu-tune=h200,verbose {numactl}");
    let output = node.output(&step).fine();
    let tasks = output.witnesses();
    assert_eq!(tasks.len(), 2);
    for (task, gpu) in tasks.iter().zip(&node.truth.gpus) {
        assert!(cpus(task).is_subset(&gpu.cpus), "the cores are still ours: {task:?}");
        assert_memory(task, BIND, &NodeSet::from_iter([1]));
    }
    assert!(output.stderr.contains(told), "{}", output.stderr);
}

#[test]
fn a_mem_bind_of_the_user_stays() {
    memory_only("--mem-bind=map_mem:1,1", "", "--mem-bind");
}

/// `srun … numactl …`: CPUs far from the GPU, which the task's own share does not have.
#[test]
fn numactl_before_the_program_is_a_wish_and_told() {
    let Some(node) = Node::get() else { return };
    let far = node.truth.cpus_of(1).last().unwrap();
    let numactl = format!("numactl --all --physcpubind={far}");
    let output = node.output(&format!("-n2 -c8 --gpus-per-node=8 --gpu-tune=h200,verbose {numactl}")).fine();
    for task in output.witnesses() {
        assert_eq!(cpus(&task), CpuSet::from_iter([far]), "{task:?}");
        assert_no_policy(&task);
        assert!(pages_on(&task, &NodeSet::from_iter([1])) >= 99, "{task:?}");
    }
    assert!(output.stderr.contains("CPUs and memory are left as they are: `numactl` was given"), "{}", output.stderr);
}

#[test]
fn memory_by_numactl_stays_and_the_cores_are_ours() {
    memory_only("", "numactl --membind=1", "memory is left as it is: `numactl` was given");
}

#[test]
fn memory_that_the_user_places_around_a_launcher_stays_and_the_ranks_have_their_cores() {
    let Some(node) = Node::get() else { return };
    let launcher = node.launcher();
    for wish in ["--mem-bind=map_mem:1", "numactl --membind=1"] {
        let step = format!("-n1 -c16 --gpus-per-node=8 --gpu-tune=h200 {wish} {launcher} 8");
        let ranks = node.run(&step).fine().witnesses();
        for rank in &ranks {
            assert!(cpus(rank).is_subset(&node.truth.gpus[local_rank(rank)].cpus), "{rank:?}");
            assert_memory(rank, BIND, &NodeSet::from_iter([1]));
        }
        assert_shared_out(&ranks, &node.truth.cpus());
    }
}

/// A launcher of two ranks that starts them with numactl, on the last CPU of the other socket.
#[test]
fn numactl_before_the_ranks_of_a_launcher_has_the_last_word_and_is_told() {
    let Some(node) = Node::get() else { return };
    let (launcher, far) = (node.launcher(), node.truth.cpus_of(1).last().unwrap());
    let words = format!(
        "-n1 -c16 --gpus-per-node=8 --gpu-tune=h200,verbose {launcher} 2 numactl --physcpubind={far} --membind=1"
    );
    let output = node.run(&words).fine();
    let ranks = output.witnesses();
    assert_eq!(ranks.len(), 2);
    for rank in &ranks {
        assert_eq!(cpus(rank), CpuSet::from_iter([far]), "{rank:?}");
        assert_memory(rank, BIND, &NodeSet::from_iter([1]));
    }
    assert!(output.stderr.contains("what `numactl` binds is left as it is"), "{}", output.stderr);
}

/// Nobody can see from outside what a script does: the wish holds all the same, and afterwards `verify` names who did it.
#[test]
fn numactl_inside_a_ranks_script_has_the_last_word_and_verify_names_it() {
    let Some(node) = Node::get() else { return };
    let gpu_tune = node.cluster.place.inside("bin/gpu-tune").display().to_string();
    let verify = node.script("verify", &format!("{}\n{gpu_tune} verify --pid $$ 2>&1", node.witness()));
    let far = node.truth.cpus_of(1).last().unwrap();
    let rank = node.script("rank", &format!("numactl --physcpubind={far} --membind=1 bash {verify}"));
    let start = node.script("start", &format!("LOCAL_RANK=0 {rank}"));
    let output = node.run(&format!("-n1 -c16 --gpus-per-node=8 --gpu-tune=h200 {start}"));
    let found = output.witnesses().remove(0);
    assert_eq!(cpus(&found), CpuSet::from_iter([far]), "{found:?}");
    assert_memory(&found, BIND, &NodeSet::from_iter([1]));
    for said in ["memory policy is `bind:1`, planned is `prefer:0`", "`/usr/bin/numactl` started it"] {
        assert!(output.stdout.contains(said), "{}", output.stdout);
    }
}

#[test]
fn off_leaves_no_policy_and_slurms_own_masks() {
    let Some(node) = Node::get() else { return };
    let (plain, off) = (node.srun("-n4 -c2 --gpus-per-node=4"), node.srun("-n4 -c2 --gpus-per-node=4 --gpu-tune=off"));
    assert_eq!((plain.len(), off.len()), (4, 4));
    for (plain, off) in plain.iter().zip(&off) {
        assert_no_policy(off);
        assert_eq!(plain.cpus, off.cpus);
    }
}
