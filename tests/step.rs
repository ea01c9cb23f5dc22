//! Steps on a real Slurm: what the tasks themselves see with gpu-tune, against what they see without.
#![cfg(test)]

mod slurm;

use slurm::{Cluster, Setup};

/// The words of the first example of the manual.
const TWO_TASKS: [&str; 3] = ["-n2", "--gpus-per-task=1", "-c1"];

fn with<'a>(words: &[&'a str]) -> Vec<&'a str> {
    [&TWO_TASKS[..], words].concat()
}

#[test]
fn each_task_has_its_own_cores_its_memory_and_the_environment_of_the_profile() {
    let Some(mut cluster) = Cluster::start(Setup::default()) else { return };
    let out = cluster.probe(&with(&["--gpu-tune=h200,verbose"]), &[]).fine();
    let tasks = out.witnesses();
    assert_eq!(tasks.len(), 2);
    // Each on the core near its GPU, which is not the one that Slurm chose.
    assert_eq!((tasks[0].cpus.as_str(), tasks[1].cpus.as_str()), ("1", "0"));
    for task in &tasks {
        assert_eq!((task.policy, task.nodes.as_slice()), (1, [0].as_slice()), "{task:?}");
        assert_eq!(task.var("NCCL_DEBUG"), Some("WARN"));
        assert_eq!(task.var("OMP_NUM_THREADS"), Some("1"));
        assert_eq!(task.var("GPU_TUNE_PROFILE"), Some("h200"));
    }
    let table: Vec<&str> = out.stderr.lines().filter(|line| line.contains("NVIDIA H200")).collect();
    assert_eq!(table.len(), 2, "one table for the node:\n{}", out.stderr);
    for (line, (pci, cpu)) in table.iter().zip([("0000:10:00.0", "1"), ("0000:11:00.0", "0")]) {
        let words: Vec<&str> = line.split_whitespace().collect();
        assert!(words.ends_with(&[pci, "NVIDIA", "H200", cpu, "0", "preferred"]), "{line}");
    }
    assert_eq!(out.stderr.matches("node n1: profile `h200`, CPUs 0-1").count(), 1, "{}", out.stderr);
    assert!(out.stderr.contains("NCCL_DEBUG=WARN"), "{}", out.stderr);
    cluster.check_alive();
}

#[test]
fn what_the_user_exported_stays_his() {
    let Some(cluster) = Cluster::start(Setup::default()) else { return };
    let out = cluster.probe(&with(&["--gpu-tune=h200,verbose"]), &[("NCCL_DEBUG", "INFO")]).fine();
    assert!(out.witnesses().iter().all(|task| task.var("NCCL_DEBUG") == Some("INFO")));
    let told = out.stderr.lines().find(|line| line.contains("NCCL_DEBUG=INFO"));
    assert!(told.is_some_and(|line| line.ends_with("set by the user")), "{}", out.stderr);
}

#[test]
fn off_is_the_same_as_not_installed() {
    let Some(with_plugin) = Cluster::start(Setup::default()) else { return };
    let off = with_plugin.probe(&with(&["--gpu-tune=off"]), &[]).fine();
    let silent = with_plugin.probe(&TWO_TASKS, &[]).fine();
    drop(with_plugin);
    let Some(without) = Cluster::start(Setup::default().without_plugin()) else { return };
    let plain = without.probe(&TWO_TASKS, &[]).fine();
    for out in [&off, &silent] {
        assert_eq!(out.stderr, "");
        for (mine, theirs) in out.witnesses().iter().zip(plain.witnesses()) {
            assert_eq!(mine.stable_env(), theirs.stable_env());
            assert_eq!((&mine.cpus, mine.policy, &mine.memlock), (&theirs.cpus, theirs.policy, &theirs.memlock));
        }
    }
}

#[test]
fn a_dry_run_tells_everything_and_changes_nothing() {
    let Some(cluster) = Cluster::start(Setup::default()) else { return };
    let out = cluster.probe(&with(&["--gpu-tune=h200,dry-run"]), &[]).fine();
    let plain = cluster.probe(&TWO_TASKS, &[]).fine();
    for (mine, theirs) in out.witnesses().iter().zip(plain.witnesses()) {
        assert_eq!(mine.stable_env(), theirs.stable_env());
        assert_eq!((mine.policy, &mine.cpus), (0, &theirs.cpus));
    }
    assert!(out.stderr.contains("dry run: nothing was changed"), "{}", out.stderr);
    assert!(out.stderr.contains("0000:11:00.0"), "{}", out.stderr);
}

#[test]
fn classic_sets_exactly_the_values_of_the_template() {
    let Some(cluster) = Cluster::start(Setup::default()) else { return };
    let expected = [
        ("NCCL_DEBUG", "INFO"),
        ("NCCL_DEBUG_SUBSYS", "INIT,ENV"),
        ("NCCL_IB_DISABLE", "0"),
        ("NCCL_BUFFSIZE", "16777216"),
        ("NCCL_NET_GDR_LEVEL", "5"),
        ("NCCL_CROSS_NIC", "1"),
        ("NCCL_IB_GID_INDEX", "3"),
        ("NCCL_IB_TC", "106"),
        ("CUDA_DEVICE_MAX_CONNECTIONS", "1"),
        ("TORCH_NCCL_AVOID_RECORD_STREAMS", "1"),
        ("OMP_NUM_THREADS", "4"),
        ("MKL_NUM_THREADS", "4"),
    ];
    let plain = cluster.probe(&TWO_TASKS, &[]).fine().witnesses().remove(0).stable_env();
    for task in cluster.probe(&with(&["--gpu-tune=classic"]), &[]).fine().witnesses() {
        let mut own = task.stable_env();
        own.retain(|name, value| plain.get(name) != Some(value) && !name.starts_with("GPU_TUNE_"));
        // Rank mode's rendezvous is the launcher's part of the contract, not a value of the template.
        own.retain(|name, _| {
            !["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"]
                .contains(&name.as_str())
        });
        let own: Vec<(&str, &str)> = own.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        assert_eq!(own, expected);
        assert_eq!((task.policy, task.nodes.as_slice()), (2, [0].as_slice()), "`mem = \"bind\"`");
    }
}

#[test]
fn the_keys_of_the_option_reach_the_kernel() {
    let Some(cluster) = Cluster::start(Setup::default()) else { return };
    let masks = |option: &str| -> Vec<(String, i64)> {
        let out = cluster.probe(&with(&[option]), &[]).fine();
        out.witnesses().iter().map(|task| (task.cpus.clone(), task.policy)).collect()
    };
    let both = |cpus: &str, policy| vec![(cpus.to_owned(), policy); 2];
    assert_eq!(masks("--gpu-tune=h200,bind=socket"), both("0-1", 1));
    assert_eq!(masks("--gpu-tune=h200,mem=bind"), [("1".into(), 2), ("0".into(), 2)]);
    assert_eq!(masks("--gpu-tune=h200,mem=off"), [("1".into(), 0), ("0".into(), 0)]);
    // What Slurm's own binding does when nobody else binds.
    let plain = cluster.probe(&TWO_TASKS, &[]).fine().masks();
    let off: Vec<_> = masks("--gpu-tune=h200,bind=off,mem=off").into_iter().map(|(cpus, _)| cpus).collect();
    assert_eq!(off, plain);
    // Where nobody is bound by us, what a task has is its own mask.
    for words in [&["--gpu-tune=h200,bind=off"][..], &["--gpu-tune=h200", "--cpu-bind=map_cpu:0,1"]] {
        let tasks = cluster.probe(&with(words), &[]).fine().witnesses();
        assert!(tasks.iter().all(|task| task.var("OMP_NUM_THREADS") == Some("1")), "{tasks:?}");
    }
    let task = cluster.probe(&with(&["--gpu-tune=h200,env=off"]), &[]).fine().witnesses().remove(0);
    assert_eq!((task.var("NCCL_DEBUG"), task.var("OMP_NUM_THREADS")), (None, None));
}

#[test]
fn the_users_own_binding_is_left_alone_and_verbose_says_so() {
    let Some(cluster) = Cluster::start(Setup::default()) else { return };
    let out = cluster.probe(&with(&["--cpu-bind=map_cpu:0,1", "--gpu-tune=h200,verbose"]), &[]).fine();
    let tasks = out.witnesses();
    assert_eq!((tasks[0].cpus.as_str(), tasks[1].cpus.as_str()), ("0", "1"));
    assert_eq!(tasks[0].policy, 0);
    assert!(out.stderr.contains("`--cpu-bind` was given"), "{}", out.stderr);
    assert_eq!(tasks[0].var("NCCL_DEBUG"), Some("WARN"), "the environment is still set");
    let quiet = cluster.probe(&with(&["--cpu-bind=verbose", "--gpu-tune=h200"]), &[]).fine();
    assert_eq!(quiet.witnesses()[1].policy, 1, "`verbose` alone is no wish");
}

#[test]
fn tasks_that_see_all_gpus_share_them_out_by_local_id() {
    let Some(cluster) = Cluster::start(Setup::default()) else { return };
    let out = cluster.probe(&["-n2", "-c1", "--gpus=2", "--gpu-tune=h200,verbose"], &[]).fine();
    let tasks = out.witnesses();
    // Each on the core near its GPU, which is not the one that Slurm chose.
    assert_eq!((tasks[0].cpus.as_str(), tasks[1].cpus.as_str()), ("1", "0"));
    assert!(!out.stderr.contains("warning"), "{}", out.stderr);
}

#[test]
fn two_tasks_on_one_gpu_are_warned_unless_sharing_was_asked_for() {
    let Some(cluster) = Cluster::start(Setup::default()) else { return };
    let words = ["-n2", "-c1", "--gpus=2", "--gpu-bind=map_gpu:1,1", "--gpu-tune=h200,verbose"];
    let out = cluster.probe(&words, &[]).fine();
    assert_eq!(out.stderr.matches("is on the GPU 0000:11:00.0 of another task").count(), 1, "{}", out.stderr);
}
