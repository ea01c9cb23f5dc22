//! To which step a process belongs, also where its environment does not tell.
//!
//! An environment can be emptied (`env -i`), overwritten (programs that show a title of their own, by setproctitle, write it
//! over their arguments and environment) or unreadable (a set-uid program's, to its own user). Then the step is told by the
//! cgroup, which Slurm makes for each step and task, and by slurmstepd above the process, which has the step in its title.
//! That is what `scontrol listpids` goes by too, with `proctrack/cgroup` and `proctrack/linuxproc`. Read here, it needs no Slurm
//! that answers; a process that left both, but kept its environment, is found as well, and so is one whose name has a blank in
//! it, which 22.05's linuxproc does not list.

use super::blame;
use super::kept::Kept;
use crate::proc::{Environ, Proc};
use gpu_tune_engine::launch::rendezvous::INTERACTIVE_STEP;
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::rc::Rc;

/// How far up the ancestors are followed.
pub(super) const GENERATIONS: usize = 64;

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

/// Where a process belongs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) job: String,
    /// `SLURM_STEP_ID`; empty for a batch script.
    pub(super) step: String,
    /// The task's number on this node.
    pub(super) task: Option<u32>,
}

/// What became of an environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lost {
    /// Emptied or overwritten.
    Gone,
    /// Only root may read it.
    Hidden,
    /// Bigger than is read, or than is kept of one user's.
    TooBig,
}

/// A process.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) parent: u32,
    /// `None` when it is gone.
    pub(super) user: Option<u32>,
    /// Whole if it is tuned or was named by its pid; else the few variables that are asked for later.
    pub(super) environ: Rc<Environ>,
    /// Why the environment tells nothing: it could not be read.
    pub(super) unread: Option<Lost>,
    pub(super) origin: Option<Origin>,
    stepd: bool,
}

impl Process {
    /// Whether its environment says that gpu-tune tuned it.
    pub(super) fn tuned(&self) -> bool {
        is_tuned(&self.environ)
    }

    /// What everybody may read, and no process can invent: slurmstepd's title, and the cgroup.
    fn outside(proc: &Proc, pid: u32) -> Self {
        // Everybody can give a process this title.
        let title = || proc.cmdline(pid).unwrap_or_default().join(" ");
        let stepd = proc.is_trusted(pid).then(title).and_then(|title| of_title(&title));
        let is_stepd = stepd.is_some();
        let origin = stepd.or_else(|| of_cgroup(&proc.cgroup(pid)));
        let (parent, user) = (proc.parent(pid), proc.user(pid));
        Self { parent, user, environ: Rc::default(), unread: None, origin, stepd: is_stepd }
    }

    /// Adds what its environment tells.
    fn tell(&mut self, environ: Environ) {
        if let Some(own) = of_environ(&environ).filter(|_| !self.stepd) {
            self.origin = Some(own);
        }
        self.environ = Rc::new(environ);
    }
}

fn is_tuned(environ: &Environ) -> bool {
    environ.contains_key("GPU_TUNE_PROFILE")
}

/// The processes of a node.
#[derive(Debug)]
pub(super) struct Processes(BTreeMap<u32, Process>);

impl Processes {
    /// Reads all but this one.
    pub(super) fn read(proc: &Proc, scope: Scope<'_>) -> Self {
        let others = proc.pids().into_iter().filter(|pid| *pid != std::process::id());
        let mut all = Self(others.map(|pid| (pid, Process::outside(proc, pid))).collect());
        let mut kept = Kept::default();
        for pid in all.telling(scope) {
            let named = matches!(scope, Scope::Pids(pids) if pids.contains(&pid));
            all.open(proc, pid, named, &mut kept);
        }
        let found: Vec<(u32, Origin)> = all.0.keys().filter_map(|pid| Some((*pid, all.inherited(*pid)?))).collect();
        for (pid, origin) in found {
            if let Some(process) = all.0.get_mut(&pid) {
                process.origin = Some(origin);
            }
        }
        all
    }

    /// The processes whose environments matter.
    fn telling(&self, scope: Scope<'_>) -> BTreeSet<u32> {
        let all = self.0.keys().copied();
        match scope {
            Scope::Node => all.collect(),
            Scope::Job(job) => all.filter(|pid| !self.is_of_another(*pid, job)).collect(),
            Scope::Pids(pids) => {
                let line = |pid: &u32| std::iter::once(*pid).chain(self.above(*pid).map(|(pid, _)| pid));
                pids.iter().filter(|pid| self.0.contains_key(pid)).flat_map(line).collect()
            }
        }
    }

    /// Whether Slurm's own traces, slurmstepd above it or else its cgroup, show a process to be another job's.
    fn is_of_another(&self, pid: u32, job: &str) -> bool {
        let stepd = self.above(pid).map(|(_, process)| process).find(|process| process.stepd);
        let origin = stepd.or(self.get(pid)).and_then(|process| process.origin.as_ref());
        origin.is_some_and(|origin| origin.job != job)
    }

    /// Reads a process's environment and keeps what is needed of it.
    fn open(&mut self, proc: &Proc, pid: u32, named: bool, kept: &mut Kept) {
        let environ = proc.environ(pid);
        let Some(process) = self.0.get_mut(&pid) else { return };
        match environ {
            Ok(environ) => {
                let matters = named || is_tuned(&environ);
                let fits = matters && kept.has_room(process.user, &environ);
                process.unread = (matters && !fits).then_some(Lost::TooBig);
                process.tell(if fits { environ } else { few(environ) });
            }
            Err(error) if error.kind() == ErrorKind::PermissionDenied => process.unread = Some(Lost::Hidden),
            Err(error) if error.kind() == ErrorKind::FileTooLarge => process.unread = Some(Lost::TooBig),
            // It ended meanwhile.
            Err(_) => drop(self.0.remove(&pid)),
        }
    }

    pub(super) fn get(&self, pid: u32) -> Option<&Process> {
        self.0.get(&pid)
    }

    /// All but Slurm's own.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Process)> {
        self.0.iter().map(|(pid, process)| (*pid, process)).filter(|(_, process)| !process.stepd)
    }

    /// The ancestors, the nearest first, up to Slurm's own.
    pub(super) fn above(&self, pid: u32) -> impl Iterator<Item = (u32, &Process)> {
        let parent = move |process: &Process| Some((process.parent, self.get(process.parent)?));
        let first = self.get(pid).and_then(parent);
        std::iter::successors(first, move |(_, process)| parent(process).filter(|_| !process.stepd)).take(GENERATIONS)
    }

    /// What the ancestors tell of a process that tells nothing itself.
    fn inherited(&self, pid: u32) -> Option<Origin> {
        self.get(pid).filter(|process| process.origin.is_none())?;
        self.above(pid).find_map(|(_, process)| process.origin.clone())
    }
}

/// What is asked of an environment that gpu-tune did not make, or that lost what it made: where the process belongs, and
/// what may bind it.
fn few(mut environ: Environ) -> Environ {
    const MOST: usize = 4096;
    let asked = |name: &str| ["SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_LOCALID"].contains(&name) || blame::asks(name);
    environ.retain(|name, value| value.len() <= MOST && asked(name));
    environ
}

fn of_environ(environ: &Environ) -> Option<Origin> {
    const LONGEST: usize = 64;
    let text = |name: &str| environ.get(name).filter(|value| value.len() <= LONGEST).cloned();
    let task = text("SLURM_LOCALID").and_then(|id| id.parse().ok());
    Some(Origin { job: text("SLURM_JOB_ID")?, step: text("SLURM_STEP_ID").unwrap_or_default(), task })
}

/// `…/job_42/step_0/…/task_1`, in version 1 and 2.
fn of_cgroup(lines: &str) -> Option<Origin> {
    let one = |line: &str| {
        let mut parts = line.split('/');
        let job = parts.find_map(|part| part.strip_prefix("job_"))?;
        let step = parts.next()?.strip_prefix("step_")?;
        let task = parts.find_map(|part| part.strip_prefix("task_")?.parse().ok());
        Some(Origin { job: job.to_owned(), step: number(step), task })
    };
    // Not every controller of version 1 has a group for each task.
    let found: Vec<Origin> = lines.lines().filter_map(one).collect();
    found.iter().find(|origin| origin.task.is_some()).or(found.first()).cloned()
}

/// `slurmstepd: [42.0]`.
fn of_title(title: &str) -> Option<Origin> {
    let (job, step) = title.strip_prefix("slurmstepd: [")?.split(']').next()?.split_once('.')?;
    Some(Origin { job: job.to_owned(), step: number(step), task: None })
}

/// The step as its tasks have it in SLURM_STEP_ID; a batch script has none.
fn number(step: &str) -> String {
    match step {
        "batch" => String::new(),
        "interactive" => INTERACTIVE_STEP.to_string(),
        other => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(job: &str, step: &str, task: Option<u32>) -> Option<Origin> {
        Some(Origin { job: job.to_owned(), step: step.to_owned(), task })
    }

    #[test]
    fn both_kinds_of_cgroup_name_the_step() {
        let v1 = "3:cpuset:/slurm/uid_0/job_42/step_0\n2:memory:/slurm/uid_0/job_42/step_0/task_1\n1:cpu:/\n";
        assert_eq!(of_cgroup(v1), origin("42", "0", Some(1)));
        let v2 = "0::/system.slice/slurmstepd.scope/job_42/step_batch/user/task_0\n";
        assert_eq!(of_cgroup(v2), origin("42", "", Some(0)));
        for none in ["0::/user.slice/session-1.scope\n", "0::/job_42\n", "0::/job_42/other\n", ""] {
            assert_eq!(of_cgroup(none), None, "{none}");
        }
    }

    #[test]
    fn slurmstepds_title_names_the_step() {
        assert_eq!(of_title("slurmstepd: [42.3]"), origin("42", "3", None));
        assert_eq!(of_title("slurmstepd: [42.interactive]"), origin("42", "4294967290", None));
        assert_eq!(of_title("/usr/sbin/slurmstepd infinity"), None);
    }
}
