//! Steps on a real Slurm that constrains cores and devices by cgroups.
#![cfg(test)]

mod slurm;

use slurm::{Cluster, Setup};
use std::time::{Duration, Instant};

#[test]
fn each_task_is_bound_for_the_gpu_that_it_may_really_open() {
    let setup = Setup::default().gpus(4).constrained().oversubscribed();
    let Some(mut cluster) = Cluster::start(setup) else { return };
    let mut holder = cluster.command("srun");
    let mut holder = holder.args(["-n1", "-c1", "--gpus=2", "sleep", "60"]).spawn().unwrap();
    wait_for_running_step(&cluster);
    let words = ["-n2", "-c1", "--gpus-per-task=1", "--gpu-tune=h200,verbose"];
    let out = cluster.probe(&words, &[]).fine();
    let tasks = out.witnesses();
    // The variable counts from 0 within what each may open, which is what makes this hard.
    assert!(tasks.iter().all(|task| task.var("CUDA_VISIBLE_DEVICES") == Some("0")), "{tasks:?}");
    let rows: Vec<&str> = out.stderr.lines().filter(|line| line.contains("NVIDIA H200")).collect();
    assert_eq!(rows.len(), 2, "{}", out.stderr);
    for (row, (task, (pci, cpu))) in rows.iter().zip(tasks.iter().zip([("0000:12:00.0", "1"), ("0000:13:00.0", "0")])) {
        assert!(row.contains(pci), "{}", out.stderr);
        assert_eq!(task.cpus, cpu, "the core near {pci}");
    }
    assert!(!out.stderr.contains("warning"), "{}", out.stderr);
    assert_eq!(out.stderr.matches("note: each task can open only its own GPUs").count(), 1, "{}", out.stderr);
    let both = cluster.probe(&["-n1", "-c2", "--gpus=2", "--gpu-tune=h200,verbose"], &[]).fine();
    assert_eq!(both.witnesses()[0].var("CUDA_VISIBLE_DEVICES"), Some("0,1"));
    assert!(!both.stderr.contains("can open only its own"), "{}", both.stderr);
    assert!(both.stderr.contains("0000:12:00.0") && both.stderr.contains("0000:13:00.0"), "{}", both.stderr);
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
    let words = ["-n2", "-c1", "--gpus-per-task=1", "--gpu-tune=h200,verbose"];
    let out = cluster.probe(&words, &[]).fine();
    let tasks = out.witnesses();
    assert_eq!((tasks[0].cpus.as_str(), tasks[1].cpus.as_str()), ("1", "0"), "{}", out.stderr);
}

#[test]
fn without_a_task_plugin_the_cores_that_slurm_gave_are_shared_out() {
    let Some(cluster) = Cluster::start(Setup::default().task_plugin("task/none")) else { return };
    let tasks = cluster.probe(&["-n2", "-c1", "--gpus=2", "--gpu-tune=h200"], &[]).fine().witnesses();
    assert_eq!((tasks[0].cpus.as_str(), tasks[1].cpus.as_str()), ("1", "0"));
    let one = cluster.probe(&["-n1", "-c1", "--gpus=1", "--gpu-tune=h200"], &[]).fine().witnesses();
    assert_eq!(one[0].cpus, "0", "only the one core that the step owns");
}
