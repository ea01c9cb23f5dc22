//! `gpu-tune snapshot` reads the node and keeps what it found in a file, so that a step need not look again.
//!
//! Without `-o` the file goes where the plugin looks for it, /run/gpu-tune/machine.snapshot, or into the directory that
//! `--state` names (`state=` in plugstack.conf). The plugin runs this by itself when slurmd starts; by hand it is needed
//! only after something changed that the snapshot's key does not see.
//!
//! With `-o` the file can be sent to somebody else: every verb takes it with `--topology`. `--anonymize` leaves out what
//! identifies the very hardware (UUIDs, GUIDs in names of adapters, the number of this boot); host names, serial numbers and
//! network addresses are never in it. Such a file is fit for a bug report.

use crate::source::{Source, absolute};
use crate::{CliError, output, words};
use gpu_tune_engine::snapshot::{self, Key, SnapshotError};
use gpu_tune_engine::spec::SiteConfig;
use gpu_tune_engine::{Machine, trusted};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use std::{process, thread};

/// Options of `gpu-tune snapshot`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Write to this file, `-` for standard output
    #[arg(short, long, value_name = "FILE", conflicts_with = "state")]
    output: Option<PathBuf>,
    /// Write into this directory, where the plugin looks [default: /run/gpu-tune]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    #[command(flatten)]
    source: Source,
    /// Leave out what identifies the hardware; needs `--output`
    #[arg(long, requires = "output")]
    anonymize: bool,
    /// Give up after this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    deadline: u64,
}

/// Reads the machine and writes it.
pub fn run(args: &Args) -> Result<ExitCode, CliError> {
    let deadline = Duration::from_secs(args.deadline);
    give_up_after(deadline);
    // Half of the time is for NVML, so that its silence does not cost what hwloc and /sys know.
    let (mut machine, notices) = args.source.read_within(deadline / 2)?;
    notices.iter().for_each(output::warn);
    if args.anonymize {
        gpu_tune_discover::anonymize(&mut machine);
    }
    let key = key(args)?;
    match &args.output {
        Some(path) if path == Path::new("-") => output::print(&snapshot::encode(&machine, &key))?,
        Some(path) => {
            let help = "`--output` takes a new file or one to replace, and `-` for standard output";
            snapshot::write(path, &machine, &key).map_err(|error| refused(error).with_help(help.to_owned()))?;
            tell(path, &machine)?;
        }
        None => {
            let state = args.state.as_deref().map_or(SiteConfig::default().state, absolute);
            tell(&snapshot::store(&state, &machine, &key).map_err(refused)?, &machine)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn tell(path: &Path, machine: &Machine) -> Result<(), CliError> {
    output::print(&format!("{}: {}", path.display(), words::summary(machine)))
}

/// What the snapshot is valid for: this node as it is now. A file to be sent around is valid for no node; the plugin takes
/// it only where plugstack.conf names it.
fn key(args: &Args) -> Result<Key, CliError> {
    let here = Key::of_this_host(Path::new("/"));
    Ok(match (&args.output, &args.source.topology) {
        (Some(_), Some(_)) => Key { version: here.version, ..Key::default() },
        (Some(_), None) if args.anonymize => Key { boot_id: None, ..here },
        (Some(_), None) => here,
        (None, topology) => {
            let topology = topology.as_deref().map(absolute);
            // What steps will take for this node decides what root does to them.
            topology.as_deref().map_or(Ok(()), trusted::check).map_err(|error| {
                let help = error.help();
                CliError::refused("cannot take the file for a description of this node", error).with_help(help)
            })?;
            here.described_by(Path::new("/"), topology.as_deref())
        }
    })
}

fn refused(error: SnapshotError) -> CliError {
    let help = error.help();
    CliError::refused("cannot keep the snapshot", error).with_help(help)
}

/// Ends the process when libraries that we cannot interrupt take too long: whoever started us waits for the file.
fn give_up_after(deadline: Duration) {
    thread::spawn(move || {
        thread::sleep(deadline);
        let late = CliError::nothing(format!("reading the machine took more than {} s", deadline.as_secs()));
        output::complain(&late);
        end()
    });
}

#[expect(clippy::exit, reason = "the main thread hangs in a foreign library and cannot return")]
fn end() -> ! {
    process::exit(1)
}
