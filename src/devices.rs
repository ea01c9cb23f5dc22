//! Which GPUs the calling task may open, where Slurm constrains devices.
//!
//! Only opening tells: with cgroup v2 the rule is a BPF program, and a v1 cgroup that allows everything but some
//! devices, as Slurm makes it, shows itself as `a *:* rwm`. A v1 cgroup that allows nothing but some can be read.
//! Opening may wake a GPU that is not in persistence mode, so the caller asks only when it must know.
#![forbid(unsafe_code)]

use crate::step::own::listed;
use gpu_tune_engine::Machine;
use std::fs::{OpenOptions, read_link, read_to_string};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const CGROUP_V1: &str = "/sys/fs/cgroup/devices";

/// A mount namespace: which files a path leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Namespace(PathBuf);

impl Namespace {
    /// The calling process's; `None` where /proc does not tell.
    pub(crate) fn of_caller() -> Option<Self> {
        read_link("/proc/self/ns/mnt").ok().map(Self)
    }
}

/// For each of the step's GPUs whether the calling process may open it; `None` where that cannot be known.
///
/// `host` is where the host's files are. In a container, /sys is the image's to fill, so only the devices are asked, and one
/// that is not there is none of the task's.
pub(crate) fn may_open(machine: &Machine, gpus: &[usize], host: Option<&Namespace>) -> Option<Vec<bool>> {
    let minors = minors(machine, gpus)?;
    let contained = host.is_none() || Namespace::of_caller().as_ref() != host;
    let listed = if contained { None } else { devices_list().and_then(|list| listed(&list, &minors)) };
    listed.or_else(|| {
        let open: Option<Vec<bool>> = minors.iter().map(|minor| opens(*minor, contained)).collect();
        open.filter(|open| !contained || open.contains(&true))
    })
}

/// The minors of their device nodes. A machine that was described without any is taken to be numbered in order.
fn minors(machine: &Machine, gpus: &[usize]) -> Option<Vec<u32>> {
    let nobody_knows = machine.gpus.iter().all(|gpu| gpu.minor.is_none());
    let minor = |at: &usize| if nobody_knows { u32::try_from(*at).ok() } else { machine.gpus.get(*at)?.minor };
    gpus.iter().map(minor).collect()
}

/// The list of the calling process's cgroup v1, if there is such a thing.
fn devices_list() -> Option<String> {
    let of_process = read_to_string("/proc/self/cgroup").ok()?;
    let mut hierarchies = of_process.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    let (_, path) = hierarchies.find(|(controllers, _)| controllers.split(',').any(|name| name == "devices"))?;
    read_to_string(Path::new(CGROUP_V1).join(path.trim_start_matches('/')).join("devices.list")).ok()
}

/// The cgroup is asked before the driver: whatever the driver then says (`ENXIO` without one), the cgroup let us pass. A node
/// that is missing or closed by its file mode tells nothing.
fn opens(minor: u32, contained: bool) -> Option<bool> {
    let path = format!("/dev/nvidia{minor}");
    // O_NONBLOCK: nothing that an image may have put there makes us wait.
    let error = match OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(path) {
        Ok(_) => return Some(true),
        Err(error) => error.raw_os_error(),
    };
    match error {
        Some(libc::EPERM) => Some(false),
        Some(libc::ENOENT) if contained => Some(false),
        Some(libc::ENOENT | libc::EACCES) | None => None,
        Some(_) => Some(true),
    }
}
