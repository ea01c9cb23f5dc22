//! Whose wish wins: locked memory, a binding of Slurm's own that an inner step inherits, masks that somebody else narrowed.
#![cfg(test)]

mod slurm;

use slurm::run::{AS_NOBODY, Output};
use slurm::{Cluster, Setup};

#[test]
fn locked_memory_follows_the_profile_unless_the_user_propagates_his_own() {
    let Some(cluster) = Cluster::start(Setup::default()) else { return };
    // Below the hard limit of this machine, which may not be raised here.
    cluster.place.write("etc/profiles.d/mine.toml", "inherits = \"h200\"\n[limits]\nmemlock = 4194304\n");
    cluster.place.write("etc/profiles.d/much.toml", "inherits = \"h200\"\n[limits]\nmemlock = \"unlimited\"\n");
    let step = ["-n2", "-c1", "--gpus-per-task=1"];
    let limits = |words: &[&str]| {
        let out = cluster.probe(&[&step, words].concat(), &[]).fine();
        (out.witnesses()[0].memlock.clone(), out.stderr)
    };
    let (plain, _) = limits(&[]);
    assert_ne!(plain.0, "4194304");
    let (tuned, said) = limits(&["--gpu-tune=mine"]);
    assert_eq!((tuned.0.as_str(), tuned.1.as_str(), said.as_str()), ("4194304", "4194304", ""));
    let (own, _) = limits(&["--propagate=MEMLOCK", "--gpu-tune=mine"]);
    assert_eq!(own.0, plain.0, "the user's own `--propagate`");
    let (dry, _) = limits(&["--gpu-tune=mine,dry-run"]);
    assert_eq!(dry, plain);
    let (much, said) = limits(&["--gpu-tune=much"]);
    if much.1 != "unlimited" {
        assert_eq!(much, plain);
        assert_eq!(said.matches("cannot raise the limit of locked memory").count(), 1, "{said}");
    }
}

#[test]
fn an_srun_inside_a_task_is_tuned_anew_and_does_not_take_the_outer_mask_for_a_wish() {
    let Some(cluster) = Cluster::start(Setup::default()) else { return };
    let (to, probe) = (cluster.place.inside("inner-%t"), cluster.probe_path());
    let inner = format!("srun -n2 -c1 --overlap --gpus-per-task=1 --gpu-tune=h200 --output={} {probe}", to.display());
    cluster.run("srun", &["-n1", "-c2", "--gpus=2", "--gpu-tune=h200", "bash", "-c", &inner], &[]).fine();
    let texts = ["inner-0", "inner-1"].map(|file| std::fs::read_to_string(cluster.place.outside(file)).unwrap());
    let out = Output { code: 0, stdout: texts.concat(), stderr: String::new() };
    assert_eq!(out.masks(), ["1", "0"]);
}

#[test]
fn one_thread_of_a_core_is_no_binding_wish() {
    let Some(cluster) = Cluster::start(Setup::default()) else { return };
    let words = ["-n2", "-c1", "--gpus-per-task=1", "--hint=nomultithread", "--gpu-tune=h200"];
    assert_eq!(cluster.probe(&words, &[]).fine().masks(), ["1", "0"]);
}

#[test]
fn memory_that_the_user_binds_is_his_and_the_cores_are_still_ours() {
    let Some(cluster) = Cluster::start(Setup::default()) else { return };
    let words = ["-n2", "-c1", "--gpus-per-task=1", "--mem-bind=local", "--gpu-tune=h200,verbose"];
    let out = cluster.probe(&words, &[]).fine();
    assert_eq!(out.witnesses()[0].cpus, "1");
    assert!(out.stderr.contains("`--mem-bind` was given"), "{}", out.stderr);
}

#[test]
fn what_the_command_binds_itself_is_left_alone_like_slurms_own_options() {
    let Some(cluster) = Cluster::start(Setup::default()) else { return };
    let run = |command: &[&str]| {
        let step = ["-n1", "-c2", "--gpus=1", "--gpu-tune=h200,verbose"];
        let out = cluster.run("srun", &[&step, command, &[cluster.probe_path().as_str()]].concat(), &[]).fine();
        (out.witnesses().remove(0), out.stderr)
    };
    let (task, said) = run(&["env", "A=1", "taskset", "-c", "0"]);
    assert_eq!((task.cpus.as_str(), task.policy), ("0", 0), "{said}");
    assert!(said.contains("CPUs and memory are left as they are: `taskset` was given"), "{said}");
    let (task, said) = run(&["env", "A=1"]);
    assert_eq!((task.cpus.as_str(), task.policy), ("0-1", 1), "{said}");
    assert!(!said.contains("left as"), "{said}");
}

#[test]
fn a_batch_script_keeps_its_mask_and_gets_the_environment() {
    let Some(cluster) = Cluster::start(Setup::default()) else { return };
    let out = cluster.batch(&["-n2", "-c1", "--gpus=2", "--gpu-tune=h200"], &[], &cluster.probe_path()).fine();
    let script = &out.witnesses()[0];
    assert_eq!((script.cpus.as_str(), script.policy, script.var("NCCL_DEBUG")), ("0-1", 0, Some("WARN")));
}

#[test]
fn a_user_who_is_not_root_is_tuned_the_same() {
    let Some(cluster) = Cluster::start(Setup::default()) else { return };
    let show = "id -u; grep Cpus_allowed_list /proc/self/status";
    let step = ["srun", "-n2", "-c1", "--gpus-per-task=1", "--gpu-tune=h200", "bash", "-c", show];
    let out = cluster.run(AS_NOBODY[0], &[&AS_NOBODY[1..], &step].concat(), &[]).fine();
    assert_eq!((out.stdout.matches("65534").count(), out.stderr.as_str()), (2, ""), "{out:#?}");
    let mut masks: Vec<&str> =
        out.stdout.lines().filter_map(|line| line.strip_prefix("Cpus_allowed_list:\t")).collect();
    masks.sort_unstable();
    assert_eq!(masks, ["0", "1"]);
}

#[test]
fn tasks_that_share_a_cpu_by_overcommit_stay_there() {
    let Some(cluster) = Cluster::start(Setup::default()) else { return };
    let masks = |tune: &str| -> Vec<String> {
        let out = cluster.probe(&["-n4", "--overcommit", "--gpus=2", tune], &[]).fine();
        out.witnesses().iter().map(|task| task.cpus.clone()).collect()
    };
    assert_eq!(masks("--gpu-tune=h200"), masks("--gpu-tune=off"));
}
