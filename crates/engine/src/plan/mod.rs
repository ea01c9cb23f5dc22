//! Decides which CPUs and which NUMA nodes each rank gets, given the GPUs of the step.
//!
//! Input and output are plain data. Nothing here opens a file or asks the kernel, so the plan made from a replayed
//! machine is the plan that machine would get. It is made in two stages, because a task learns which GPUs are its own
//! only after the fork:
//!
//! - [`Layout::new`], once per step, before the fork: one [`Slice`] for each GPU of the step, divided into one [`Share`]
//!   for each rank that will drive that GPU.
//! - [`Layout::task`], in each task: selects. It computes no sharing, so all tasks of a node agree without talking.
//!
//! # The rules
//!
//! Comments elsewhere refer to them by number.
//!
//! 1. GPUs come first: a rank's cores follow from its GPUs, and no rank loses a GPU.
//! 2. A GPU is its PCI address or its UUID. Indices count in the step's order, and only where devices are not
//!    constrained; where they are, a task's GPUs are those that it may open.
//! 3. What is near a GPU comes from hwloc, sysfs, NVML or the admin's map, in this order. Where nobody knows, the allowed
//!    CPUs are divided evenly, without a memory policy and with a warning.
//! 4. Only what the step owns and the cpuset allows is given out. A task whose mask the user, or anyone but Slurm, made
//!    narrower is left alone.
//! 5. Ranks share by whole cores, in hwloc's logical order. Sizes differ by one core at most; sets are equal or disjoint.
//! 6. Cores of NUMA nodes without a GPU go to the GPUs of the same package, nearest first; memory follows the cores.
//! 7. More ranks than cores overlap, with a warning. More ranks than GPUs take turns.
//! 8. A launcher alone on its node keeps all its CPUs; several get the union of their slices each. Ranks get one slice.
//! 9. A GPU with nothing near it that may be used keeps a share of what there is, with a warning.
//! 10. Memory comes from host memory that the job may use. Where the kernel refuses the policy, the CPUs stay bound.
//! 11. One core for several ranks: a warning, and nothing is changed.
//! 12. High ids, ids with gaps, offline CPUs and empty lists are ordinary input.
//! 13. A batch script's or interactive shell's own process keeps what it has; the ranks that it starts get their slices.
//! 14. Tasks that all see the same GPUs are dealt them by local id: one each to as many tasks, equal blocks to fewer, in
//!     turns to more.
#![forbid(unsafe_code)]

mod cores;
mod layout;
mod locality;
mod memory;
pub mod nics;
mod notices;
mod share;
mod task;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
pub mod visible;

#[cfg(doc)]
use crate::Machine;
use crate::spec::{CpuPolicy, MemPolicy, Smt};
use crate::{CpuSet, NodeSet, Notice, PciAddress};
use std::collections::BTreeMap;

/// What Slurm (or the command line) gave, and what the profile wants.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// Tasks of the step on this node.
    pub tasks: u32,
    /// What the tasks are.
    pub mode: Mode,
    /// The step's GPUs on this node, in the step's order, as indices into [`Machine::gpus`]. A GPU that is there twice (two
    /// MIG devices) gets two slices, which divide its cores.
    pub gpus: Vec<usize>,
    /// CPUs that the step owns on this node.
    pub cpus: CpuSet,
    /// NUMA nodes that its memory may come from (`Mems_allowed_list`); `None`: all.
    pub mems: Option<NodeSet>,
    /// The binding that the profile, the user and the admin's locks came to.
    pub binding: Binding,
    /// The admin's map for machines whose firmware does not know: GPU → NUMA node.
    pub gpu_numa: BTreeMap<PciAddress, u32>,
    /// A batch script or a salloc shell: the ranks get their slices, the shell itself keeps what it has (rule 13).
    pub keep_launcher: bool,
}

/// What a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// A task with several GPUs of its own is a launcher, one with a single GPU is a rank.
    #[default]
    Auto,
    /// A process that drives its GPUs itself.
    Rank,
    /// A process that starts the ranks: torchrun, mpirun, a batch script.
    Launcher,
}

/// How ranks are to be bound.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Binding {
    /// CPUs.
    pub cpu: CpuPolicy,
    /// Memory.
    pub mem: MemPolicy,
    /// Hardware threads.
    pub smt: Smt,
    /// CPUs no rank may use.
    pub reserve: Reserve,
    /// Only the cores that firmware marks fastest, an equal number per rank.
    pub prefer_priority: bool,
}

impl Binding {
    /// The binding less what the user does himself. Who binds CPUs has memory placed with them, too.
    pub fn less(&mut self, cpus: bool, memory: bool) {
        if cpus {
            self.cpu = CpuPolicy::Off;
        }
        if cpus || memory {
            self.mem = MemPolicy::Off;
        }
    }
}

/// CPUs that no rank may use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Reserve {
    /// None.
    #[default]
    Nothing,
    /// These CPUs.
    Cpus(CpuSet),
    /// The first core of every NUMA node.
    FirstCorePerNuma,
}

impl std::fmt::Display for Reserve {
    /// As in a profile.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Nothing => Ok(()),
            Self::Cpus(cpus) => write!(f, "{cpus}"),
            Self::FirstCorePerNuma => f.write_str("first-core-per-numa"),
        }
    }
}

/// One slice per GPU of the step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layout {
    /// In the order of [`Request::gpus`].
    pub slices: Vec<Slice>,
    /// What a person should hear, told once per step.
    pub notices: Vec<Notice>,
    /// Copied from the request: what [`Layout::task`] needs.
    pub tasks: u32,
    /// As asked for.
    pub mode: Mode,
    /// As asked for.
    pub keep_launcher: bool,
    /// CPUs that the step owns: what a launcher that is alone keeps. Empty: no mask is changed.
    pub cpus: CpuSet,
}

/// The part of the allowed cores that belongs to one GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// Index into [`Machine::gpus`].
    pub gpu: usize,
    /// The whole slice.
    pub whole: Share,
    /// One for each rank that drives this GPU; a single one, equal to `whole`, unless ranks divide it.
    pub shares: Vec<Share>,
    /// None of the GPU's near CPUs may be used (rule 9).
    pub remote: bool,
}

/// What one process is bound to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Share {
    /// CPUs for `sched_setaffinity`; `None`: leave the mask alone.
    pub cpus: Option<CpuSet>,
    /// Nodes for `set_mempolicy`, the GPU's own first in importance; `None`: leave the policy alone.
    pub memory: Option<Memory>,
}

/// A memory policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Memory {
    /// Prefer or insist.
    pub policy: MemKind,
    /// Never empty; only nodes with host memory that the step may use.
    pub nodes: NodeSet,
    /// The node to name where the kernel can prefer only one (before 5.15): the GPU's own if it is in `nodes`.
    pub first: u32,
}

/// The kind of a memory policy that is really set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemKind {
    /// `MPOL_PREFERRED_MANY`, or `MPOL_PREFERRED` for one node and on old kernels.
    Preferred,
    /// `MPOL_BIND`.
    Bind,
}

/// Which of the step's GPUs a task may use.
#[derive(Debug, Clone, Copy)]
pub enum Own<'a> {
    /// All of them, as the other tasks do: they are dealt out by local id (rule 14).
    All,
    /// Just these, as positions in [`Layout::slices`]. `turn` tells which of the tasks on the same GPU this one is: 0 for
    /// the first; it picks the share.
    These {
        /// Positions in [`Layout::slices`], in the task's own order.
        slices: &'a [usize],
        /// This task's turn among the tasks of its first GPU.
        turn: usize,
    },
}

/// What becomes of one task.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TaskPlan {
    /// `SLURM_LOCALID`.
    pub local_id: u32,
    /// Its GPUs, as indices into [`Machine::gpus`].
    pub gpus: Vec<usize>,
    /// What the task itself is bound to.
    pub share: Share,
    /// The ranks that it starts; empty in rank mode.
    pub ranks: Vec<RankPlan>,
}

impl TaskPlan {
    /// Where nobody is to bind the ranks that it starts.
    pub fn leave_ranks_alone(&mut self) {
        self.ranks.iter_mut().for_each(|rank| rank.share = Share::default());
    }
}

/// What becomes of one rank that a launcher starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankPlan {
    /// Its local rank within the launcher.
    pub local_rank: u32,
    /// Index into [`Machine::gpus`].
    pub gpu: usize,
    /// What it is bound to.
    pub share: Share,
}
