//! Reads a machine: hwloc for its shape, NVML and the driver's files for the GPUs, /sys for the rest.
//!
//! All of it runs in the `gpu-tune` process, never inside Slurm's, because libraries that are foreign to Slurm (libhwloc,
//! libnvidia-ml) are loaded here: they may be slow, hang or crash. What comes out is a plain [`Machine`]; whatever could
//! not be read is left unknown and told as a [`Notice`]. Only a machine whose CPUs nobody knows is an error.
#![forbid(unsafe_code)]

mod hwloc;
mod quiet;
mod shape;
mod xml;

use gpu_tune_engine::{Machine, Notice};
use std::path::{Path, PathBuf};

/// Why there is no machine.
#[derive(Debug, thiserror::Error)]
pub enum DiscoverError {
    /// A file that cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file that is not what it should be, with the line where that shows.
    #[error("{}:{line}: {message}", path.display())]
    NotATopology {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// What was expected and what was found.
        message: String,
    },
    /// libhwloc gave up, or the Rust code around it did.
    #[error("hwloc cannot read {subject}: {message}")]
    Hwloc {
        /// `this machine`, or the file in backticks.
        subject: String,
        /// What is known of the reason.
        message: String,
    },
}

impl DiscoverError {
    /// What to do about it.
    pub fn help(&self) -> Option<String> {
        match self {
            Self::Read { .. } => None,
            Self::NotATopology { .. } => {
                Some("write the file with `lstopo FILE.xml` or `gpu-tune snapshot -o FILE`".into())
            }
            Self::Hwloc { .. } => {
                Some("see what `lstopo` says, or name an XML file of a like machine with `topology=`".into())
            }
        }
    }
}

/// A machine, and what a person should hear about how it was read.
pub type Found = (Machine, Vec<Notice>);

/// Reads this machine.
pub fn read_host() -> Result<Found, DiscoverError> {
    hwloc::this_machine()
}

/// Reads a machine from an hwloc XML file. Nothing of this host is used.
pub fn read_xml(path: &Path) -> Result<Found, DiscoverError> {
    let text = xml::read(path)?;
    hwloc::from_xml(path, &text)
}
