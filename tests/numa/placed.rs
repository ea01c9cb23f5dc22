//! What "placed" means: the assertions that the tests share.

use crate::slurm::run::Witness;
use crate::truth::{Gpu, Truth};
use gpu_tune_engine::{CpuSet, NodeSet};

/// `get_mempolicy`'s modes.
pub(crate) const DEFAULT: i64 = 0;
pub(crate) const PREFERRED: i64 = 1;
pub(crate) const BIND: i64 = 2;
pub(crate) const PREFERRED_MANY: i64 = 5;

/// The CPUs that the task may run on.
pub(crate) fn cpus(witness: &Witness) -> CpuSet {
    witness.cpus.parse().unwrap()
}

/// The CPUs of all tasks together.
pub(crate) fn all_cpus(witnesses: &[Witness]) -> CpuSet {
    let mut all = CpuSet::new();
    witnesses.iter().for_each(|witness| all.extend(&cpus(witness)));
    all
}

/// The only GPU that a task can open.
#[track_caller]
pub(crate) fn own_gpu<'a>(truth: &'a Truth, witness: &Witness) -> &'a Gpu {
    let [gpu] = witness.devices[..] else { panic!("not one GPU: {witness:?}") };
    &truth.gpus[gpu as usize]
}

/// The local rank that a launcher gave.
#[track_caller]
pub(crate) fn local_rank(witness: &Witness) -> usize {
    witness.var("LOCAL_RANK").unwrap().parse().unwrap()
}

/// The share of its touched pages that lies on these nodes, in percent.
pub(crate) fn pages_on(witness: &Witness, nodes: &NodeSet) -> u64 {
    let all: u64 = witness.pages.values().sum();
    let there: u64 = witness.pages.iter().filter(|(node, _)| nodes.contains(**node)).map(|(_, pages)| pages).sum();
    assert!(all > 0, "no page was found: {witness:?}");
    there * 100 / all
}

/// The rank runs only beside its GPU, prefers that memory and got it.
#[track_caller]
pub(crate) fn assert_beside(witness: &Witness, gpu: &Gpu) {
    assert!(cpus(witness).is_subset(&gpu.cpus), "GPU {} is beside {}: {witness:?}", gpu.pci, gpu.cpus);
    assert_memory(witness, PREFERRED, &NodeSet::from_iter([gpu.node]));
}

/// One rank for each of these GPUs, each beside its own.
#[track_caller]
pub(crate) fn assert_each_beside(witnesses: &[Witness], gpus: &[Gpu]) {
    assert_eq!(witnesses.len(), gpus.len(), "{witnesses:#?}");
    witnesses.iter().zip(gpus).for_each(|(witness, gpu)| assert_beside(witness, gpu));
}

/// The policy is this one, on these nodes, and nearly all pages are there.
#[track_caller]
pub(crate) fn assert_memory(witness: &Witness, policy: i64, nodes: &NodeSet) {
    let found: NodeSet = witness.nodes.iter().map(|node| u32::try_from(*node).unwrap()).collect();
    assert_eq!((witness.policy, &found), (policy, nodes), "{witness:?}");
    assert!(pages_on(witness, nodes) >= 99, "{witness:?}");
}

/// No two ranks share a CPU and together they have exactly these.
#[track_caller]
pub(crate) fn assert_shared_out(witnesses: &[Witness], all: &CpuSet) {
    let mut taken = CpuSet::new();
    for witness in witnesses {
        let own = cpus(witness);
        assert!(own.is_disjoint(&taken), "{own} is also another rank's: {witnesses:#?}");
        taken.extend(&own);
    }
    assert_eq!(&taken, all);
}

/// Slurm's own layout: no policy of anybody.
#[track_caller]
pub(crate) fn assert_no_policy(witness: &Witness) {
    assert_eq!((witness.policy, witness.nodes.len()), (DEFAULT, 0), "{witness:?}");
}
