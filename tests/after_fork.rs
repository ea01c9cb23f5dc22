//! What a step does, as strace sees it: nothing where it has no GPU, and in `task_init`, between fork and exec, selection,
//! two system calls, and no read but the ones that the design names. Other plugins before and after ours mark where
//! `task_init` begins and ends.
#![cfg(test)]

mod slurm;

use slurm::place::Place;
use slurm::{Cluster, Setup, plugin};
use std::path::PathBuf;

const BEGIN: &str = "/no-such-file/task_init-begins";
const END: &str = "/no-such-file/task_init-ended";

/// System calls that need no look at their arguments: memory of the process's own, and what is asked of files that are open.
const HARMLESS: [&str; 12] = [
    "brk",
    "munmap",
    "mremap",
    "madvise",
    "sched_getaffinity",
    "getpid",
    "gettid",
    "read",
    "close",
    "fstat",
    "lseek",
    "ioctl",
];

#[test]
fn a_rank_is_selected_for_and_bound_with_two_system_calls_and_nothing_else_is_touched() {
    let Some(traced) = Traced::start(Setup::default()) else { return };
    let step = ["-n2", "-c1", "--gpus-per-task=1", "--gpu-tune=h200"];
    let tasks = traced.calls(&[&step[..], &["true"]].concat());
    assert_eq!(tasks.len(), 2);
    tasks.iter().for_each(|calls| check(calls, 1, may_tell_devices));
}

#[test]
fn a_launcher_is_looked_for_its_shim_and_nothing_else_is_touched() {
    let Some(traced) = Traced::start(Setup::default()) else { return };
    let torchrun = traced.cluster.place.script("bin/torchrun", "").display().to_string();
    let tasks = traced.calls(&["-n1", "-c2", "--gpus=2", "--gpu-tune=h200", &torchrun]);
    assert_eq!(tasks.len(), 1);
    // Alone on its node it keeps all memory; its ranks are bound by the shim.
    check(&tasks[0], 0, |path| path.ends_with("/libgpu_tune_preload.so"));
}

#[test]
fn a_constrained_task_reads_its_own_cgroup_and_nothing_else() {
    let Some(traced) = Traced::start(Setup::default().constrained()) else { return };
    let tasks = traced.calls(&["-n2", "-c1", "--gpus-per-task=1", "--gpu-tune=h200", "true"]);
    assert_eq!(tasks.len(), 2);
    tasks.iter().for_each(|calls| check(calls, 1, may_tell_devices));
}

#[test]
fn with_a_default_for_the_cluster_a_step_without_gpus_reads_no_file_of_ours() {
    let Some(traced) = Traced::start(Setup::default().words("default=h200")) else { return };
    let read_by = |words: &[&str]| {
        traced.calls(words);
        let logs = traced.logs();
        let opened = |log: &str, file: &str| log.lines().any(|call| call.starts_with("open") && call.contains(file));
        ["profiles.d", "node.snapshot"].map(|file| logs.iter().filter(|log| opened(log, file)).count())
    };
    // slurmd itself has the node described.
    let [profiles, snapshot] = read_by(&["-n1", "true"]);
    assert_eq!(profiles, 0);
    assert_eq!(read_by(&["-n1", "true"]), [0, snapshot]);
    assert_eq!(read_by(&["-n1", "--gpus=1", "true"]), [1, snapshot + 1], "the slurmstepd of the third step");
}

/// Where a task finds out which of the step's GPUs are its own (`src/devices.rs`): in its cgroup, unless it is in a
/// container.
fn may_tell_devices(path: &str) -> bool {
    let of_cgroup = path.starts_with("/sys/fs/cgroup/devices/") && path.ends_with("/devices.list");
    ["/proc/self/cgroup", "/proc/self/ns/mnt"].contains(&path) || of_cgroup || path.starts_with("/dev/nvidia")
}

/// Fails for a call that has no place after the fork. CPUs are set once and memory `policies` times; `may_read` says
/// which paths have a place.
#[track_caller]
fn check(calls: &[String], policies: usize, may_read: impl Fn(&str) -> bool) {
    let count = |name: &str| calls.iter().filter(|call| call.starts_with(&format!("{name}("))).count();
    let all = calls.join("\n");
    assert_eq!((count("sched_setaffinity"), count("set_mempolicy")), (1, policies), "{all}");
    for call in calls {
        let name = call.split('(').next().unwrap();
        let path = call.split('"').nth(1).unwrap_or_default();
        let fine = match name {
            "sched_setaffinity" | "set_mempolicy" => true,
            "mmap" | "mprotect" => {
                !call.contains("PROT_EXEC") && (name == "mprotect" || call.contains("MAP_ANONYMOUS"))
            }
            // What Rust's debug builds ask before they close a file.
            "fcntl" => call.contains("F_GETFD"),
            "openat" | "open" => may_read(path) && !call.contains("O_CREAT"),
            // An empty path asks about an open file.
            "statx" | "stat" | "newfstatat" | "readlink" | "readlinkat" => path.is_empty() || may_read(path),
            _ => HARMLESS.contains(&name),
        };
        assert!(fine, "`{call}` among\n{all}");
    }
}

/// A Slurm whose daemons, and all that they start, are traced.
struct Traced {
    cluster: Cluster,
    tools: Place,
}

impl Traced {
    /// Starts one, or says what is missing here.
    fn start(setup: Setup) -> Option<Self> {
        if let Some(missing) = slurm::place::missing() {
            println!("skipped: {missing}");
            return None;
        }
        let tools = Place::new();
        let log = tools.inside("calls").display().to_string();
        // Not the parent but a child of the daemon traces it, so that the daemon can be stopped as any other.
        let strace = ["strace", "-D", "-ff", "-qq", "-s", "256", "-o", &log];
        if !tools.command("strace").args(&strace[1..]).arg("true").status().is_ok_and(|status| status.success()) {
            println!("skipped: strace is missing, or may not trace here");
            return None;
        }
        let (before, after) = (marker(&tools, "begin", BEGIN)?, marker(&tools, "end", END)?);
        let line = |plugin: PathBuf| format!("required {}", plugin.display());
        let setup = Setup { other_plugins: (line(before), line(after)), ..setup.daemon_prefix(&strace) };
        Some(Self { cluster: Cluster::start(setup)?, tools })
    }

    /// Runs a step; for each task the system calls of our `task_init`.
    fn calls(&self, words: &[&str]) -> Vec<Vec<String>> {
        self.cluster.run("srun", words, &[]).fine();
        self.logs().iter().filter_map(|log| between(log)).collect()
    }

    /// What each process has done so far.
    fn logs(&self) -> Vec<String> {
        let files = std::fs::read_dir(self.tools.outside("")).unwrap().flatten().map(|entry| entry.path());
        let logs = files.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("calls."));
        logs.map(|log| std::fs::read_to_string(log).unwrap()).collect()
    }
}

/// The lines between the marks; `None` where there are none.
fn between(log: &str) -> Option<Vec<String>> {
    let lines = || log.lines().filter(|line| !line.starts_with("---"));
    let begin = lines().position(|line| line.contains(BEGIN))?;
    let ours = lines().skip(begin + 1).take_while(|line| !line.contains(END));
    assert!(log.contains(END), "our task_init did not come back:\n{log}");
    Some(ours.map(str::to_owned).collect())
}

/// A plugin whose `task_init` looks for a file that is not there.
fn marker(tools: &Place, name: &str, path: &str) -> Option<PathBuf> {
    plugin::in_task_init(tools, name, &format!("(void)!access(\"{path}\", F_OK);"))
}
