//! `gpu-tune bench` measures on this node what binding is worth, so that the gain is a number: how fast a process copies
//! from its memory to a GPU, bound near to the GPU, bound far from it, and not bound at all.
//!
//! For each GPU it starts a fresh thread for each sample, bound as a rank would be, with a pinned buffer of its own, and
//! times copies of a big block (bandwidth) and of eight bytes (latency). The three placements take turns, so that a
//! neighbour's load or a warming chip meets all of them; the medians are shown with their ratio. The CUDA driver is loaded
//! when this runs (libcuda.so.1); no toolkit is needed.
//!
//! Without a GPU, or with `--memory`, it copies within memory instead: from each NUMA node's cores, with the memory near,
//! far, and wherever the kernel puts it.
//!
//! With `--topology` the file is taken for the description of this node, as `topology=` in plugstack.conf does.
//!
//! Run it on an otherwise idle node, with all its CPUs allowed: `srun --exclusive --gpu-tune=off gpu-tune bench`. `far` is
//! missing where the machine, or what the job may use, has a single NUMA node; `near` or `far` is where the process cannot be
//! bound there, which is told. The exit status is 1 when nothing could be measured.

mod cuda;
mod gpu;
mod measure;
mod memory;
mod places;
mod show;

use crate::source::Source;
use crate::style::Style;
use crate::{CliError, output};
use gpu_tune_engine::os::{Os as _, linux::Linux};
use gpu_tune_engine::{CpuSet, Machine};
use measure::{Budget, Medians};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Options of `gpu-tune bench`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// About how long to measure, in seconds
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// The block that is copied, in MiB
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=4096))]
    size: u32,
    /// Measure memory even if there are GPUs
    #[arg(long)]
    memory: bool,
    /// Write JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    source: Source,
    /// The CUDA driver library, for tests
    #[arg(long, value_name = "PATH", hide = true, default_value = "libcuda.so.1")]
    cuda: PathBuf,
}

/// What was measured.
#[derive(Debug)]
struct Report {
    /// `copy to GPU` or `copy in memory`.
    what: &'static str,
    rows: Vec<Row>,
}

/// A GPU, or a NUMA node.
#[derive(Debug)]
struct Row {
    name: String,
    /// Bytes per second.
    bandwidth: Medians,
    /// Seconds; only for GPUs.
    latency: Option<Medians>,
}

/// Measures and shows.
pub fn run(args: &Args) -> Result<ExitCode, CliError> {
    let (machine, notices) = args.source.read()?;
    notices.iter().for_each(output::warn);
    let allowed =
        Linux.get_affinity().map_err(|error| CliError::refused("cannot tell which CPUs are allowed", error))?;
    let report = measure(args, &machine, &allowed)?;
    if args.json {
        output::print_json(&show::document(&report))?;
    } else {
        output::print(&show::text(&report, Style::stdout()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn measure(args: &Args, machine: &Machine, allowed: &CpuSet) -> Result<Report, CliError> {
    let bytes = usize::try_from(args.size).unwrap_or(usize::MAX) << 20;
    let total = Duration::from_secs(args.seconds);
    if !args.memory && !machine.gpus.is_empty() {
        match gpu::measure(&args.cuda, machine, allowed, bytes, total) {
            Ok(rows) => return Ok(Report { what: "copy to GPU", rows }),
            Err(error) => output::warn(&gpu::not_measured(&error)),
        }
    }
    let rows = memory::measure(machine, allowed, bytes, total)
        .map_err(|error| CliError::refused("cannot measure this machine's memory", error))?;
    match rows.is_empty() {
        true => Err(CliError::nothing("no NUMA node has both memory and an allowed CPU")),
        false => Ok(Report { what: "copy in memory", rows }),
    }
}

/// A part of the whole time for each of several measurements.
fn share(total: Duration, parts: usize) -> Budget {
    Budget { time: total / u32::try_from(parts.max(1)).unwrap_or(u32::MAX), least: 3 }
}
