//! The system calls that carry a plan out: the [`Os`] trait, the kernel behind it ([`linux`]) and a recorder for tests
//! ([`record`]).
//!
//! hwloc's binding calls are not used: on a replayed topology they do nothing and report success.

pub mod linux;
pub mod record;

use crate::plan::{MemKind, Memory};
use crate::{CpuSet, NodeSet};
use std::io;

/// What the kernel can be asked about, and told to do with, the calling thread.
pub trait Os {
    /// Binds the calling thread to `cpus` (`sched_setaffinity`).
    ///
    /// # Errors
    /// `EINVAL` when none of the CPUs may be used, `EPERM` from a seccomp filter.
    fn set_affinity(&mut self, cpus: &CpuSet) -> io::Result<()>;

    /// The CPUs the calling thread may run on (`sched_getaffinity`).
    ///
    /// # Errors
    /// What the kernel says.
    fn get_affinity(&mut self) -> io::Result<CpuSet>;

    /// Sets the calling thread's default memory policy (`set_mempolicy`).
    ///
    /// # Errors
    /// `EINVAL` when none of the nodes may be used, `EPERM` from a seccomp filter, `ENOSYS` without NUMA in the kernel.
    fn set_mempolicy(&mut self, memory: &Memory) -> io::Result<()>;

    /// The calling thread's default memory policy (`get_mempolicy`).
    ///
    /// # Errors
    /// What the kernel says.
    fn get_mempolicy(&mut self) -> io::Result<Policy>;

    /// The NUMA nodes that memory may come from (`Mems_allowed` in /proc/self/status).
    ///
    /// # Errors
    /// When neither `get_mempolicy(2)` nor /proc/self/status tells.
    fn mems_allowed(&mut self) -> io::Result<NodeSet>;
}

/// A memory policy as the kernel tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// The kind; [`Kind::Default`] means that nobody set one.
    pub kind: Kind,
    /// The nodes that it names; empty for the default one.
    pub nodes: NodeSet,
}

/// The kinds of memory policies (`linux/mempolicy.h`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `MPOL_DEFAULT`: memory of the node that first touches it.
    Default,
    /// `MPOL_PREFERRED`, also with an empty set of nodes, and `MPOL_PREFERRED_MANY`.
    Preferred,
    /// `MPOL_BIND`.
    Bind,
    /// Anything else, by the kernel's number: interleave (3), local (4), weighted interleave (6).
    Other(i32),
}

impl From<&Memory> for Policy {
    fn from(memory: &Memory) -> Self {
        let kind = match memory.policy {
            MemKind::Preferred => Kind::Preferred,
            MemKind::Bind => Kind::Bind,
        };
        Self { kind, nodes: memory.nodes.clone() }
    }
}
