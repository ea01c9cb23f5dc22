//! The verbs, one file each. A file has `pub struct Args` (what clap reads) and `pub fn run(args) -> Result<ExitCode,
//! CliError>`. Its module documentation is the verb's manual: [`text`] takes it from the source, so that `--help`, the
//! man page and the comment a developer reads are one text.

use crate::CliError;
use clap::Subcommand;
use std::process::ExitCode;

pub mod bench;
pub mod doctor;
pub mod exec;
pub mod manual;
pub mod plan;
pub mod profile;
pub mod read_xml;
pub mod snapshot;
pub mod topo;
pub mod verify;

/// What `gpu-tune` can do.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Show the node: packages, NUMA nodes, cores, GPUs and NICs
    #[command(long_about = text(include_str!("topo.rs")))]
    Topo(topo::Args),
    /// Show what gpu-tune would do with a step
    #[command(long_about = text(include_str!("plan/mod.rs")))]
    Plan(Box<plan::Args>),
    /// List, show, compare and check profiles
    #[command(long_about = text(include_str!("profile/mod.rs")))]
    Profile(profile::Args),
    /// Read the running ranks of a job back and compare them with the plan
    #[command(long_about = text(include_str!("verify/mod.rs")))]
    Verify(verify::Args),
    /// Look whether this node is ready
    #[command(long_about = text(include_str!("doctor/mod.rs")))]
    Doctor(doctor::Args),
    /// Measure what binding is worth on this node
    #[command(long_about = text(include_str!("bench/mod.rs")))]
    Bench(bench::Args),
    /// Read the node and keep what was found in a file
    #[command(long_about = text(include_str!("snapshot.rs")))]
    Snapshot(snapshot::Args),
    /// Start a command as the plugin would start it
    #[command(long_about = text(include_str!("exec/mod.rs")))]
    Exec(Box<exec::Args>),
    /// Write man pages and shell completions below a prefix.
    #[command(hide = true, long_about = text(include_str!("manual.rs")))]
    Manual(manual::Args),
    /// Read an XML file with libhwloc in a process of its own.
    #[command(hide = true, long_about = text(include_str!("read_xml.rs")))]
    ReadXml(read_xml::Args),
}

impl Verb {
    /// Does it.
    pub fn run(self) -> Result<ExitCode, CliError> {
        match self {
            Self::Topo(args) => topo::run(&args),
            Self::Plan(args) => plan::run(&args),
            Self::Profile(args) => profile::run(&args),
            Self::Verify(args) => verify::run(&args),
            Self::Doctor(args) => doctor::run(&args),
            Self::Bench(args) => bench::run(&args),
            Self::Snapshot(args) => snapshot::run(&args),
            Self::Exec(args) => exec::run(&args),
            Self::Manual(args) => manual::run(&args),
            Self::ReadXml(args) => read_xml::run(&args),
        }
    }
}

/// The module documentation at the top of a source file, as plain text.
fn text(source: &str) -> String {
    let lines = source.lines().map_while(|line| line.strip_prefix("//!"));
    lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_verb_has_a_short_and_a_long_text() {
        for verb in crate::command().get_subcommands() {
            let long = verb.get_long_about().unwrap_or_else(|| panic!("{} has no manual", verb.get_name())).to_string();
            assert!(verb.get_about().is_some(), "{}", verb.get_name());
            assert!(long.contains(&format!("`gpu-tune {}", verb.get_name())), "{long}");
            assert!(long.lines().all(|line| line.len() <= 124), "{long}");
        }
    }
}
