//! The tables of `make demo-vm`: the same steps without and with us, side by side.

use crate::node::Node;
use crate::placed::{assert_each_beside, cpus, pages_on};
use crate::slurm::run::Witness;
use crate::truth::{Gpu, Truth};
use gpu_tune_engine::NodeSet;

const ABOUT: &str = "
A virtual node with two sockets, eight CPUs and four GPUs on each (display devices stand for the GPUs), a real kernel, a real
Slurm. Each rank touches 32 MiB and reads back where the kernel lets it run, and how much of that memory is near: on the socket
of its GPU.";

#[test]
fn demo_before_and_after_side_by_side() {
    let Some(node) = Node::get() else { return };
    println!("{ABOUT}");
    let (task, launcher) = (node.witness(), node.launcher());
    compare(&node, "One task per GPU", "-n8 -c2 --gpus-per-node=8", "python train.py", &task);
    let words = "-n1 -c16 --gpus-per-node=8";
    compare(&node, "One task that starts eight ranks", words, "torchrun train.py", &format!("{launcher} 8"));
}

/// Runs a step twice; `shown` is what a user would start, `program` what stands for it here.
fn compare(node: &Node, title: &str, step: &str, shown: &str, program: &str) {
    println!(
        "\n{title}\n  without gpu-tune: srun {step} {shown}\n  with gpu-tune:    srun {step} --gpu-tune=h200 {shown}\n"
    );
    let before = ranks(node, &format!("{step} --gpu-tune=off {program}"));
    let after = ranks(node, &format!("{step} --gpu-tune=h200 {program}"));
    println!("                              without gpu-tune             with gpu-tune");
    println!("  rank  GPU           socket  CPUs   socket  near memory   CPUs   socket  near memory");
    for ((before, after), gpu) in before.iter().zip(&after).zip(&node.truth.gpus) {
        let (number, pci, socket) = (number(before), gpu.pci, gpu.node);
        let (without, with) = (cells(before, gpu, &node.truth), cells(after, gpu, &node.truth));
        println!("  {number:<4}  {pci}  {socket:<6}  {without}   {with}");
    }
    println!("  {:<28}{:<29}{}", "", total(&before, &node.truth), total(&after, &node.truth));
    assert_each_beside(&after, &node.truth.gpus);
    assert!(placed(&before, &node.truth) < before.len(), "nothing to put right here: {before:#?}");
}

fn ranks(node: &Node, words: &str) -> Vec<Witness> {
    let mut ranks = node.run(words).fine().witnesses();
    ranks.sort_by_key(number);
    ranks
}

/// The rank on this node: the launcher's number, or Slurm's.
fn number(witness: &Witness) -> u32 {
    witness.var("LOCAL_RANK").map_or(witness.rank, |rank| rank.parse().unwrap())
}

fn cells(witness: &Witness, gpu: &Gpu, truth: &Truth) -> String {
    let sockets = truth.nodes_of(&cpus(witness)).to_string();
    let near = format!("{} %", near(witness, gpu));
    format!("{:<5}  {sockets:<6}  {near:>11}", witness.cpus)
}

/// The share of its memory on its GPU's socket, in percent.
fn near(witness: &Witness, gpu: &Gpu) -> u64 {
    pages_on(witness, &NodeSet::from_iter([gpu.node]))
}

fn total(ranks: &[Witness], truth: &Truth) -> String {
    format!("{} of {} beside their GPU", placed(ranks, truth), ranks.len())
}

/// How many ranks have nothing but CPUs and memory of their GPU's socket.
fn placed(ranks: &[Witness], truth: &Truth) -> usize {
    let beside = |(rank, gpu): &(&Witness, &Gpu)| cpus(rank).is_subset(&gpu.cpus) && near(rank, gpu) >= 99;
    ranks.iter().zip(&truth.gpus).filter(beside).count()
}
