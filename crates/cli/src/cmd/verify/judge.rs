//! Compares what is with what was planned.

use super::blame;
use super::group::Group;
use super::origin::Lost;
use crate::nccl;
use crate::proc::{Environ, Memory, Proc, Thread, own_user};
use crate::words;
use gpu_tune_engine::launch::ours;
use gpu_tune_engine::plan::{self, MemKind};
use gpu_tune_engine::{CpuSet, IdSet};
use std::collections::BTreeSet;

/// One rank as it is.
#[derive(Debug)]
pub(super) struct Verdict<'a> {
    pub(super) group: &'a Group,
    /// The first process's threads have these CPUs, all together.
    pub(super) cpus: CpuSet,
    /// Threads of all processes.
    pub(super) threads: usize,
    /// The first process's memory; `None` where it cannot be read.
    pub(super) memory: Option<Memory>,
    /// What is not as planned, one sentence each.
    pub(super) differences: Vec<String>,
    /// What probably did it.
    pub(super) blame: Vec<String>,
    /// Worth knowing, and no difference.
    pub(super) notes: Vec<String>,
}

impl Verdict<'_> {
    /// Somebody named a process that is none of gpu-tune's.
    pub(super) fn is_untuned(&self) -> bool {
        let Group { planned, lost, environ, .. } = self.group;
        planned.share.is_none() && lost.is_none() && !environ.contains_key("GPU_TUNE_PROFILE")
    }
}

/// Looks at all processes of a rank.
pub(super) fn judge<'a>(proc: &Proc, group: &'a Group) -> Verdict<'a> {
    let threads: Vec<(u32, Vec<Thread>)> =
        group.pids.iter().filter_map(|pid| Some((*pid, proc.threads(*pid).ok()?))).collect();
    let first = group.pids.first().copied().unwrap_or_default();
    let memory = proc.memory(first).ok().filter(|memory| !memory.policy.is_empty());
    let mut verdict = Verdict {
        group,
        cpus: threads.first().map(|(_, threads)| union(threads)).unwrap_or_default(),
        threads: threads.iter().map(|(_, threads)| threads.len()).sum(),
        memory,
        differences: Vec::new(),
        blame: Vec::new(),
        notes: Vec::new(),
    };
    verdict.compare(&threads);
    verdict.differences.extend(changed(&group.environ));
    // Root opens no file that a stranger names.
    if proc.user(first) == Some(own_user()) {
        verdict.notes.extend(beaten(&group.environ));
    }
    if !verdict.differences.is_empty() {
        verdict.blame = blame::suspects(proc, group, &verdict.cpus);
    }
    verdict
}

impl Verdict<'_> {
    fn compare(&mut self, threads: &[(u32, Vec<Thread>)]) {
        let Some(share) = &self.group.planned.share else {
            self.notes.push(self.no_plan());
            return;
        };
        if let Some(lost) = self.group.lost {
            self.notes.push(format!("known by its CPUs only: {}", what_became(lost)));
        }
        if let Some(planned) = &share.cpus {
            self.differences.extend(outside(threads, planned));
        }
        match (&share.memory, &self.memory) {
            (Some(planned), Some(memory)) if !self.group.planned.launcher && !follows(&memory.policy, planned) => {
                let wanted = wanted(planned);
                self.differences.push(format!("memory policy is `{}`, planned is `{wanted}`", memory.policy));
            }
            (Some(_), None) => self.notes.push("its memory policy cannot be read here".to_owned()),
            _ => {}
        }
    }

    fn no_plan(&self) -> String {
        let group = self.group;
        match (group.lost, group.environ.get("GPU_TUNE_PROFILE")) {
            (Some(lost), _) => format!("its plan is unknown: {}", what_became(lost)),
            (None, None) => "gpu-tune did not tune this process".to_owned(),
            (None, Some(_)) if group.planned.local_rank.is_some() => "the plan has no part for this rank".to_owned(),
            (None, Some(profile)) => {
                format!("profile `{profile}` set its environment; there is no plan to compare with")
            }
        }
    }
}

/// Why an environment tells nothing.
pub(super) fn what_became(lost: Lost) -> &'static str {
    match lost {
        Lost::Gone => "its environment is emptied or overwritten (`env -i`, setproctitle)",
        Lost::Hidden => "only root may read its environment",
        Lost::TooBig => "its environment, or what its user's processes have in all, is bigger than is read",
    }
}

fn union(threads: &[Thread]) -> CpuSet {
    threads.iter().fold(CpuSet::new(), |all, thread| &all | &thread.cpus)
}

/// Threads that may run on CPUs of others: one sentence with the widest of them as the example.
fn outside(threads: &[(u32, Vec<Thread>)], planned: &CpuSet) -> Option<String> {
    let all = threads.iter().flat_map(|(pid, threads)| threads.iter().map(move |thread| (*pid, thread)));
    let away: Vec<(u32, &Thread)> = all.filter(|(_, thread)| !thread.cpus.is_subset(planned)).collect();
    let (pid, worst) = away.iter().max_by_key(|(_, thread)| (&thread.cpus - planned).len())?;
    let total: usize = threads.iter().map(|(_, threads)| threads.len()).sum();
    let which = format!("`{}`, thread {} of process {pid}", worst.name, worst.tid);
    Some(format!(
        "{} of {} may run outside CPUs {planned}: {which}, on {}",
        away.len(),
        words::count(total, "thread"),
        words::list(&worst.cpus)
    ))
}

/// Whether a policy as the kernel writes it is the planned one. Kernels before 5.15 prefer a single node.
fn follows(policy: &str, planned: &plan::Memory) -> bool {
    let Some((kind, nodes)) = policy.split_once(':') else { return false };
    let kind = kind.split('=').next().unwrap_or(kind);
    let Ok(nodes) = nodes.parse::<IdSet>() else { return false };
    match planned.policy {
        MemKind::Bind => kind == "bind" && nodes == planned.nodes,
        MemKind::Preferred => match kind {
            "prefer (many)" => nodes == planned.nodes,
            "prefer" => nodes.len() == 1 && nodes.contains(planned.first),
            _ => false,
        },
    }
}

fn wanted(planned: &plan::Memory) -> String {
    match planned.policy {
        MemKind::Bind => format!("bind:{}", planned.nodes),
        MemKind::Preferred if planned.nodes.len() == 1 => format!("prefer:{}", planned.nodes),
        MemKind::Preferred => format!("prefer (many):{}", planned.nodes),
    }
}

/// Variables that gpu-tune set and that had another value, or none, when the process started.
fn changed(environ: &Environ) -> Option<String> {
    let noted = environ.get(ours::SET)?;
    let set: BTreeSet<&str> = noted.split(',').filter_map(|entry| Some(entry.split_once('=')?.0)).collect();
    let still: BTreeSet<String> =
        ours::undo(|name| environ.get(name).map(Into::into)).into_iter().map(|(name, _)| name).collect();
    let changed: Vec<&str> = set.into_iter().filter(|name| !still.contains(*name)).collect();
    (!changed.is_empty()).then(|| format!("changed since gpu-tune set them: {}", changed.join(", ")))
}

/// Values in the user's own file that gpu-tune's variables beat.
fn beaten(environ: &Environ) -> Vec<String> {
    let Some((path, conf)) = nccl::of_user(|name| environ.get(name).cloned()) else { return Vec::new() };
    let ours = ours::undo(|name| environ.get(name).map(Into::into));
    let names = ours.iter().map(|(name, _)| name.as_str());
    let beaten = names.filter_map(|name| {
        let (users, line) = conf.get(name)?;
        let here = environ.get(name).filter(|here| *here != users)?;
        Some(format!("{name}={here} beats {users} in {}:{line}: export it to have your own", path.display()))
    });
    beaten.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(policy: MemKind, nodes: &str, first: u32) -> plan::Memory {
        plan::Memory { policy, nodes: nodes.parse().unwrap(), first }
    }

    #[test]
    fn policies_are_compared_as_the_kernel_writes_them() {
        let several = memory(MemKind::Preferred, "0-1", 1);
        for (policy, expect) in [
            ("prefer (many):0-1", true),
            ("prefer:1", true),
            ("prefer:0", false),
            ("prefer (many):1", false),
            ("bind:0-1", false),
            ("default", false),
        ] {
            assert_eq!(follows(policy, &several), expect, "{policy}");
        }
        let bind = memory(MemKind::Bind, "2", 2);
        assert!(follows("bind:2", &bind) && follows("bind=static:2", &bind) && !follows("prefer:2", &bind));
    }

    #[test]
    fn one_sentence_tells_of_all_threads_that_are_away() {
        let thread = |tid, cpus: &str| Thread { tid, name: "python".to_owned(), cpus: cpus.parse().unwrap() };
        let threads = vec![(7, vec![thread(7, "0-3"), thread(8, "0-15")]), (9, vec![thread(9, "2,4")])];
        let planned = "0-3".parse().unwrap();
        assert_eq!(
            outside(&threads, &planned).unwrap(),
            "2 of 3 threads may run outside CPUs 0-3: `python`, thread 8 of process 7, on 0-15"
        );
        assert_eq!(outside(&threads[..0], &planned), None);
        assert_eq!(outside(&[(7, vec![thread(7, "2")])], &planned), None, "narrower is fine");
    }
}
