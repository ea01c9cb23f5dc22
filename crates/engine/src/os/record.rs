//! A recorder in place of the kernel: keeps the exact list of calls, answers what a test tells it to, and can refuse the
//! nth call.
#![forbid(unsafe_code)]

use super::{Kind, Os, Policy};
use crate::plan::Memory;
use crate::{CpuSet, NodeSet};
use std::io;

/// A call that changes something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// `sched_setaffinity`.
    Affinity(CpuSet),
    /// `set_mempolicy`.
    Mempolicy(Memory),
}

/// A kernel that only takes notes.
#[derive(Debug, Clone)]
pub struct Recorder {
    /// The changing calls, in order, also those that were refused.
    pub calls: Vec<Call>,
    /// The mask that the thread has.
    pub affinity: CpuSet,
    /// What [`Os::mems_allowed`] answers.
    pub mems: NodeSet,
    policy: Policy,
    refuse: Vec<(usize, i32)>,
}

impl Recorder {
    /// A thread that may run on `cpus` and take memory from `mems`.
    pub fn new(cpus: CpuSet, mems: NodeSet) -> Self {
        let policy = Policy { kind: Kind::Default, nodes: NodeSet::new() };
        Self { calls: Vec::new(), affinity: cpus, mems, policy, refuse: Vec::new() }
    }

    /// Answers `errno` to the `nth` changing call, counted from 0.
    #[must_use]
    pub fn refusing(mut self, nth: usize, errno: i32) -> Self {
        self.refuse.push((nth, errno));
        self
    }

    fn note(&mut self, call: Call) -> io::Result<()> {
        let nth = self.calls.len();
        self.calls.push(call);
        match self.refuse.iter().find(|(refused, _)| *refused == nth) {
            Some((_, errno)) => Err(io::Error::from_raw_os_error(*errno)),
            None => Ok(()),
        }
    }
}

impl Os for Recorder {
    fn set_affinity(&mut self, cpus: &CpuSet) -> io::Result<()> {
        self.note(Call::Affinity(cpus.clone()))?;
        self.affinity = cpus.clone();
        Ok(())
    }

    fn get_affinity(&mut self) -> io::Result<CpuSet> {
        Ok(self.affinity.clone())
    }

    fn set_mempolicy(&mut self, memory: &Memory) -> io::Result<()> {
        self.note(Call::Mempolicy(memory.clone()))?;
        self.policy = Policy::from(memory);
        Ok(())
    }

    fn get_mempolicy(&mut self) -> io::Result<Policy> {
        Ok(self.policy.clone())
    }

    fn mems_allowed(&mut self) -> io::Result<NodeSet> {
        Ok(self.mems.clone())
    }
}
