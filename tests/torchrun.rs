//! PyTorch's real torchrun on a real Slurm. It takes its time: each process loads PyTorch.
#![cfg(test)]

mod slurm;

use serde_json::Value;
use slurm::{Cluster, Setup};
use std::path::{Path, PathBuf};
use std::process::Stdio;

const TORCHRUN: &str = "/usr/bin/torchrun";

/// A cluster, if there is a torchrun and there are two CPUs.
fn cluster(setup: Setup) -> Option<Cluster> {
    let cluster = Cluster::start(setup)?;
    if !cluster.place.root().join(TORCHRUN.trim_start_matches('/')).exists() {
        println!("skipped: no {TORCHRUN}: Debian's python3-torch has it");
        return None;
    }
    if slurm::machine::online_cpus() < 2 {
        println!("skipped: needs two CPUs");
        return None;
    }
    cluster.place.write("train.py", include_str!("torch/train.py"));
    Some(cluster)
}

fn near(gpu: usize) -> String {
    slurm::machine::described(8).gpus[gpu].locality.as_ref().unwrap().cpus.to_string()
}

/// `srun OPTIONS COMMAND`, and what the workers wrote, by node and local rank. `train` says how much of train.py runs.
#[track_caller]
fn workers(cluster: &Cluster, name: &str, train: &str, options: &str, command: &str) -> Vec<Value> {
    let out = format!("spool/{name}");
    std::fs::create_dir_all(cluster.place.outside(&out)).unwrap();
    let home = cluster.place.inside("").display().to_string();
    let command = command.replace("HERE", home.trim_end_matches('/'));
    let mut srun = cluster.command("timeout");
    srun.args(["-k", "5", "400", "srun"]).args(options.split_whitespace()).args(command.split_whitespace());
    srun.env("OUT", cluster.place.inside(&out)).env("TRAIN", train).env("GLOO_SOCKET_IFNAME", "lo");
    // PyTorch 1.13 does not start on Python 3.11 without these two.
    srun.env("PET_REDIRECTS", "1").env("PET_TEE", "1").env("PYTHONPATH", cluster.place.inside("")).stdin(Stdio::null());
    let said = srun.output().unwrap();
    assert!(said.status.success(), "{command}: {}\n{}", said.status, String::from_utf8_lossy(&said.stderr));
    let files = std::fs::read_dir(cluster.place.outside(&out)).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = files.collect();
    files.sort();
    files.iter().map(|file| serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()).collect()
}

fn texts(workers: &[Value], key: &str) -> Vec<String> {
    workers.iter().map(|worker| worker[key].as_str().unwrap_or("-").to_owned()).collect()
}

const ONE: &str = "-N1 --ntasks-per-node=1 -c2 --gpus-per-node=2 --gpu-tune=h200";

#[test]
fn two_workers_of_one_torchrun_are_bound_from_birth_and_so_is_what_they_start() {
    let Some(mut cluster) = cluster(Setup::default()) else { return };
    let workers = workers(&cluster, "one", "all", ONE, "torchrun HERE/train.py");
    assert_eq!(texts(&workers, "born"), [near(0), near(1)]);
    assert_eq!(texts(&workers, "agent"), ["0-1", "0-1"]);
    assert_eq!(texts(&workers, "WORLD_SIZE"), ["2", "2"]);
    for (rank, worker) in workers.iter().enumerate() {
        assert_eq!(worker["sum"], 3.0, "{worker}");
        assert_eq!(worker["child"], near(rank).as_str(), "{worker}");
        assert_eq!(worker["loader"], serde_json::json!([1, near(rank).parse::<u32>().unwrap()]), "{worker}");
        assert_eq!(worker["pinned"], "0", "{worker}");
    }
    cluster.check_alive();
}

#[test]
fn nodes_find_each_other_without_a_flag_in_slurms_order_and_jobs_do_not_meet() {
    let Some(mut cluster) = cluster(Setup::default().nodes(4).gpus(1)) else { return };
    let options = |nodes: u32| format!("-N{nodes} --ntasks-per-node=1 --gpus-per-node=1 --gpu-tune=h200");
    let all = workers(&cluster, "four", "reduce", &options(4), "torchrun HERE/train.py");
    assert_eq!(texts(&all, "RANK"), ["0", "1", "2", "3"]);
    assert_eq!(texts(&all, "SLURMD_NODENAME"), ["n1", "n2", "n3", "n4"]);
    assert!(all.iter().all(|worker| worker["sum"] == 10.0), "{all:?}");
    let (first, second) = std::thread::scope(|scope| {
        let run = |name| workers(&cluster, name, "reduce", &options(2), "torchrun HERE/train.py");
        let first = scope.spawn(move || run("first"));
        let second = scope.spawn(move || run("second"));
        (first.join().unwrap(), second.join().unwrap())
    });
    for job in [&first, &second] {
        assert_eq!(texts(job, "WORLD_SIZE"), ["2", "2"]);
        assert!(job.iter().all(|worker| worker["sum"] == 3.0), "{job:?}");
    }
    assert_ne!(texts(&first, "TORCHELASTIC_RUN_ID"), texts(&second, "TORCHELASTIC_RUN_ID"));
    let alone = workers(&cluster, "alone", "", &options(2), "torchrun --standalone HERE/train.py");
    assert_eq!(texts(&alone, "WORLD_SIZE"), ["1", "1"]);
    cluster.check_alive();
}

#[test]
fn every_way_to_start_torchrun_binds_its_workers() {
    let Some(cluster) = cluster(Setup::default()) else { return };
    let here = cluster.place.inside("");
    cluster.place.write("bin/launch.sh", &format!("#!/bin/sh\nexec torchrun {}/train.py\n", here.display()));
    let ways = [
        ("no-python", ONE.to_owned(), "torchrun --no_python /usr/bin/python3 HERE/train.py"),
        ("module", ONE.to_owned(), "torchrun -m train"),
        ("interpreter", ONE.to_owned(), "/usr/bin/python3 -u -m torch.distributed.run HERE/train.py"),
        ("script", format!("{ONE},rendezvous=on"), "sh HERE/bin/launch.sh"),
    ];
    for (name, options, command) in ways {
        let workers = workers(&cluster, name, "", &options, command);
        assert_eq!(texts(&workers, "born"), [near(0), near(1)], "{name}");
    }
}

#[test]
fn a_virtual_environments_python_stays_that() {
    let Some(cluster) = cluster(Setup::default()) else { return };
    let venv = cluster.place.inside("venv").display().to_string();
    let made = cluster.run("/usr/bin/python3", &["-m", "venv", "--system-site-packages", "--without-pip", &venv], &[]);
    if made.code != 0 || !Path::new(&venv).exists() {
        return println!("skipped: no venv: {}", made.stderr);
    }
    let workers =
        workers(&cluster, "venv", "", ONE, &format!("{venv}/bin/python -m torch.distributed.run HERE/train.py"));
    assert_eq!(texts(&workers, "prefix"), [venv.as_str(), &venv]);
    assert_eq!(texts(&workers, "born"), [near(0), near(1)]);
}
