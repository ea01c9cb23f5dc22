//! The `gpu-tune` command: see the node, see the plan, prove that it holds.
//!
//! One file per verb in [`cmd`]; the module's own documentation is the verb's manual. A verb reads its `Args`, prints
//! its result to stdout and everything else to stderr, and answers with an exit status: 0 fine, 1 the check found
//! something or there is nothing to print, 2 wrong usage. Only this file touches the outer world of a command: the
//! argument list, the place where errors are printed, and the status.

use clap::{CommandFactory as _, Parser};
use std::ffi::OsString;
use std::process::ExitCode;

pub mod cmd;
pub mod error;
pub mod json;
pub mod nccl;
pub mod output;
pub mod proc;
pub mod source;
pub mod style;
pub mod svg;
pub mod tree;
pub mod wish;
pub mod words;

pub use error::CliError;

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "gpu-tune",
    version,
    about = "See how a GPU node is built, what gpu-tune would do with a job on it, and whether it holds",
    arg_required_else_help = true,
    max_term_width = 100
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub verb: cmd::Verb,
}

/// The declarations behind the command line, for completions, man pages and tests.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Runs the command with this process's arguments.
pub fn main() -> ExitCode {
    run(std::env::args_os())
}

/// Runs the command with these arguments, the program's name first.
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    match Cli::try_parse_from(args) {
        Ok(cli) => finish(cli.verb.run()),
        Err(refusal) => refuse(&refusal),
    }
}

/// Clap's own answers: help and version are results (stdout, 0), the rest is wrong usage (stderr, 2).
fn refuse(refusal: &clap::Error) -> ExitCode {
    // Where a message cannot be printed there is nobody to tell; the status still says it.
    let _ = refusal.print();
    ExitCode::from(u8::try_from(refusal.exit_code()).unwrap_or(2))
}

fn finish(result: Result<ExitCode, CliError>) -> ExitCode {
    match result {
        Ok(code) => code,
        Err(error) if error.is_closed_pipe() => ExitCode::SUCCESS,
        Err(error) => {
            output::complain(&error);
            error.exit_code()
        }
    }
}
