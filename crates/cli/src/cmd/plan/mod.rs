//! `gpu-tune plan` shows what gpu-tune would do with a step: for each task, and for each rank that a launcher such as
//! torchrun starts, its GPUs, its CPUs, where its memory comes from and how its environment is tuned.
//!
//! The plan is the one that the plugin would make on the same machine with the same profile. With `--topology` the
//! machine is read from a file and nothing of this node is used, so any node can be planned for on a laptop. The first
//! argument is written as for `srun --gpu-tune=`; without it the profile is chosen by GPU model (`auto`).
//!
//! By default there is one task for each GPU, and all tasks see all GPUs; task i then drives GPU i. Fewer tasks get equal
//! blocks of GPUs and are launchers, more tasks share GPUs in turns. `--visible` is the list that every task sees, as
//! CUDA_VISIBLE_DEVICES would be; `--gpus-per-task` deals it out as Slurm does.
//!
//! `--json` writes the plan for programs: names and meaning are stable. `--svg` draws it. The exit status is 0 with a
//! plan, 1 when there is none to be had (no GPU, no CPU, no readable machine), 2 for wrong usage.

mod document;
mod environment;
mod picture;
mod step;
mod table;
mod wish;

use crate::source::Source;
use crate::style::Style;
use crate::{CliError, output, svg, words};
use clap::ValueEnum;
use gpu_tune_engine::env::{Decision, RankValues};
use gpu_tune_engine::plan::{Layout, Mode, TaskPlan};
use gpu_tune_engine::profile::Resolved;
use gpu_tune_engine::spec::{CpuPolicy, MemPolicy, Smt};
use gpu_tune_engine::tune::Tuned;
use gpu_tune_engine::{CpuSet, Machine, NodeSet, Notice};
use std::path::PathBuf;
use std::process::ExitCode;

/// Options of `gpu-tune plan`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Profile, layers and keys as for `srun --gpu-tune=`, such as `h200+megatron-tp,bind=numa`.
    #[arg(default_value = "auto")]
    profile: String,
    #[command(flatten)]
    source: Source,
    /// CPUs that the step owns [default: all]
    #[arg(long, value_name = "LIST")]
    cpus: Option<CpuSet>,
    /// NUMA nodes that its memory may come from [default: all]
    #[arg(long, value_name = "LIST")]
    mems: Option<NodeSet>,
    /// Tasks on the node [default: visible GPUs divided by GPUs per task]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    tasks: Option<u32>,
    /// What the tasks are: `rank` drives its GPUs itself, `launcher` starts a rank for each
    #[arg(long, value_enum, default_value = "auto")]
    mode: ModeWord,
    /// Deal the visible GPUs out, this many to each task
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=4096))]
    gpus_per_task: Option<u32>,
    /// GPUs that every task sees, as CUDA_VISIBLE_DEVICES names them [default: all]
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    visible: Option<String>,
    /// How CPUs are given to ranks
    #[arg(long, value_parser = words::parser::<CpuPolicy>())]
    bind: Option<CpuPolicy>,
    /// How memory is bound
    #[arg(long, value_parser = words::parser::<MemPolicy>())]
    mem: Option<MemPolicy>,
    /// Which hardware threads of its cores a rank gets
    #[arg(long, value_parser = words::parser::<Smt>())]
    smt: Option<Smt>,
    /// Nodes of the step, for values that depend on it
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    nodes: u32,
    /// The layer that `fabric=` in plugstack.conf adds to every profile
    #[arg(long, value_name = "LAYER")]
    fabric: Option<String>,
    /// The admin's profiles [default: /etc/gpu-tune/profiles.d; none with --topology]
    #[arg(long, value_name = "DIR")]
    profile_dir: Option<PathBuf>,
    /// Write JSON
    #[arg(long, conflicts_with = "svg")]
    json: bool,
    /// Draw a picture into this file, `-` for standard output
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// The words of `--mode`.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum ModeWord {
    Auto,
    Rank,
    Launcher,
}

impl From<ModeWord> for Mode {
    fn from(word: ModeWord) -> Self {
        match word {
            ModeWord::Auto => Self::Auto,
            ModeWord::Rank => Self::Rank,
            ModeWord::Launcher => Self::Launcher,
        }
    }
}

/// Everything that was found out, ready to be shown in any form.
#[derive(Debug)]
struct Planned {
    machine: Machine,
    resolved: Resolved,
    /// The CPUs that the step owns.
    allowed: CpuSet,
    layout: Layout,
    tasks: Vec<TaskPlan>,
    /// What the variables of each task are made from.
    values: Vec<RankValues>,
    decisions: Vec<Decision>,
    notices: Vec<Notice>,
}

impl Planned {
    /// `launcher` if any task starts ranks.
    fn mode(&self) -> &'static str {
        if self.tasks.iter().any(|task| !task.ranks.is_empty()) { "launcher" } else { "rank" }
    }

    fn heading(&self) -> String {
        format!("profile {}, {}, {} mode", self.resolved.name, words::count(self.tasks.len(), "task"), self.mode())
    }
}

/// Makes the plan and shows it.
pub fn run(args: &Args) -> Result<ExitCode, CliError> {
    let planned = plan(args)?;
    if args.json {
        output::print_json(&document::of(&planned))?;
        return Ok(ExitCode::SUCCESS);
    }
    planned.notices.iter().for_each(output::warn);
    match &args.svg {
        Some(path) => output::save(path, &svg::draw(&picture::of(&planned)))?,
        None => output::print(&table::of(&planned, Style::stdout()))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn plan(args: &Args) -> Result<Planned, CliError> {
    let (spec, site) = (wish::spec(args)?, wish::site(args));
    let (catalog, mut notices) = wish::catalog(args);
    // Why a profile is unknown may be what the directory is warned about.
    crate::wish::check(&catalog, &spec, &site).inspect_err(|_| notices.iter().for_each(output::warn))?;
    let (machine, odd) = args.source.read()?;
    notices.extend(odd);
    // Why there is nothing to plan for may be what discovery missed.
    let mut step = step::of(args, &machine).inspect_err(|_| notices.iter().for_each(output::warn))?;
    let facts = wish::facts(args, &machine, &step.request.gpus, step.request.tasks);
    let Tuned { resolved, decisions } = wish::tune(args, (&catalog, &spec, &site), facts, &machine)?;
    step.wish(&resolved);
    let layout = Layout::new(&machine, &step.request);
    let mut tasks = step.tasks(&layout);
    // As in a step: from the shares that the ranks would have.
    let values: Vec<_> = tasks.iter().map(|task| RankValues::of(&machine, &step.request.cpus, task)).collect();
    if !resolved.workers {
        tasks.iter_mut().for_each(TaskPlan::leave_ranks_alone);
    }
    notices.extend(step.notices);
    notices.extend(resolved.notices.iter().cloned());
    notices.extend(layout.notices.iter().cloned());
    notices.extend(environment::notices(&decisions, &values));
    Ok(Planned { machine, resolved, allowed: step.request.cpus, layout, tasks, values, decisions, notices })
}
