//! Whole jobs of their own, timed by hyperfine: what somebody waits for who types `srun true`.
//!
//! hyperfine finishes one command before it begins the next. Each is given twice, without, with, without, with: by how
//! much two equal ones differ is by how much the machine drifted.

use crate::slurm::Cluster;
use crate::stats::median;
use crate::steps::{TASKS, width};
use serde_json::Value;
use std::process::Stdio;

/// Jobs of one size.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) tasks: u32,
    /// Milliseconds: without and with gpu-tune, and both once more.
    pub(crate) times: [Vec<f64>; 4],
}

impl Whole {
    /// Medians without and with, of both turns together.
    pub(crate) fn medians(&self) -> [f64; 2] {
        [0, 1].map(|at| median(&[&self.times[at][..], &self.times[at + 2][..]].concat()))
    }

    /// The second turn without to the first: what the method itself is off.
    pub(crate) fn drift(&self) -> f64 {
        median(&self.times[2]) / median(&self.times[0])
    }
}

/// Times jobs of all [`TASKS`]; `None` without hyperfine. `ours` is plugstack.conf with our line.
pub(crate) fn run(cluster: &Cluster, ours: &str, runs: usize) -> Option<Vec<Whole>> {
    cluster.place.write("etc/plugstack.without", "");
    cluster.place.write("etc/plugstack.with", ours);
    TASKS.iter().map(|tasks| size(cluster, *tasks, runs)).collect()
}

fn size(cluster: &Cluster, tasks: u32, runs: usize) -> Option<Whole> {
    let path = |file: &str| cluster.place.inside(file).display().to_string();
    let report = path("hyperfine.json");
    let mut hyperfine = cluster.command("hyperfine");
    hyperfine.args(["-N", "--style=none", "--warmup=1", "--export-json", &report, &format!("--runs={runs}")]);
    for (stack, option) in [("without", ""), ("with", "--gpu-tune=h200")].repeat(2) {
        let prepare = format!("cp {} {}", path(&format!("etc/plugstack.{stack}")), path("etc/plugstack.conf"));
        hyperfine.args(["--prepare", &prepare, &format!("srun {} {option} true", width(tasks).join(" "))]);
    }
    let done = hyperfine.stdin(Stdio::null()).stdout(Stdio::null()).status().ok()?;
    assert!(done.success(), "hyperfine: {done}");
    let text = std::fs::read_to_string(cluster.place.outside("hyperfine.json")).unwrap();
    let results: Value = serde_json::from_str(&text).unwrap();
    let times = [0, 1, 2, 3].map(|at| {
        let seconds = results["results"][at]["times"].as_array().unwrap();
        seconds.iter().map(|time| time.as_f64().unwrap() * 1000.0).collect()
    });
    Some(Whole { tasks, times })
}
