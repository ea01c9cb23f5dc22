//! The table of `make demo-vm`: the same step without and with us, side by side.

use crate::node::Node;
use crate::placed::{assert_beside, pages_on};
use crate::slurm::run::Witness;
use crate::truth::Gpu;
use gpu_tune_engine::NodeSet;

#[test]
fn demo_before_and_after_side_by_side() {
    let Some(node) = Node::get() else { return };
    let step = "-n8 -c2 --gpus-per-node=8";
    let (before, after) = (node.srun(step), node.srun(&format!("{step} --gpu-tune=h200")));
    println!("\n  without gpu-tune: srun {step} train\n  with gpu-tune:    srun {step} --gpu-tune=h200 train\n");
    println!("  {:>22}{:>26}{:>26}", "", "without gpu-tune", "with gpu-tune");
    println!("  task  GPU           socket      CPUs  memory beside GPU      CPUs  memory beside GPU");
    for ((before, after), gpu) in before.iter().zip(&after).zip(&node.truth.gpus) {
        println!("{}", row(before, after, gpu));
    }
    println!();
    for (task, gpu) in after.iter().zip(&node.truth.gpus) {
        assert_beside(task, gpu);
    }
}

fn row(before: &Witness, after: &Witness, gpu: &Gpu) -> String {
    let beside = |witness: &Witness| format!("{} %", pages_on(witness, &NodeSet::from_iter([gpu.node])));
    let (without, with) = (beside(before), beside(after));
    format!(
        "  {:>4}  {}  {:>6}  {:>8}  {without:>17}  {:>8}  {with:>17}",
        before.rank, gpu.pci, gpu.node, before.cpus, after.cpus
    )
}
