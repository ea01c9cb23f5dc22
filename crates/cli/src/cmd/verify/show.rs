//! What was found, for people and for programs.

use super::group::Group;
use super::judge::Verdict;
use crate::json::{RankVariable, RankVerdict, SCHEMA, VerifyDocument};
use crate::proc::{Environ, Memory};
use crate::style::Style;
use crate::words;
use gpu_tune_engine::launch::ours;
use gpu_tune_engine::text::shown_up_to;
use std::collections::{BTreeMap, BTreeSet};

/// A heading, one line for each rank, then what differs, then the environment that NCCL sees.
pub(super) fn text(verdicts: &[Verdict<'_>], style: Style) -> String {
    let names = Names::of(verdicts);
    let mut rows = vec![["rank", "pid", "threads", "CPUs", "policy", "memory", ""].map(str::to_owned)];
    rows.extend(verdicts.iter().map(|verdict| row(verdict, &names, style)));
    let mut text = names.of_all().map(|heading| style.bold(heading) + "\n").unwrap_or_default();
    text += &words::columns(&rows);
    for verdict in verdicts {
        text += &details(verdict, &names, style);
    }
    text += &environment(verdicts, &names, style);
    text
}

fn row(verdict: &Verdict<'_>, names: &Names<'_>, style: Style) -> [String; 7] {
    let group = verdict.group;
    let state = match (verdict.differences.is_empty(), &group.planned.share) {
        (false, _) => style.bad("differs"),
        (true, None) => style.warn("no plan"),
        (true, Some(_)) => style.good("ok"),
    };
    [
        names.name(verdict),
        group.pids.first().map(u32::to_string).unwrap_or_default(),
        verdict.threads.to_string(),
        words::shortened(&verdict.cpus, 40),
        verdict.memory.as_ref().map_or("?".to_owned(), |memory| memory.policy.clone()),
        verdict.memory.as_ref().map_or("?".to_owned(), where_memory_is),
        state,
    ]
}

/// How ranks are called: as in the plan, behind what their job and step are where there are several.
struct Names<'a> {
    /// The tasks of each step, by job and step.
    steps: BTreeMap<(&'a str, &'a str), BTreeSet<Option<u32>>>,
    one_job: bool,
    /// Outside Slurm, short names would not tell the ranks apart.
    crowded: bool,
}

impl<'a> Names<'a> {
    fn of(verdicts: &[Verdict<'a>]) -> Self {
        let mut steps: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for name in verdicts.iter().map(|verdict| &verdict.group.name) {
            steps.entry((name.job.as_str(), name.step.as_str())).or_default().insert(name.task);
        }
        let jobs: BTreeSet<&str> = steps.keys().map(|(job, _)| *job).collect();
        let outside = verdicts.iter().filter(|verdict| verdict.group.name.job.is_empty());
        let short: Vec<String> = outside.map(|verdict| outside_slurm(verdict, false)).collect();
        let crowded = short.iter().collect::<BTreeSet<_>>().len() < short.len();
        Self { one_job: jobs.len() <= 1, steps, crowded }
    }

    /// What stands above the table: `job 42, step 0`, or as much of it as holds for all.
    fn of_all(&self) -> Option<String> {
        let (job, step) = self.steps.keys().next().filter(|(job, _)| self.one_job && !job.is_empty())?;
        let step = if self.steps.len() > 1 { String::new() } else { format!(", {}", of_step(step)) };
        Some(harmless(&format!("job {job}{step}")))
    }

    /// `0`, `launcher`, `1.0` for rank 0 of launcher 1, `step 2: 0` where there are several steps.
    fn name(&self, verdict: &Verdict<'_>) -> String {
        let name = &verdict.group.name;
        if name.job.is_empty() {
            return outside_slurm(verdict, self.crowded);
        }
        let one_task = self.steps.get(&(name.job.as_str(), name.step.as_str())).is_none_or(|tasks| tasks.len() <= 1);
        let task = name.task.map_or("-".to_owned(), |task| task.to_string());
        let who = match name.local_rank {
            Some(rank) if one_task => rank.to_string(),
            Some(rank) => format!("{task}.{rank}"),
            None if verdict.group.lost.is_some() => format!("pid {}", name.pid.unwrap_or_default()),
            None if !verdict.group.planned.launcher => task,
            None if one_task => "launcher".to_owned(),
            None => format!("launcher {task}"),
        };
        harmless(&match (self.steps.len() > 1, self.one_job) {
            (false, _) => who,
            (true, true) => format!("{}: {who}", of_step(&name.step)),
            (true, false) => format!("job {}, {}: {who}", name.job, of_step(&name.step)),
        })
    }

    /// What stands above a rank's details.
    fn heading(&self, verdict: &Verdict<'_>) -> String {
        let name = self.name(verdict);
        if name.starts_with(|first: char| first.is_ascii_digit()) { format!("rank {name}") } else { name }
    }
}

/// `0`, `launcher`, `pid 300` for a rank without a number; where there are several of a name `100.0` for rank 0 of launcher 100,
/// `launcher 100`, and `0 (pid 300)` for a rank that was tuned itself.
fn outside_slurm(verdict: &Verdict<'_>, crowded: bool) -> String {
    let Group { name, planned, lost, pids, .. } = verdict.group;
    let first = pids.first().copied().unwrap_or_default();
    match (name.local_rank, name.lead) {
        _ if lost.is_some() => format!("pid {}", name.pid.unwrap_or(first)),
        (None, _) if !planned.launcher => format!("pid {first}"),
        (None, lead) if crowded => format!("launcher {}", lead.unwrap_or(first)),
        (None, _) => "launcher".to_owned(),
        (Some(rank), Some(launcher)) if crowded => format!("{launcher}.{rank}"),
        (Some(rank), None) if crowded => format!("{rank} (pid {first})"),
        (Some(rank), _) => rank.to_string(),
    }
}

/// What processes say of themselves, without what could play with a terminal: they are other users'.
fn harmless(text: &str) -> String {
    const MOST: usize = 1000;
    shown_up_to(text, MOST)
}

/// A batch script's step has no number.
fn of_step(step: &str) -> String {
    if step.is_empty() { "batch".to_owned() } else { format!("step {step}") }
}

/// `98 % on 1, of 12.3 GiB`.
fn where_memory_is(memory: &Memory) -> String {
    let total: u64 = memory.bytes.values().sum();
    let most = memory.bytes.iter().max_by_key(|(_, bytes)| **bytes);
    match most {
        Some((node, bytes)) if total > 0 => format!("{} % on {node}, of {}", bytes * 100 / total, size(total)),
        _ => "none".to_owned(),
    }
}

fn size(bytes: u64) -> String {
    // Two digits at least, so that nothing is rounded away.
    match [30, 20].into_iter().find(|shift| bytes >> shift >= 10) {
        Some(30) => format!("{} GiB", bytes >> 30),
        Some(shift) => format!("{} MiB", bytes >> shift),
        None => format!("{} KiB", bytes >> 10),
    }
}

fn details(verdict: &Verdict<'_>, names: &Names<'_>, style: Style) -> String {
    let lines: Vec<String> = [("", &verdict.differences), ("probably: ", &verdict.blame), ("", &verdict.notes)]
        .into_iter()
        .flat_map(|(word, lines)| lines.iter().map(move |line| format!("  {word}{}\n", harmless(line))))
        .collect();
    if lines.is_empty() {
        return String::new();
    }
    format!("\n{}\n{}", style.bold(names.heading(verdict)), lines.concat())
}

/// Variables that libraries below the framework read, with whose value it is, and where ranks differ.
fn environment(verdicts: &[Verdict<'_>], names: &Names<'_>, style: Style) -> String {
    let told = verdicts.iter().filter(|verdict| verdict.group.lost.is_none());
    let told: Vec<(String, BTreeMap<&str, Value<'_>>)> =
        told.map(|verdict| (names.name(verdict), of_libraries(&verdict.group.environ))).collect();
    let variables: BTreeSet<&str> = told.iter().flat_map(|(_, environ)| environ.keys().copied()).collect();
    let mut rows = Vec::new();
    for name in variables {
        let mut values: BTreeMap<Option<Value<'_>>, Vec<&str>> = BTreeMap::new();
        for (rank, environ) in &told {
            values.entry(environ.get(name).copied()).or_default().push(rank);
        }
        let several = values.len() > 1;
        for (value, ranks) in values {
            let what = harmless(&value.map_or(format!("{name} unset"), |value| format!("{name}={}", value.text)));
            let whose = value.map(Value::from).unwrap_or_default();
            let ranks = if several { format!("ranks {}", ranks.join(", ")) } else { String::new() };
            rows.push([format!("  {what}"), whose.to_owned(), ranks]);
        }
    }
    if rows.is_empty() { String::new() } else { format!("\n{}\n{}", style.bold("environment"), words::columns(&rows)) }
}

fn matters(name: &str) -> bool {
    ["NCCL_", "CUDA_", "OMP_", "UCX_", "TORCH_NCCL_", "GLOO_"].iter().any(|start| name.starts_with(start))
}

/// A variable's value, and whether gpu-tune set it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Value<'a> {
    text: &'a str,
    ours: bool,
}

impl Value<'_> {
    fn from(self) -> &'static str {
        if self.ours { "gpu-tune" } else { "user or image" }
    }
}

/// The variables that matter, by name.
fn of_libraries(environ: &Environ) -> BTreeMap<&str, Value<'_>> {
    let ours: BTreeSet<String> =
        ours::undo(|name| environ.get(name).map(Into::into)).into_iter().map(|(name, _)| name).collect();
    let value = |name: &str, text| Value { text, ours: ours.contains(name) };
    environ.iter().filter(|(name, _)| matters(name)).map(|(name, text)| (name.as_str(), value(name, text))).collect()
}

/// The document.
pub(super) fn document(verdicts: &[Verdict<'_>]) -> VerifyDocument {
    VerifyDocument { schema: SCHEMA, ranks: verdicts.iter().map(object).collect() }
}

fn object(verdict: &Verdict<'_>) -> RankVerdict {
    let group = verdict.group;
    let planned = group.planned.share.as_ref();
    RankVerdict {
        job: Some(group.name.job.clone()).filter(|job| !job.is_empty()),
        step: Some(group.name.step.clone()).filter(|step| !step.is_empty()),
        task: group.name.task,
        local_rank: group.name.local_rank,
        pids: group.pids.clone(),
        threads: verdict.threads,
        cpus: verdict.cpus.clone(),
        planned_cpus: planned.and_then(|share| share.cpus.clone()),
        policy: verdict.memory.as_ref().map(|memory| memory.policy.clone()),
        bytes: verdict.memory.as_ref().map(|memory| memory.bytes.clone()).unwrap_or_default(),
        ok: planned.map(|_| verdict.differences.is_empty()),
        differences: verdict.differences.clone(),
        blame: verdict.blame.clone(),
        notes: verdict.notes.clone(),
        environment: variables(group),
    }
}

fn variables(group: &Group) -> Vec<RankVariable> {
    let all = if group.lost.is_none() { of_libraries(&group.environ) } else { BTreeMap::new() };
    let object = |(name, value): (&str, Value<'_>)| RankVariable {
        name: name.to_owned(),
        value: value.text.to_owned(),
        from: value.from(),
    };
    all.into_iter().map(object).collect()
}
