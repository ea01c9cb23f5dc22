//! What a node goes through in its life, on a real Slurm: hundreds of steps, changes and restarts while steps run. Nothing is
//! left behind, and no job notices.
#![cfg(test)]

mod slurm;

use slurm::discovery::wait_until;
use slurm::{Cluster, Setup};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

const STEP: [&str; 4] = ["-n2", "-c1", "--gpus-per-task=1", "--gpu-tune=h200"];

#[test]
#[ignore = "a minute and a half: `make endure`"]
fn a_node_stays_as_it_was_through_everything() {
    // A task that has not yet become its command misses the first signal; Slurm sends the second so many seconds later.
    let Some(mut cluster) = Cluster::start(Setup::default().more("KillWait=2")) else { return };
    a_profile_edited_during_a_job_counts_from_the_next_step_on(&cluster);
    a_step_goes_on_while_slurmd_is_reconfigured_and_restarted(&mut cluster);
    steps_killed_while_they_start_leave_nothing(&cluster);
    two_hundred_steps_leave_nothing(&cluster);
    cluster.check_alive();
}

fn a_profile_edited_during_a_job_counts_from_the_next_step_on(cluster: &Cluster) {
    let profile = |value: &str| format!("inherits = \"base\"\n[env]\nNCCL_DEBUG = \"{value}\"\n");
    let file = cluster.place.write("etc/profiles.d/edited.toml", &profile("INFO")).display().to_string();
    let next = cluster.place.write("etc/next", &profile("TRACE")).display().to_string();
    let probe = cluster.probe_path();
    // The first step is running when the file changes.
    let script = format!(
        "srun -n1 sh -c 'sleep 1; exec {probe}' & sleep 0.5; mv {next} {file}; wait; srun -n1 {probe}\n\
         echo '[env' > {file}; srun -n1 {probe}"
    );
    let out = cluster.batch(&["-n1", "--gpus=1", "--gpu-tune=edited"], &[], &script).fine();
    let seen: Vec<_> = out.stdout.lines().filter_map(|line| line.split_once("\"NCCL_DEBUG\":")).collect();
    assert!(seen[0].1.starts_with("\"INFO\"") && seen[1].1.starts_with("\"TRACE\""), "{}", out.stdout);
    assert_eq!(out.witnesses().len(), 3, "a broken profile ended a job: {}", out.stdout);
    assert!(out.stdout.contains("edited.toml:1:"), "{}", out.stdout);
}

fn a_step_goes_on_while_slurmd_is_reconfigured_and_restarted(cluster: &mut Cluster) {
    let to = cluster.place.inside("out/long-%t").display().to_string();
    let command = format!("sleep 3; exec {}", cluster.probe_path());
    let mut long = start(cluster, &[&STEP[..], &["--output", &to, "sh", "-c", &command]].concat());
    wait_until(|| cluster.run("squeue", &["-h", "-t", "running", "-s"], &[]).stdout.contains("sh"), "the step runs");
    cluster.run("scontrol", &["reconfigure"], &[]).fine();
    cluster.restart_slurmd(&[]);
    assert!(long.wait().unwrap().success(), "{}", cluster.place.logs());
    for task in ["0", "1"] {
        let said = std::fs::read_to_string(cluster.place.outside(&format!("out/long-{task}"))).unwrap();
        assert!(said.contains(&format!("\"cpus\":\"{}\"", cluster_cpu(task))), "{said}");
    }
    assert_eq!(cluster.probe(&STEP, &[]).fine().witnesses().len(), 2, "and the next step runs too");
}

/// The described GPUs are near each other's cores: task 0 runs on CPU 1.
fn cluster_cpu(task: &str) -> &str {
    if task == "0" { "1" } else { "0" }
}

fn steps_killed_while_they_start_leave_nothing(cluster: &Cluster) {
    for tenths in 0..8 {
        let mut step = start(cluster, &[&STEP[..], &["sleep", "60"]].concat());
        std::thread::sleep(Duration::from_millis(60 * tenths));
        let _ = cluster.run("scancel", &["--user", "root"], &[]);
        let deadline = Instant::now() + Duration::from_secs(20);
        while step.try_wait().unwrap().is_none() {
            assert!(Instant::now() < deadline, "srun hangs\n{}", cluster.place.logs());
            // The job may have been made after the scancel.
            let _ = cluster.run("scancel", &["--user", "root"], &[]);
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    wait_until(|| cluster.run("squeue", &["-h"], &[]).stdout.is_empty(), "no job is left");
    cluster.wait_until_quiet();
}

fn two_hundred_steps_leave_nothing(cluster: &Cluster) {
    many_steps(cluster, 10);
    let (before, memory) = (traces(cluster), memory_of_slurmd(cluster));
    many_steps(cluster, 200);
    cluster.wait_until_quiet();
    assert_eq!(traces(cluster), before, "files of the state directory, and open files of slurmd");
    let grown = memory_of_slurmd(cluster).saturating_sub(memory);
    println!("slurmd has grown by {grown} KiB, from {memory}");
    assert!(grown < 200 * LEAK, "slurmd has grown by {grown} KiB");
}

/// KiB by which slurmd may grow in a step: it has buffers of its own.
const LEAK: u64 = 16;

/// Its own memory in KiB, whatever files are mapped.
fn memory_of_slurmd(cluster: &Cluster) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", cluster.pid("slurmd"))).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn many_steps(cluster: &Cluster, count: u32) {
    let script = format!("for i in $(seq {count}); do srun -n2 -c1 --gpus-per-task=1 -Q true || exit 9; done");
    let mut command = cluster.command("timeout");
    command.args(["280", "salloc", "-Q", "-n2", "-c1", "--gpus=2", "--gpu-tune=h200", "sh", "-c", &script]);
    let out = command.stdin(Stdio::null()).output().unwrap();
    assert!(out.status.success(), "{out:?}");
    assert_eq!(String::from_utf8_lossy(&out.stderr), "", "nothing is told of a step that is fine");
}

/// What may pile up: names in the state directory, files that slurmd has open.
fn traces(cluster: &Cluster) -> (Vec<String>, usize) {
    let names = |path: &Path| -> Vec<String> {
        let entries = std::fs::read_dir(path).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    // Connections come and go; files and pipes are what we could leave open.
    let fds = Path::new("/proc").join(cluster.pid("slurmd").to_string()).join("fd");
    let open = names(&fds).into_iter().filter_map(|fd| std::fs::read_link(fds.join(fd)).ok());
    (cluster.state_files(), open.filter(|to| !to.to_string_lossy().starts_with("socket:")).count())
}

fn start(cluster: &Cluster, words: &[&str]) -> Child {
    let mut command = cluster.command("srun");
    command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}
