//! Who a process is: its job, step and task, and its number among the ranks of a launcher.

use super::origin::{Origin, Process};
use super::planned::Planned;
use crate::proc::Environ;
use gpu_tune_shim_core::env;
use gpu_tune_shim_core::rank::TELLING;
use std::str::from_utf8;

/// Who it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    /// Empty outside Slurm.
    pub(super) job: String,
    pub(super) step: String,
    /// `SLURM_LOCALID`.
    pub(super) task: Option<u32>,
    /// Outside Slurm, where several commands may run at once: the launcher's pid, for it and its ranks. Of a command that is a
    /// rank without a number: its pid.
    pub(super) lead: Option<u32>,
    /// For a rank that a launcher started.
    pub(super) local_rank: Option<u32>,
    /// For a process that stands for itself: it was named by its pid, or its environment is lost.
    pub(super) pid: Option<u32>,
}

impl Name {
    /// From what a process has in its environment and where it belongs.
    pub(super) fn of(process: &Process, planned: &Planned) -> Self {
        let Origin { job, step, task } = process.origin.clone().unwrap_or_default();
        let task = task.or_else(|| number(&process.environ, LOCALID));
        // In a step, the task tells the ranks apart that nobody but Slurm started.
        let itself = job.is_empty() && process.tuned() && !planned.launcher;
        let own = || own_number(&process.environ).filter(|_| itself);
        Self { job, step, task, local_rank: planned.local_rank.or_else(own), ..Self::default() }
    }
}

const LOCALID: &str = "SLURM_LOCALID";

/// The local rank of a process that is a rank itself, as its launcher wrote it.
fn own_number(environ: &Environ) -> Option<u32> {
    let ranks = TELLING.into_iter().filter(|name| *name != env::Name::TorchelasticRunId);
    let mut names = ranks.filter_map(|name| from_utf8(name.text()).ok()).chain([LOCALID]);
    names.find_map(|name| number(environ, name))
}

fn number(environ: &Environ, name: &str) -> Option<u32> {
    environ.get(name)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_launcher_tells_the_number_and_slurm_is_asked_last() {
        let of = |entries: &[(&str, &str)]| {
            own_number(&entries.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
        };
        for name in ["LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PMI_LOCAL_RANK", "SLURM_LOCALID"] {
            assert_eq!(of(&[(name, "3")]), Some(3), "{name}");
        }
        assert_eq!(of(&[("SLURM_LOCALID", "0"), ("PMI_LOCAL_RANK", "2")]), Some(2));
        assert_eq!(of(&[("TORCHELASTIC_RUN_ID", "7"), ("LOCAL_RANK", "x")]), None);
    }
}
