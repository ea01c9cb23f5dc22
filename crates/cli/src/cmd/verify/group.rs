//! Which processes belong together: a rank and everything it started.

use super::planned::{Planned, planned};
use crate::proc::{Environ, Proc};

/// Which processes to look at.
#[derive(Debug, Clone, Copy)]
pub(super) enum Scope<'a> {
    /// Those of one job.
    Job(&'a str),
    /// All that gpu-tune tuned.
    Node,
    /// Just these, tuned or not.
    Pids(&'a [u32]),
}

/// A rank, or a launcher, with its processes.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) name: Name,
    /// Ascending, which mostly means that the first started the others.
    pub(super) pids: Vec<u32>,
    /// The first process's environment.
    pub(super) environ: Environ,
    /// What is planned for it.
    pub(super) planned: Planned,
}

/// Who it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    pub(super) job: String,
    pub(super) step: String,
    /// `SLURM_LOCALID`.
    pub(super) task: Option<u32>,
    /// For a rank that a launcher started.
    pub(super) local_rank: Option<u32>,
    /// For a process that was named by its pid, which stands for itself.
    pub(super) pid: Option<u32>,
}

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) groups: Vec<Group>,
    /// Processes whose environment only root may read.
    pub(super) hidden: usize,
}

/// Finds the groups, sorted by job, step, task and rank.
pub(super) fn find(proc: &Proc, scope: Scope<'_>) -> Found {
    let mut found = Found::default();
    let pids = match scope {
        Scope::Pids(pids) => pids.to_vec(),
        Scope::Job(_) | Scope::Node => proc.pids(),
    };
    for pid in pids.into_iter().filter(|pid| *pid != std::process::id()) {
        match proc.environ(pid) {
            Ok(environ) if wanted(&environ, scope) => found.add(pid, environ, matches!(scope, Scope::Pids(_))),
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => found.hidden += 1,
            // It ended meanwhile, or is the kernel's own.
            Err(_) => {}
        }
    }
    found.groups.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

fn wanted(environ: &Environ, scope: Scope<'_>) -> bool {
    let tuned = environ.contains_key("GPU_TUNE_PROFILE");
    match scope {
        Scope::Pids(_) => true,
        Scope::Node => tuned,
        Scope::Job(job) => tuned && environ.get("SLURM_JOB_ID").is_some_and(|id| id == job),
    }
}

impl Found {
    fn add(&mut self, pid: u32, environ: Environ, alone: bool) {
        let planned = planned(&environ);
        let text = |name: &str| environ.get(name).cloned().unwrap_or_default();
        let name = Name {
            job: text("SLURM_JOB_ID"),
            step: text("SLURM_STEP_ID"),
            task: environ.get("SLURM_LOCALID").and_then(|id| id.parse().ok()),
            local_rank: planned.local_rank,
            pid: alone.then_some(pid),
        };
        match self.groups.iter_mut().find(|group| group.name == name) {
            Some(group) => group.pids.push(pid),
            None => self.groups.push(Group { name, pids: vec![pid], environ, planned }),
        }
    }
}
