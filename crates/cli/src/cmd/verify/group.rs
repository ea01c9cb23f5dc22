//! Which processes belong together: a rank and everything it started.

use super::name::Name;
use super::origin::{GENERATIONS, Lost, Process, Processes, Scope};
use super::planned::{Planned, by_cpus, planned};
use crate::proc::{Environ, Proc};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// A rank, or a launcher, with its processes.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) name: Name,
    /// Ascending, which mostly means that the first started the others.
    pub(super) pids: Vec<u32>,
    /// The first process's environment.
    pub(super) environ: Rc<Environ>,
    /// What is planned for it.
    pub(super) planned: Planned,
    /// Why its own environment tells nothing, where that is so.
    pub(super) lost: Option<Lost>,
}

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) groups: Vec<Group>,
    /// Processes that were named by their pid, and why they cannot be looked at; `None`: there is no such process.
    pub(super) missing: Vec<(u32, Option<Lost>)>,
    /// Processes whose environment only root may read.
    pub(super) hidden: usize,
    /// Processes of the job, tuned or not.
    pub(super) of_job: usize,
}

/// Finds the groups, sorted by job, step, task and rank.
pub(super) fn find(proc: &Proc, scope: Scope<'_>) -> Found {
    let processes = Processes::read(proc, scope);
    let mut found = match scope {
        Scope::Pids(pids) => alone(&processes, pids),
        Scope::Job(job) => Finder::new(proc, &processes, Some(job)).find(),
        Scope::Node => Finder::new(proc, &processes, None).find(),
    };
    found.groups.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

/// Each for itself.
fn alone(processes: &Processes, pids: &[u32]) -> Found {
    let mut found = Found::default();
    for pid in pids.iter().copied() {
        match processes.get(pid) {
            Some(process) if process.unread.is_none() => found.groups.push(named(pid, process)),
            unreadable => found.missing.push((pid, unreadable.and_then(|process| process.unread))),
        }
    }
    found
}

fn named(pid: u32, process: &Process) -> Group {
    let planned = planned(&process.environ);
    let name = Name { pid: Some(pid), ..Name::of(process, &planned) };
    Group { pids: vec![pid], environ: process.environ.clone(), ..Group::of(name, planned) }
}

/// Which processes are one rank: the name, and outside Slurm the same plan. Whoever gives his processes another's job or
/// numbers does not join it: the user counts.
type Key<'a> = (Name, Option<u32>, Option<&'a str>);

struct Finder<'a> {
    proc: &'a Proc,
    processes: &'a Processes,
    job: Option<&'a str>,
    /// Job and step of each tuned process: others in there were started by one that is tuned.
    steps: BTreeSet<(&'a str, &'a str)>,
}

impl<'a> Finder<'a> {
    fn new(proc: &'a Proc, processes: &'a Processes, job: Option<&'a str>) -> Self {
        let tuned = processes.iter().filter(|(_, process)| process.tuned());
        let steps = tuned.filter_map(|(_, process)| step(process)).collect();
        Self { proc, processes, job, steps }
    }

    fn find(&self) -> Found {
        let mut groups: BTreeMap<Key<'_>, Group> = BTreeMap::new();
        for (pid, _) in self.processes.iter().filter(|(pid, process)| self.wanted(*pid, process)) {
            let head = self.head(pid);
            let group = self.group(head);
            groups.entry(self.key(head, &group.name)).or_insert(group).pids.push(pid);
        }
        let hidden = self.processes.iter().filter(|(_, process)| process.unread == Some(Lost::Hidden)).count();
        let of_job = self.processes.iter().filter(|(_, process)| self.of_job(process)).count();
        Found { groups: groups.into_values().collect(), hidden, of_job, ..Found::default() }
    }

    fn of_job(&self, process: &Process) -> bool {
        let job = process.origin.as_ref().map(|origin| origin.job.as_str());
        self.job.is_none() || self.job == job
    }

    fn wanted(&self, pid: u32, process: &Process) -> bool {
        let with_tuned = || step(process).is_some_and(|step| self.steps.contains(&step));
        let below_tuned = || self.processes.above(pid).any(|(_, above)| above.tuned());
        self.of_job(process) && (process.tuned() || with_tuned() || below_tuned())
    }

    /// The process whose group a process is in: itself; where its own environment is lost, the rank above it, else the
    /// first above it that lost it.
    fn head(&self, pid: u32) -> u32 {
        let mut head = pid;
        // Not for ever: a number that was given anew while we read can make two processes each other's parent.
        for _ in 0..GENERATIONS {
            match self.above(head).filter(|_| self.lost(head)) {
                Some((above, process)) if !(process.tuned() && planned(&process.environ).launcher) => head = above,
                _ => break,
            }
        }
        head
    }

    fn lost(&self, pid: u32) -> bool {
        self.processes.get(pid).is_some_and(|process| !process.tuned())
    }

    /// The nearest process above that is looked at too.
    fn above(&self, pid: u32) -> Option<(u32, &'a Process)> {
        self.processes.above(pid).find(|(pid, process)| self.wanted(*pid, process))
    }

    fn key(&self, head: u32, name: &Name) -> Key<'a> {
        let process = self.processes.get(head);
        let plan = process.filter(|_| name.job.is_empty()).and_then(plan);
        (name.clone(), process.and_then(|process| process.user), plan)
    }

    /// Outside Slurm the process that tells ranks and launchers apart which have the same plan: for a rank the nearest launcher
    /// above it, for a launcher and for a rank without a number the first process that the plan was made for.
    fn lead(&self, pid: u32, process: &Process, name: &Name, launched: bool) -> Option<u32> {
        let mut above = self.processes.above(pid).filter(|(_, above)| above.tuned() && plan(above) == plan(process));
        match (launched, name.local_rank) {
            _ if !name.job.is_empty() => None,
            (true, _) => above.find(|(_, above)| planned(&above.environ).launcher).map(|(pid, _)| pid),
            (false, Some(_)) => None,
            (false, None) => Some(above.last().map_or(pid, |(first, _)| first)),
        }
    }

    /// The group of a process, still empty.
    fn group(&self, head: u32) -> Group {
        let Some(process) = self.processes.get(head) else { return Group::of(Name::default(), Planned::default()) };
        if process.tuned() {
            let planned = planned(&process.environ);
            let mut name = Name::of(process, &planned);
            name.lead = self.lead(head, process, &name, planned.local_rank.is_some());
            return Group { environ: process.environ.clone(), ..Group::of(name, planned) };
        }
        let launcher = self.above(head).map(|(_, process)| process);
        let cpus = self.proc.threads(head).ok().and_then(|threads| Some(threads.into_iter().next()?.cpus));
        let planned = launcher.zip(cpus).map(|(above, cpus)| by_cpus(&above.environ, &cpus)).unwrap_or_default();
        let mut name = Name { pid: Some(head), ..Name::of(process, &planned) };
        name.task = name.task.or_else(|| launcher?.origin.as_ref()?.task);
        let lost = Some(process.unread.unwrap_or(Lost::Gone));
        Group { lost, environ: process.environ.clone(), ..Group::of(name, planned) }
    }
}

impl Group {
    fn of(name: Name, planned: Planned) -> Self {
        Self { name, pids: Vec::new(), environ: Rc::default(), planned, lost: None }
    }
}

fn plan(process: &Process) -> Option<&str> {
    process.environ.get("GPU_TUNE_PLAN").map(String::as_str)
}

fn step(process: &Process) -> Option<(&str, &str)> {
    process.origin.as_ref().map(|origin| (origin.job.as_str(), origin.step.as_str()))
}
