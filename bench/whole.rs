//! Whole jobs of their own, timed by hyperfine: what somebody waits for who types `srun true`.
//!
//! hyperfine finishes one command before it begins the next, and a machine drifts: so both commands are given many times,
//! without, with, without, with, and each turn is compared with its neighbour.

use crate::slurm::Cluster;
use crate::stats::Ratio;
use crate::steps::{TASKS, width};
use serde_json::Value;
use std::process::Stdio;

/// Jobs of one size.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) tasks: u32,
    /// The median of each turn in milliseconds: without gpu-tune, and with it.
    pub(crate) turns: [Vec<f64>; 2],
    /// hyperfine's own report.
    pub(crate) report: Value,
}

impl Whole {
    /// With gpu-tune to without, turn by turn.
    pub(crate) fn ratio(&self) -> Ratio {
        Ratio::of(&self.turns[1], &self.turns[0])
    }

    /// Each turn without to the one before: what the method itself is off.
    pub(crate) fn drift(&self) -> Ratio {
        let without = &self.turns[0];
        Ratio::of(&without[1..], &without[..without.len() - 1])
    }
}

/// Jobs of each kind in a turn.
const RUNS: usize = 4;

/// Times jobs of all [`TASKS`]; `None` without hyperfine. `ours` is plugstack.conf with our line.
pub(crate) fn run(cluster: &Cluster, ours: &str, turns: usize) -> Option<Vec<Whole>> {
    cluster.place.write("etc/plugstack.without", "");
    cluster.place.write("etc/plugstack.with", ours);
    TASKS.iter().map(|tasks| size(cluster, *tasks, turns.max(2))).collect()
}

fn size(cluster: &Cluster, tasks: u32, turns: usize) -> Option<Whole> {
    let path = |file: &str| cluster.place.inside(file).display().to_string();
    let report = path("hyperfine.json");
    let mut hyperfine = cluster.command("hyperfine");
    hyperfine.args(["-N", "--style=none", "--warmup=1", "--export-json", &report, &format!("--runs={RUNS}")]);
    for (stack, option) in [("without", ""), ("with", "--gpu-tune=h200")].repeat(turns) {
        let prepare = format!("cp {} {}", path(&format!("etc/plugstack.{stack}")), path("etc/plugstack.conf"));
        hyperfine.args(["--prepare", &prepare, &format!("srun {} {option} true", width(tasks).join(" "))]);
    }
    let done = hyperfine.stdin(Stdio::null()).stdout(Stdio::null()).status().ok()?;
    assert!(done.success(), "hyperfine: {done}");
    let text = std::fs::read_to_string(cluster.place.outside("hyperfine.json")).unwrap();
    let results: Value = serde_json::from_str(&text).unwrap();
    let turns = [0, 1].map(|kind| {
        let results = results["results"].as_array().unwrap().iter().skip(kind).step_by(2);
        results.map(|result| result["median"].as_f64().unwrap() * 1000.0).collect()
    });
    Some(Whole { tasks, turns, report: results })
}
