//! Where a verb's machine comes from: this node, or a file.

use crate::CliError;
use crate::cmd::read_xml;
use gpu_tune_discover::{Options, read_file, read_host};
use gpu_tune_engine::{Machine, Notice};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A path that a person names from where he is.
pub fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Options of every verb that looks at a machine.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Source {
    /// Look at the machine in this file instead of this node: an hwloc XML file (`lstopo node.xml`) or a snapshot
    /// (`gpu-tune snapshot -o FILE`)
    #[arg(long, value_name = "FILE")]
    pub topology: Option<PathBuf>,
    /// The NVML library to ask about the GPUs [default: where the loader finds libnvidia-ml.so.1]
    #[arg(long, value_name = "PATH", conflicts_with = "topology")]
    pub nvml: Option<PathBuf>,
}

impl Source {
    /// Reads the machine, and what a person should hear about how it was read.
    pub fn read(&self) -> Result<(Machine, Vec<Notice>), CliError> {
        self.read_within(Options::default().deadline)
    }

    /// As [`Source::read`], with another bound on how long NVML may take.
    pub fn read_within(&self, deadline: Duration) -> Result<(Machine, Vec<Notice>), CliError> {
        let nvml = self.nvml.clone().or(Options::default().nvml);
        let found = match &self.topology {
            Some(path) => read_file(path, read_xml::command()),
            None => read_host(&Options { nvml, deadline }),
        };
        found.map_err(|error| {
            let help = error.help();
            CliError::refused("cannot read the machine", error).with_help(help)
        })
    }
}
