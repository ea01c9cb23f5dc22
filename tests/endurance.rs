//! Many steps, many tasks, several daemons, and daemons that come and go: nothing piles up and nothing is lost.
#![cfg(test)]

mod slurm;

use gpu_tune_engine::snapshot;
use slurm::discovery::NVML;
use slurm::{Cluster, Setup};
use std::path::Path;

#[test]
fn sixty_four_tasks_on_one_node_share_the_cores_and_hear_one_warning() {
    let setup = Setup { cores: Some(64), ..Setup::default() }.task_plugin("task/none");
    let Some(mut cluster) = Cluster::start(setup) else { return };
    let words = ["-n64", "-c1", "--gpus=2", "--gpu-tune=h200,verbose"];
    let out = cluster.probe(&words, &[]).fine();
    let tasks = out.witnesses();
    assert_eq!(tasks.len(), 64);
    // Task i drives GPU i mod 2; the 32 tasks of a GPU share its one core.
    for task in &tasks {
        assert_eq!(task.cpus, if task.rank % 2 == 0 { "1" } else { "0" }, "task {}", task.rank);
    }
    assert_eq!(out.stderr.matches("gpu-tune: warning: ").count(), 1, "{}", out.stderr);
    assert_eq!(out.stderr.lines().filter(|line| line.contains("NVIDIA H200")).count(), 64);
    cluster.check_alive();
}

#[test]
fn many_short_steps_leave_nothing_behind() {
    const STEPS: usize = 40;
    let Some(mut cluster) = Cluster::start(Setup::default().discovered(NVML)) else { return };
    cluster.wait_for_snapshot();
    let script =
        format!("for i in $(seq {STEPS}); do srun -n2 -c1 --gpus-per-task=1 --gpu-tune=h200 true || exit 1; done");
    let word = ["-n2", "-c1", "--gpus=2", "bash", "-c"];
    let salloc = |script: &str| cluster.run("salloc", &[&word[..], &[script]].concat(), &[]).fine();
    salloc("srun -n2 -c1 --gpus-per-task=1 --gpu-tune=h200 true");
    let slurmd = cluster.pid("slurmd");
    let files = || std::fs::read_dir(format!("/proc/{slurmd}/fd")).unwrap().count();
    let children = || std::fs::read_to_string(format!("/proc/{slurmd}/task/{slurmd}/children")).unwrap_or_default();
    let before = files();
    salloc(&script);
    assert!(files() <= before + 2, "{before} open files before, {} after", files());
    assert_eq!(children(), "", "slurmd has children that nobody waits for");
    assert_eq!(cluster.state_files(), [snapshot::FILE_NAME]);
    cluster.check_alive();
}

#[test]
fn a_step_survives_a_restart_of_slurmd_and_the_next_one_is_tuned() {
    let Some(mut cluster) = Cluster::start(Setup::default().discovered(NVML)) else { return };
    cluster.wait_for_snapshot();
    let words = ["-n2", "-c1", "--gpus-per-task=1", "--gpu-tune=h200"];
    let mut running = cluster.command("srun");
    let mut running = running.args(words).args(["sleep", "8"]).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_secs(1));
    cluster.restart_slurmd(&[]);
    assert!(running.wait().unwrap().success());
    let out = cluster.probe(&words, &[]).fine();
    assert_eq!(out.witnesses()[0].cpus, "1");
    cluster.check_alive();
}

#[test]
fn two_slurmd_on_one_host_tune_both_nodes_and_tell_about_each() {
    let Some(mut cluster) = Cluster::start(Setup::default().nodes(2)) else { return };
    let words = ["-N2", "-n4", "-c1", "--gpus-per-task=1", "--gpu-tune=h200,verbose"];
    let out = cluster.probe(&words, &[]).fine();
    assert_eq!(out.masks(), ["1", "0", "1", "0"]);
    for node in ["node n1:", "node n2:"] {
        assert_eq!(out.stderr.matches(node).count(), 1, "one table for each node: {}", out.stderr);
    }
    cluster.check_alive();
}

#[test]
fn a_state_directory_that_cannot_be_written_costs_the_binding_only() {
    let Some(mut cluster) = Cluster::start(Setup::default().discovered(NVML).words("state=/proc/gpu-tune")) else {
        return;
    };
    assert!(!Path::new("/proc/gpu-tune").exists());
    let out = cluster.probe(&["-n2", "-c1", "--gpus-per-task=1", "--gpu-tune=h200"], &[]).fine();
    assert_eq!(out.witnesses()[0].var("NCCL_DEBUG"), Some("WARN"));
    assert_eq!(out.stderr.matches("gpu-tune: warning: ").count(), 1, "{}", out.stderr);
    assert!(out.stderr.contains("/proc/gpu-tune"), "{}", out.stderr);
    cluster.check_alive();
}
