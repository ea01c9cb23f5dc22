//! One task that starts the ranks itself: the ranks are bound, by the shim, and not the launcher.

use crate::node::Node;
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
    for rank in &ranks {
        assert_eq!(crate::placed::cpus(rank), node.truth.cpus(), "{rank:?}");
    }
}
