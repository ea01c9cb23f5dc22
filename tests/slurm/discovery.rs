//! Discovery on a [`Cluster`]: what it finds, what stands in the place of the command, and what it leaves.

use super::{Cluster, machine, place};
use gpu_tune_engine::snapshot;
use std::time::{Duration, Instant};

/// Two GPUs as the stand-in NVML tells them, GPU 0 near CPU 1 and GPU 1 near CPU 0.
pub const NVML: &str = r#"{ "driver": "550.54.15", "gpus": [
    { "pci": "00000000:4E:00.0", "uuid": "GPU-0", "model": "NVIDIA H200", "minor": 0, "cpus": "1", "nodes": "0" },
    { "pci": "00000000:4F:00.0", "uuid": "GPU-1", "model": "NVIDIA H200", "minor": 1, "cpus": "0", "nodes": "0" } ] }"#;

/// The same for this host's own CPUs: GPU 0 near the last one, GPU 1 near the first, as Slurm would not choose.
pub fn nvml() -> String {
    let cpus = machine::online();
    let gpu = |number: u32, cpu: Option<u32>| {
        format!(
            r#"{{ "pci": "00000000:4{number}:00.0", "uuid": "GPU-{number}", "model": "NVIDIA H200", "minor": {number},
                 "cpus": "{}", "nodes": "0" }}"#,
            cpu.unwrap_or(0)
        )
    };
    format!(r#"{{ "driver": "550.54.15", "gpus": [{}, {}] }}"#, gpu(0, cpus.last()), gpu(1, cpus.first()))
}

impl Cluster {
    /// Puts a shell script in the place of the command, which it finds as `$REAL`. The snapshot is gone then.
    pub fn command_is(&self, script: &str) {
        let (path, real) = (self.place.outside("bin/gpu-tune"), self.place.outside("bin/real-gpu-tune"));
        if !real.exists() {
            std::fs::copy(&path, &real).unwrap();
        }
        let real = self.place.inside("bin/real-gpu-tune").display().to_string();
        self.place.script("bin/gpu-tune", &format!("REAL={real}\n{script}"));
        self.forget_snapshot();
    }

    /// Removes the snapshot.
    pub fn forget_snapshot(&self) {
        let _ = std::fs::remove_file(self.state_dir().join(snapshot::FILE_NAME));
    }

    /// Names in the state directory.
    pub fn state_files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.state_dir()).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    /// Step daemons, discoveries and tasks of this cluster, by what they run. slurmd and slurmctld are meant to be there.
    pub fn processes(&self) -> Vec<String> {
        let place = self.place.inside("").display().to_string();
        let slurmd = self.pid("slurmd").to_string();
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let pid = entry.file_name().to_string_lossy().into_owned();
            let read = |file: &str| std::fs::read(entry.path().join(file)).unwrap_or_default();
            let (words, stat) = (read("cmdline"), String::from_utf8_lossy(&read("stat")).into_owned());
            let words = String::from_utf8_lossy(&words).replace('\0', " ");
            let parent =
                stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)).unwrap_or_default().to_owned();
            let ours = words.contains(&format!("{place}bin/")) || parent == slurmd;
            if ours && pid.parse::<u32>().is_ok() && !words.starts_with("timeout") {
                found.push(format!("{pid} {stat} {words}"));
            }
        }
        found
    }

    /// Waits until nothing of this cluster runs but its daemons.
    #[track_caller]
    pub fn wait_until_quiet(&self) {
        wait_until(|| self.processes() == Vec::<String>::new(), "no process is left");
    }
}

/// Waits for something, half a minute at most.
#[track_caller]
pub fn wait_until(done: impl Fn() -> bool, what: &str) {
    let deadline = Instant::now() + place::patience(30);
    while !done() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
