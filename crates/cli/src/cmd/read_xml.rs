//! `gpu-tune read-xml` is what `--topology` starts: libhwloc reads an XML file from standard input in this process, and the
//! machine goes to standard output as a snapshot. A file that makes libhwloc crash ends this process and no other.
//!
//! It has no use by hand: `gpu-tune snapshot --topology FILE.xml -o -` writes the same.

use crate::CliError;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// It takes no option.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Starts this program again, with this verb. It is found even where its file was replaced meanwhile.
pub fn command() -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("gpu-tune").arg("read-xml");
    command
}

/// Reads and writes.
pub fn run(_: &Args) -> Result<ExitCode, CliError> {
    gpu_tune_discover::serve().map_err(|error| CliError::refused("cannot read an XML file apart", error))
}
