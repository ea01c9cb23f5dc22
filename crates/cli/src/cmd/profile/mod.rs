//! `gpu-tune profile` shows the profiles, what one comes to, how two differ, and what is wrong in a file.
//!
//! `gpu-tune profile list` names those built in and those of the admin's directory, which win.
//!
//! `gpu-tune profile show h200+roce` prints what the option comes to on this node, or with `--topology` on the machine in a
//! file: every value with the file and line it was written in, and every value that is left alone, with the reason.
//!
//! `gpu-tune profile diff h200 mine` prints the values in which two profiles differ, conditions included. The exit status is
//! 0 when there are none, 1 when there are some.
//!
//! `gpu-tune profile check FILE|DIR` reads profiles and says what is wrong: keys and words that do not exist, values that NCCL
//! would misread (`16M` is 16 bytes to it), misspelt variables, variables that do not belong where they stand or do not go
//! together, and files that the plugin would refuse because others can write them. It needs no Slurm and no GPU; a file may
//! inherit the files beside it. The exit status is 1 with errors and 0 with warnings only. `--ignore-owner` is for files in a
//! repository, which are not installed yet.

mod check;
mod diff;
mod list;
mod show;

use crate::{CliError, output, wish};
use gpu_tune_engine::profile::Catalog;
use std::path::PathBuf;
use std::process::ExitCode;

/// Options of `gpu-tune profile`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Name the profiles and layers
    List(list::Args),
    /// Show what an option comes to, each value with where it is written
    Show(Box<show::Args>),
    /// Show in which values two profiles differ
    Diff(diff::Args),
    /// Say what is wrong in a file, or in all files of a directory
    Check(check::Args),
}

/// Where the admin's profiles are.
#[derive(Debug, clap::Args)]
struct Profiles {
    /// The admin's profiles [default: /etc/gpu-tune/profiles.d]
    #[arg(long, value_name = "DIR")]
    profile_dir: Option<PathBuf>,
}

impl Profiles {
    /// The profiles to choose from; what is odd about the directory goes to stderr.
    fn catalog(&self, replayed: bool) -> Catalog {
        let (catalog, notices) = wish::catalog(self.profile_dir.as_deref(), replayed);
        notices.iter().for_each(output::warn);
        catalog
    }
}

/// Does it.
pub fn run(args: &Args) -> Result<ExitCode, CliError> {
    match &args.verb {
        Verb::List(args) => list::run(args),
        Verb::Show(args) => show::run(args),
        Verb::Diff(args) => diff::run(args),
        Verb::Check(args) => check::run(args),
    }
}
