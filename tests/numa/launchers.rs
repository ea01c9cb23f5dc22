//! One task that starts the ranks itself: the ranks are bound, by the shim, and not the launcher.

use crate::node::{Node, skip};
use crate::placed::{assert_beside, assert_shared_out, local_rank};

#[test]
fn short_the_ranks_of_one_launcher_run_and_allocate_beside_their_gpus() {
    let Some(node) = Node::get() else { return };
    let launcher = node.launcher();
    let ranks = node.run(&format!("-n1 -c16 --gpus-per-node=8 --gpu-tune=h200 {launcher} 8")).fine().witnesses();
    assert_eq!(ranks.len(), 8);
    for rank in &ranks {
        assert_beside(rank, &node.truth.gpus[local_rank(rank)]);
    }
    assert_shared_out(&ranks, &node.truth.cpus());
}

#[test]
fn two_launchers_serve_half_of_the_gpus_each() {
    let Some(node) = Node::get() else { return };
    let launcher = node.launcher();
    let ranks = node.run(&format!("-n2 -c8 --gpus-per-node=8 --gpu-tune=h200 {launcher} 4")).fine().witnesses();
    assert_eq!(ranks.len(), 8);
    for rank in &ranks {
        let gpu = rank.rank as usize * 4 + local_rank(rank);
        assert_beside(rank, &node.truth.gpus[gpu]);
    }
    assert_shared_out(&ranks, &node.truth.cpus());
}

#[test]
fn without_us_the_ranks_of_a_launcher_run_anywhere() {
    let Some(node) = Node::get() else { return };
    let launcher = node.launcher();
    let ranks = node.run(&format!("-n1 -c16 --gpus-per-node=8 --gpu-tune=off {launcher} 8")).fine().witnesses();
    assert_eq!(ranks.len(), 8);
    for rank in &ranks {
        assert_eq!(crate::placed::cpus(rank), node.truth.cpus(), "{rank:?}");
    }
}

#[test]
fn the_ranks_of_a_real_torchrun_run_and_allocate_beside_their_gpus() {
    let Some(node) = Node::get() else { return };
    if !std::path::Path::new("/usr/bin/torchrun").exists() {
        return skip("torchrun (python3-torch)");
    }
    // What Debian 12's torchrun (1.13) needs on Python 3.11 to start workers at all.
    let fixed = "--export=ALL,PET_REDIRECTS=1,PET_TEE=1";
    let torchrun = "torchrun --no_python --nproc_per_node=8";
    let words = format!("-n1 -c16 --gpus-per-node=8 {fixed} --gpu-tune=h200 {torchrun} {}", node.witness());
    // With a tee, each line begins with the name of its worker.
    let mut output = node.run(&words).fine();
    let lines = output.stdout.lines().filter_map(|line| line.find("PROBE ").map(|at| &line[at..]));
    output.stdout = lines.collect::<Vec<_>>().join("\n");
    let ranks = output.witnesses();
    assert_eq!(ranks.len(), 8);
    for rank in &ranks {
        assert_beside(rank, &node.truth.gpus[local_rank(rank)]);
    }
    assert_shared_out(&ranks, &node.truth.cpus());
}
