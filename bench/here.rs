//! What the numbers were measured on.

use std::path::Path;
use std::process::Command;

/// The load of the last minute.
pub(crate) fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("?").to_owned()
}

/// Processor, kernel, Slurm, the state of the sources, and how busy the machine was before.
pub(crate) fn describe(root: &Path, load: String, rounds: usize) -> String {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("unknown processor", |(_, model)| model);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cpus = crate::slurm::machine::online_cpus();
    let (slurm, date) = (said(root, "slurmd", &["-V"]), said(root, "date", &["-u", "+%Y-%m-%d %H:%M UTC"]));
    let commit = said(root, "git", &["describe", "--always", "--dirty"]);
    format!(
        "{date}, {model}, {cpus} CPUs, Linux {}, {slurm}, gpu-tune {commit}, load {load} at the start; `make bench` with {rounds} \
         rounds.",
        kernel.trim()
    )
}

fn said(root: &Path, program: &str, args: &[&str]) -> String {
    let said = Command::new(program).args(args).current_dir(root).output();
    said.map_or_else(|_| "?".to_owned(), |said| String::from_utf8_lossy(&said.stdout).trim().to_owned())
}
