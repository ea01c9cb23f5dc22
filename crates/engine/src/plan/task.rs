//! The second stage: one task selects its part of the [`Layout`]. Nothing is divided here, so tasks agree without talking.
#![forbid(unsafe_code)]

use super::{Layout, Mode, Own, RankPlan, Share, Slice, TaskPlan, memory};
use crate::CpuSet;

impl Layout {
    /// Selects one task's part. A task without GPUs gets an empty plan, which changes nothing.
    pub fn task(&self, local_id: u32, own: Own<'_>) -> TaskPlan {
        let (slices, turn) = self.own(local_id, own);
        let gpus: Vec<usize> = slices.iter().map(|slice| slice.gpu).collect();
        if self.launches(&gpus) {
            return TaskPlan { local_id, share: self.launcher(&slices, turn), ranks: ranks(&slices, turn), gpus };
        }
        TaskPlan { local_id, gpus, share: together(&slices, turn), ranks: Vec::new() }
    }

    /// The task's slices, and which of the shares of each is its.
    fn own(&self, local_id: u32, own: Own<'_>) -> (Vec<&Slice>, usize) {
        match own {
            Own::All => self.dealt(local_id),
            Own::These { slices, turn } => (slices.iter().filter_map(|&at| self.slices.get(at)).collect(), turn),
        }
    }

    /// GPUs dealt out by local id (rule 14).
    fn dealt(&self, local_id: u32) -> (Vec<&Slice>, usize) {
        let (id, gpus) = (usize::try_from(local_id).unwrap_or(0), self.slices.len());
        let tasks = usize::try_from(self.tasks).unwrap_or(usize::MAX).max(1);
        if gpus == 0 {
            return (Vec::new(), 0);
        }
        if tasks > gpus {
            return (self.slices.iter().skip(id % gpus).take(1).collect(), id / gpus);
        }
        let (each, more, id) = (gpus / tasks, gpus % tasks, id % tasks);
        let start = id * each + id.min(more);
        (self.slices.iter().skip(start).take(each + usize::from(id < more)).collect(), 0)
    }

    fn launches(&self, gpus: &[usize]) -> bool {
        match self.mode {
            Mode::Auto => gpus.len() > 1,
            Mode::Rank => false,
            Mode::Launcher => !gpus.is_empty(),
        }
    }

    /// What a launcher itself is bound to. It never gets a memory policy: its ranks would inherit it, and the shim leaves
    /// processes alone whose policy is not the default.
    fn launcher(&self, slices: &[&Slice], turn: usize) -> Share {
        if self.keep_launcher {
            return Share::default();
        }
        if self.tasks <= 1 {
            return Share { cpus: (!self.cpus.is_empty()).then(|| self.cpus.clone()), memory: None };
        }
        Share { memory: None, ..together(slices, turn) }
    }
}

fn ranks(slices: &[&Slice], turn: usize) -> Vec<RankPlan> {
    let rank = |(local_rank, slice): (u32, &&Slice)| RankPlan { local_rank, gpu: slice.gpu, share: part(slice, turn) };
    (0..).zip(slices).map(rank).collect()
}

/// The share of a slice for the task whose turn it is; turns start again when there are more tasks than shares.
fn part(slice: &Slice, turn: usize) -> Share {
    slice.shares.get(turn % slice.shares.len().max(1)).unwrap_or(&slice.whole).clone()
}

/// Everything of several slices for one process.
fn together(slices: &[&Slice], turn: usize) -> Share {
    let parts: Vec<Share> = slices.iter().map(|slice| part(slice, turn)).collect();
    let cpus: Option<Vec<&CpuSet>> = parts.iter().map(|part| part.cpus.as_ref()).collect();
    Share {
        cpus: cpus.filter(|sets| !sets.is_empty()).map(|sets| sets.iter().fold(CpuSet::new(), |all, set| &all | set)),
        memory: memory::union(parts.iter().map(|part| part.memory.as_ref())),
    }
}
