//! Memory safety of the plugin inside Slurm's own programs, watched by valgrind: `make memcheck`. Slow, so `cargo test`
//! leaves it out.
#![cfg(test)]

mod slurm;

use slurm::{Cluster, Setup};
use std::path::Path;

/// Valgrind's words: a report names the functions and files on the way, and the plugin is unloaded before leaks are
/// looked for.
const VALGRIND: &str =
    "--keep-debuginfo=yes --num-callers=40 --leak-check=full --show-leak-kinds=definite --error-limit=no";

/// Paragraphs of valgrind's reports in which our file takes part. What Slurm does to itself is not ours to tell.
fn reports(dir: &Path) -> (usize, Vec<String>) {
    let mut processes = 0;
    let mut ours = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
        processes += usize::from(text.contains("Memcheck, a memory error detector"));
        // `==123== ` begins each line; an empty one ends a paragraph.
        let lines = text.lines().map(|line| line.split_once("== ").map_or("", |(_, rest)| rest).trim_end());
        let text: Vec<&str> = lines.collect();
        let about_us = |paragraph: &&[&str]| paragraph.iter().any(|line| line.contains("gpu_tune"));
        let faults = text.split(|line| line.is_empty()).filter(about_us).filter(|part| !once(part[0]));
        ours.extend(faults.map(|part| part.join("\n")));
    }
    (processes, ours)
}

/// What is no fault: the command line, and a single block that one of our statics held until Slurm unloaded the plugin at the
/// end of the process. A leak in what is done again and again has several blocks.
fn once(first_line: &str) -> bool {
    first_line.starts_with("Command:") || first_line.contains(" in 1 blocks are definitely lost")
}

#[test]
#[ignore = "slow, and needs valgrind: `make memcheck`"]
fn valgrind_finds_nothing_of_ours_in_srun_and_slurmstepd() {
    let watch = |log: &str| format!("valgrind {VALGRIND} --log-file={log}/%p");
    // The reports lie beside the script's own directory.
    let script = format!("cd \"$(dirname \"$0\")/..\"; exec {} slurmstepd \"$@\"", watch("out"));
    let setup = Setup { slurmstepd: Some(script), ..Setup::default() };
    let Some(mut cluster) = Cluster::start(setup) else { return };
    let logs = cluster.place.outside("out");
    let srun_log = cluster.place.inside("out").display().to_string();
    let words = watch(&srun_log);
    let mut under: Vec<&str> = words.split(' ').collect();
    let probe = cluster.probe_path();
    let valgrind = under.remove(0);
    for step in [
        vec!["-n2", "-c1", "--gpus-per-task=1", "--gpu-tune=h200+debug,verbose"],
        vec!["-n1", "-c2", "--gpus=2", "--gpu-tune=h200,dry-run"],
        vec!["-n1", "--gpus=1", "--gpu-tune=nonexistent"],
    ] {
        let out = cluster.run(valgrind, &[&under[..], &["srun"], &step[..], &[probe.as_str()]].concat(), &[]);
        assert_eq!(out.code == 0, !step.contains(&"--gpu-tune=nonexistent"), "{out:#?}");
    }
    let (processes, ours) = reports(&logs);
    assert!(processes >= 5, "valgrind watched {processes} processes only");
    assert!(ours.is_empty(), "{}", ours.join("\n\n"));
    cluster.check_alive();
}
