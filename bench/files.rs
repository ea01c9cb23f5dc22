//! The files that were built: how big, what they export and need; and what srun opens because of them.

use crate::slurm::{Cluster, elf};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// The files of `make build` that are there, by name: of `GPU_TUNE_DIST`, or of target/dist.
pub(crate) fn read(root: &Path) -> Vec<(&'static str, elf::File)> {
    let dist = std::env::var_os("GPU_TUNE_DIST").map_or_else(|| root.join("target/dist"), PathBuf::from);
    let names = ["gpu_tune.so", "libgpu_tune_preload.so", "gpu-tune"];
    let there = names.into_iter().map(|name| (name, dist.join(name))).filter(|(_, path)| path.exists());
    there.map(|(name, path)| (name, elf::read(&path))).collect()
}

/// What srun opens with these words, by strace; `None` where that does not run. What is the job's or the place's own
/// name is left out, for it differs from run to run.
pub(crate) fn opened(cluster: &Cluster, words: &[String]) -> Option<BTreeSet<String>> {
    let log = cluster.place.outside("srun.strace");
    let mut strace = cluster.command("strace");
    strace.args(["-f", "-qq", "-e", "trace=openat", "-o"]).arg(&log).arg("srun").args(words);
    let ran = strace.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    ran.ok().filter(std::process::ExitStatus::success)?;
    let text = std::fs::read_to_string(log).ok()?;
    let place = cluster.place.inside("").display().to_string();
    let path = |line: &str| {
        let opened = line.contains("openat(") && !line.contains(" = -1 ");
        let path = line.split('"').nth(1).filter(|_| opened)?;
        let changes = ["/proc/", "/var/run/", "/run/", "/dev/"].iter().any(|start| path.starts_with(start));
        (!changes).then(|| path.replace(&place, "…/"))
    };
    Some(text.lines().filter_map(path).collect())
}
