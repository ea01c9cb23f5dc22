//! `gpu-tune verify` reads back the running ranks of a job on this node and says, in one line for each, whether they are
//! where the plan put them: the CPUs of all their threads, their memory policy, on which NUMA nodes their memory is, and
//! whether the variables that gpu-tune set still have its values.
//!
//! The plan is the one that the job carries in GPU_TUNE_PLAN; nothing is computed anew. Where something differs, what
//! undid it is named as far as it can be seen: NCCL_IGNORE_CPU_AFFINITY, OpenMP's own binding, a framework's binder,
//! numactl, a launcher that binds its ranks itself or drops LD_PRELOAD. Threads that have fewer CPUs than their rank are
//! no difference: they are still where they belong.
//!
//! Processes that emptied or overwrote their environment are found by their cgroup and by slurmstepd above them. Below a
//! launcher such a rank is known by its CPUs; else its plan is unknown, and that is said.
//!
//! Outside Slurm (`gpu-tune exec`) ranks are told apart by their plan, their user, their launcher, and the number that it gave
//! them; one without a number is called by its pid.
//!
//! Without options every tuned process of this node is looked at; inside a job, that job's. Run it as the job's user or as
//! root. The exit status is 1 when something differs, when there is nothing to look at, or when a process that was named by its
//! pid cannot be looked at.

mod blame;
mod group;
mod judge;
mod kept;
mod name;
mod origin;
mod planned;
mod show;

use crate::proc::{Proc, own_user};
use crate::style::Style;
use crate::{CliError, output};
use group::Found;
use judge::Verdict;
use origin::{Lost, Scope};
use std::path::PathBuf;
use std::process::ExitCode;

/// Options of `gpu-tune verify`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The job, as its processes know it (SLURM_JOB_ID) [default: the one this runs in, else all]
    #[arg(long, value_name = "ID", conflicts_with = "pid")]
    job: Option<String>,
    /// A process; may be given several times
    #[arg(long, value_name = "PID", value_delimiter = ',')]
    pid: Vec<u32>,
    /// Write JSON
    #[arg(long)]
    json: bool,
    /// Read processes below this directory instead of /proc, for tests
    #[arg(long, value_name = "DIR", hide = true, default_value = "/proc")]
    proc: PathBuf,
}

/// Reads the ranks and compares.
pub fn run(args: &Args) -> Result<ExitCode, CliError> {
    let proc = Proc::at(&args.proc);
    let Found { groups, missing, .. } = find(args, &proc)?;
    let verdicts: Vec<Verdict> = groups.iter().map(|group| judge::judge(&proc, group)).collect();
    match (verdicts.is_empty(), args.json) {
        // No result: each one that was named is told of below.
        (true, _) => {}
        (false, true) => output::print_json(&show::document(&verdicts))?,
        (false, false) => output::print(&show::text(&verdicts, Style::stdout()))?,
    }
    missing.iter().for_each(|(pid, why)| output::complain(&not_seen(*pid, *why)));
    let differs = verdicts.iter().any(|verdict| !verdict.differences.is_empty());
    let nothing = verdicts.iter().all(Verdict::is_untuned);
    Ok(ExitCode::from(u8::from(differs || nothing || !missing.is_empty())))
}

/// The ranks to look at; none is an error, unless each process that was named is missing.
fn find(args: &Args, proc: &Proc) -> Result<Found, CliError> {
    let job = args.job.clone().or_else(|| std::env::var("SLURM_JOB_ID").ok());
    let scope = match (args.pid.as_slice(), &job) {
        ([], Some(job)) => Scope::Job(job),
        ([], None) => Scope::Node,
        (pids, _) => Scope::Pids(pids),
    };
    let found = group::find(proc, scope);
    let whose = match scope {
        Scope::Pids(_) => return Ok(found),
        _ if !found.groups.is_empty() => return Ok(found),
        Scope::Job(job) if found.of_job > 0 => {
            format!("gpu-tune tuned none of job {job}'s processes on this node, {} in all", found.of_job)
        }
        Scope::Job(job) => format!("job {job} has no process on this node"),
        Scope::Node => "no process on this node was tuned by gpu-tune".to_owned(),
    };
    let hidden = found.hidden > 0 && own_user() != 0;
    let help = hidden.then(|| format!("processes that could not be read: {}; run this as root", found.hidden));
    Err(CliError::nothing(whose).with_help(help))
}

/// A process that was named and is not in the result.
fn not_seen(pid: u32, why: Option<Lost>) -> CliError {
    let Some(lost) = why else { return CliError::nothing(format!("there is no process {pid} on this node")) };
    let help = (lost == Lost::Hidden && own_user() != 0).then(|| "run this as root".to_owned());
    CliError::nothing(format!("process {pid} cannot be looked at: {}", judge::what_became(lost))).with_help(help)
}
