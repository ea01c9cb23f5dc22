//! Reads a machine: hwloc for its shape, NVML and the driver's files for the GPUs, /sys for the rest.
//!
//! All of it runs in the `gpu-tune` process, never inside Slurm's, because libraries that are foreign to Slurm (libhwloc,
//! libnvidia-ml) are loaded here: they may be slow, hang or crash. What comes out is a plain [`Machine`]; whatever could
//! not be read is left unknown and told as a [`Notice`]. Only a machine whose CPUs nobody knows is an error.

mod anonymous;
mod apart;
mod host;
mod hwloc;
mod ladder;
mod nvml;
mod quiet;
mod shape;
mod sysfs;
mod tame;
mod xml;

pub use anonymous::anonymize;
pub use apart::{read_file, serve};

use gpu_tune_engine::snapshot::SnapshotError;
use gpu_tune_engine::{Machine, Notice};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How a machine is read.
#[derive(Debug, Clone)]
pub struct Options {
    /// NVML: a path, or a name that the dynamic loader looks up. `None`: do without it.
    pub nvml: Option<PathBuf>,
    /// How long NVML may take. What it told until then is used.
    pub deadline: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { nvml: Some(nvml::LIBRARY.into()), deadline: Duration::from_secs(10) }
    }
}

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
    /// A snapshot that cannot be replayed.
    #[error("cannot replay `{}`", path.display())]
    Snapshot {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: SnapshotError,
    },
    /// [`read_root`] in a process that was not started for it.
    #[error("`{name}` is not set to `{}`", Path::new(value).display())]
    Environment {
        /// The variable.
        name: &'static str,
        /// What it must be.
        value: OsString,
    },
    /// A file that libhwloc did not survive.
    #[error("libhwloc could not load `{}`: {how}", path.display())]
    Died {
        /// The file.
        path: PathBuf,
        /// How it ended.
        how: String,
    },
    /// The process in which libhwloc was to read a file.
    #[error("cannot start a process for libhwloc to read {subject}")]
    Apart {
        /// The file in backticks.
        subject: String,
        /// Why.
        #[source]
        source: std::io::Error,
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
            Self::Read { .. } | Self::Apart { .. } => None,
            Self::Environment { name, value } => {
                Some(format!("start the program with {name}={}", Path::new(value).display()))
            }
            Self::Snapshot { source, .. } => source.help(),
            Self::Died { .. } => Some(
                "the file is damaged, or this libhwloc has a fault: write it anew with `lstopo FILE.xml`, or try a newer libhwloc"
                    .into(),
            ),
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
pub fn read_host(options: &Options) -> Result<Found, DiscoverError> {
    let (shape, mut notices) = hwloc::this_machine()?;
    if !shape.this_system {
        let message = "its environment names another one (HWLOC_XMLFILE, HWLOC_SYNTHETIC or HWLOC_FSROOT)".into();
        return Err(DiscoverError::Hwloc { subject: "this machine".into(), message });
    }
    let cpus = shape.machine.cpus.last().map_or(0, |last| last + 1);
    let told = options.nvml.as_deref().map(|library| nvml::read(library, options.deadline, cpus)).unwrap_or_default();
    let (machine, more) = host::machine(shape, &sysfs::Tree::new(Path::new("/")), told);
    notices.extend(more);
    Ok((machine, notices))
}

/// Environment with which a process must be started so that [`read_root`] works in it: libhwloc looks for another machine's
/// files only there, and a running program cannot change its environment safely.
pub fn root_environment(root: &Path) -> [(&'static str, OsString); 2] {
    [("HWLOC_FSROOT", root.into()), ("HWLOC_COMPONENTS", "linux,stop".into())]
}

/// Reads a machine from its /sys and /proc below `root`, as `hwloc-gather-topology` packs them. Nothing of this host is used.
pub fn read_root(root: &Path) -> Result<Found, DiscoverError> {
    for (name, value) in root_environment(root) {
        if std::env::var_os(name).as_ref() != Some(&value) {
            return Err(DiscoverError::Environment { name, value });
        }
    }
    let (shape, mut notices) = hwloc::this_machine()?;
    let (machine, more) = host::machine(shape, &sysfs::Tree::new(root), nvml::Facts::default());
    notices.extend(more);
    Ok((machine, notices))
}

/// As [`read_file`], but libhwloc runs in this very process, and a file that it does not survive ends both: for files
/// that are known to be good.
pub fn read_xml(path: &Path) -> Result<Found, DiscoverError> {
    match xml::contents(path)? {
        xml::Contents::Snapshot(machine) => Ok((*machine, Vec::new())),
        xml::Contents::Xml(text) => hwloc::from_xml(path, &text).map(|(shape, notices)| (shape.machine, notices)),
    }
}
