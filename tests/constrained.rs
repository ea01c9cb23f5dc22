//! Steps on a real Slurm that constrains cores and devices by cgroups.
#![cfg(test)]

mod slurm;

use slurm::{Cluster, Setup};
use std::time::{Duration, Instant};

#[test]
fn each_task_is_bound_for_the_gpu_that_it_may_really_open() {
    let Some(mut cluster) = Cluster::start(Setup::default().gpus(4).constrained()) else { return };
    // One CPU of the two, so that the job below finds the other; the GPUs 0 and 1.
    let mut holder = cluster.command("srun");
    let mut holder = holder.args(["-n1", "-c1", "--gpus=2", "sleep", "60"]).spawn().unwrap();
    wait_for_running_step(&cluster);
    let words = ["-n1", "-c1", "--gpus=2", "--gpu-tune=h200,verbose"];
    let alone = cluster.probe(&words, &[]).fine();
    assert!(alone.stderr.contains("0000:12:00.0") && alone.stderr.contains("0000:13:00.0"), "{}", alone.stderr);
    // The variable counts from 0 within what may be opened, which is what makes this hard.
    assert_eq!(alone.witnesses()[0].var("CUDA_VISIBLE_DEVICES"), Some("0,1"));
    let words = ["-n2", "-c1", "--overcommit", "--gpus-per-task=1", "--gpu-tune=h200,verbose"];
    let out = cluster.probe(&words, &[]).fine();
    let tasks = out.witnesses();
    assert!(tasks.iter().all(|task| task.var("CUDA_VISIBLE_DEVICES") == Some("0")), "{tasks:?}");
    let rows: Vec<Vec<&str>> = out
        .stderr
        .lines()
        .filter(|line| line.contains("NVIDIA H200"))
        .map(|line| line.split_whitespace().collect())
        .collect();
    let gpu_of = |rank: &str| rows.iter().find(|row| row.iter().any(|word| *word == rank)).map(|row| row.join(" "));
    let (first, second) = (gpu_of("0").unwrap(), gpu_of("1").unwrap());
    assert!(first.contains("0000:12:00.0"), "{}", out.stderr);
    assert!(second.contains("0000:13:00.0"), "{}", out.stderr);
    assert!(!out.stderr.contains("of another task"), "{}", out.stderr);
    holder.kill().unwrap();
    holder.wait().unwrap();
    cluster.check_alive();
}

fn wait_for_running_step(cluster: &Cluster) {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let steps = cluster.run("squeue", &["-h", "-s"], &[]).fine();
        if steps.stdout.contains("sleep") {
            return;
        }
        assert!(Instant::now() < deadline, "the holder does not run");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn nothing_is_bound_outside_the_cpuset_of_the_step() {
    let Some(cluster) = Cluster::start(Setup::default().constrained()) else { return };
    let words = ["-n1", "-c1", "--gpus=1", "--gpu-tune=h200"];
    let plain = cluster.probe(&words[..3], &[]).fine().witnesses().remove(0);
    let tuned = cluster.probe(&words, &[]).fine().witnesses().remove(0);
    assert_eq!(tuned.cpus.len(), 1, "one CPU: {}", tuned.cpus);
    assert_eq!(tuned.cpus, plain.cpus);
    let words = ["-n2", "-c1", "--gpus-per-task=1", "--gpu-tune=h200"];
    let tasks = cluster.probe(&words, &[]).fine().witnesses();
    assert_eq!((tasks[0].cpus.as_str(), tasks[1].cpus.as_str()), ("0", "1"));
}

#[test]
fn without_a_task_plugin_the_cores_that_slurm_gave_are_shared_out() {
    let Some(cluster) = Cluster::start(Setup::default().task_plugin("task/none")) else { return };
    let tasks = cluster.probe(&["-n2", "-c1", "--gpus=2", "--gpu-tune=h200"], &[]).fine().witnesses();
    assert_eq!((tasks[0].cpus.as_str(), tasks[1].cpus.as_str()), ("0", "1"));
    let one = cluster.probe(&["-n1", "-c1", "--gpus=1", "--gpu-tune=h200"], &[]).fine().witnesses();
    assert_eq!(one[0].cpus, "0", "only the one core that the step owns");
}
