//! `gpu-tune exec` starts a command as the plugin would start it in a Slurm job: with the profile's environment, on the
//! CPUs nearest to its GPU, with memory from there. For bare metal, for a pod in Kubernetes, for a container or an ssh
//! session: `gpu-tune exec h200 torchrun train.py`.
//!
//! The first word is the profile, written as for `srun --gpu-tune=`, if it names one that exists; otherwise it is the
//! command, and the profile is that of the variable GPU_TUNE, or without it chosen by GPU model. `gpu-tune exec auto --
//! COMMAND` leaves no doubt.
//!
//! A process with a local rank in its environment (LOCAL_RANK, Open MPI's, MPICH's, MVAPICH2's, PALS', or SLURM_LOCALID
//! where a node has several tasks) is bound to its own GPU's part. A launcher (torchrun, accelerate, deepspeed, mpirun, or
//! any command that sees several GPUs) keeps all CPUs, and each rank that it starts is bound before its first
//! instruction. torchrun starts one rank for each GPU unless told otherwise; in a PyTorchJob it finds the other pods by
//! WORLD_SIZE, RANK, MASTER_ADDR and MASTER_PORT.
//!
//! A rank that its launcher, Slurm or `taskset` bound before is left where it is, and that is told: with `mpirun --bind-to
//! none` or `srun --cpu-bind=none` it is free to be bound.
//!
//! With `--topology` the file is taken for the description of this node, as `topology=` in plugstack.conf does.
//!
//! The exit status is the command's; 126 if it cannot be started, 127 if it is not found, 2 for wrong usage.

mod around;
mod bound;
mod tune;
mod words;

use crate::source::Source;
use crate::{CliError, output};
use gpu_tune_engine::apply::apply;
use gpu_tune_engine::os::linux::Linux;
use gpu_tune_engine::spec::SiteConfig;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// Options of `gpu-tune exec`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    source: Source,
    /// The site's profiles [default: /etc/gpu-tune/profiles.d]
    #[arg(long, value_name = "DIR")]
    profile_dir: Option<PathBuf>,
    /// The cluster's network, a layer that every profile gets
    #[arg(long, value_name = "LAYER")]
    fabric: Option<String>,
    /// The library that binds the ranks of a launcher
    #[arg(long, value_name = "PATH", default_value_os_t = SiteConfig::default().shim)]
    shim: PathBuf,
    /// Profile, if the first word names one, and the command with its arguments
    #[arg(value_names = ["PROFILE", "COMMAND"], required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Becomes the command.
pub fn run(args: &Args) -> Result<ExitCode, CliError> {
    let start = tune::start(args)?;
    start.table.iter().for_each(|line| output::note(line));
    start.notices.iter().for_each(output::warn);
    let mut command = Command::new(&start.program);
    command.args(&start.args);
    for (name, value) in &start.changes {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let outcome = apply(&mut Linux, &start.share);
    outcome.notices("the command", &start.share).iter().for_each(output::warn);
    // Returns only if there is nothing to become.
    let source = command.exec();
    let help = words::instead(&args.words, &start.program);
    Err(CliError::Start { command: start.program.to_string_lossy().into_owned(), help, source })
}
