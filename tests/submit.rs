//! The option in srun, sbatch and salloc: where it may come from, and how a wrong one is refused before anything is
//! allocated.
#![cfg(test)]

mod slurm;

use slurm::run::{AS_NOBODY, OPTION, Output};
use slurm::{Cluster, Setup};
use std::os::unix::fs::PermissionsExt as _;

/// Refused in the words of gpu-tune and of Slurm, and no job was made.
#[track_caller]
fn refused(cluster: &Cluster, out: &Output, message: &str) {
    assert_ne!(out.code, 0, "{out:#?}");
    assert!(out.stderr.contains(message), "{}", out.stderr);
    let slurms = ["Invalid --gpu-tune argument".to_owned(), format!("for environment variable: {OPTION}")];
    assert!(slurms.iter().any(|words| out.stderr.contains(words)), "{}", out.stderr);
    let jobs = cluster.run("squeue", &["-h", "-t", "all"], &[]).fine();
    assert_eq!(jobs.stdout, "", "something was allocated");
}

#[test]
fn an_unknown_profile_stops_srun_sbatch_and_salloc_before_anything_is_allocated() {
    let Some(cluster) = Cluster::start(Setup::default()) else { return };
    let message = "unknown profile `h20`";
    let option = "--gpu-tune=h20";
    for (program, words) in
        [("srun", vec![option, "true"]), ("sbatch", vec![option, "--wrap=true"]), ("salloc", vec![option, "true"])]
    {
        let out = cluster.run(program, &words, &[]);
        refused(&cluster, &out, message);
        assert!(out.stderr.contains("did you mean `h200`?"), "{}", out.stderr);
        assert!(out.stderr.contains("installed: a100"), "{}", out.stderr);
    }
    let by_variable = cluster.run("srun", &["true"], &[("GPU_TUNE", "h20")]);
    refused(&cluster, &by_variable, message);
}

#[test]
fn a_wrong_key_or_value_is_refused_by_name() {
    let Some(cluster) = Cluster::start(Setup::default()) else { return };
    let long = format!("--gpu-tune={}", "a".repeat(2000));
    let cases = [
        ("--gpu-tune=h200,verbos", "unknown key `verbos`"),
        ("--gpu-tune=h200,bind=all", "`bind=all` is not understood"),
        ("--gpu-tune=../h200", "`../h200` cannot be the name of a profile or layer"),
        ("--gpu-tune=h200%s%n", "`h200%s%n` cannot be the name of a profile or layer"),
        (&long, "the value has 2000 bytes"),
        ("--gpu-tune=", "no profile is named"),
    ];
    for (option, message) in cases {
        refused(&cluster, &cluster.run("srun", &[option, "true"], &[]), message);
    }
}

#[test]
fn list_prints_the_profiles_and_stops() {
    let Some(cluster) = Cluster::start(Setup::default()) else { return };
    cluster.place.write("etc/profiles.d/mine.toml", "description = \"our own\"\ninherits = \"h200\"\n");
    let out = cluster.run("srun", &["--gpu-tune=list", "echo", "started"], &[]).fine();
    for name in ["base", "classic", "h200", "mine"] {
        assert!(out.stdout.lines().any(|line| line.split_whitespace().next() == Some(name)), "{name}: {}", out.stdout);
    }
    assert!(out.stdout.contains("our own"), "{}", out.stdout);
    assert!(!out.stdout.contains("started"));
}

#[test]
fn the_list_has_what_users_may_name_and_says_what_cannot_be_used() {
    let Some(mut cluster) = Cluster::start(Setup::default().words("default=h200 allow=h100,roce,mine")) else { return };
    cluster.place.write("etc/profiles.d/mine.toml", "x = ");
    let out = cluster.run("srun", &["--gpu-tune=list", "echo", "started"], &[]).fine();
    let names: Vec<&str> = out.stdout.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["h100", "h200", "mine", "+roce"], "{}", out.stdout);
    assert!(out.stdout.contains("cannot be used: profile `mine` is not used: "), "{}", out.stdout);
    let conf = std::fs::read_to_string(cluster.place.outside("etc/plugstack.conf")).unwrap();
    cluster.place.write("etc/plugstack.conf", &conf.replace("allow=", "alow="));
    let wrong = cluster.run("srun", &["--gpu-tune=list", "echo", "started"], &[]).fine();
    assert!(wrong.stdout.contains("classic") && !wrong.stdout.contains("started"), "{}", wrong.stdout);
    cluster.check_alive();
}

#[test]
fn a_file_that_only_root_can_read_costs_a_user_a_warning_and_no_job() {
    let Some(cluster) = Cluster::start(Setup::default()) else { return };
    cluster.place.write("etc/profiles.d/mine.toml", "inherits = \"h200\"\n");
    let file = cluster.place.outside("etc/profiles.d/mine.toml");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let probe = cluster.probe_path();
    let srun = ["srun", "-n1", "-c1", "--gpus=1", "--gpu-tune=mine", &probe];
    let out = cluster.run(AS_NOBODY[0], &[&AS_NOBODY[1..], &srun].concat(), &[]).fine();
    assert_eq!(out.witnesses()[0].var("GPU_TUNE_PROFILE"), Some("mine"), "root read it on the node");
    assert!(out.stderr.contains("cannot check the profile here: profile `mine` is not used: "), "{}", out.stderr);
    assert!(out.stderr.contains("help: chmod a+r `"), "{}", out.stderr);
}

#[test]
fn the_command_line_beats_the_job_which_beats_the_variable_which_beats_the_default() {
    let Some(cluster) = Cluster::start(Setup::default().words("default=base")) else { return };
    let profile = |args: &[&str], env: &[(&str, &str)]| {
        let words = [&["-n1", "-c1", "--gpus=1"], args].concat();
        cluster.probe(&words, env).fine().witnesses()[0].var("GPU_TUNE_PROFILE").map(str::to_owned)
    };
    assert_eq!(profile(&[], &[]).as_deref(), Some("base"));
    assert_eq!(profile(&[], &[("GPU_TUNE", "h100")]).as_deref(), Some("h100"));
    assert_eq!(profile(&["--gpu-tune=h200"], &[("GPU_TUNE", "h100")]).as_deref(), Some("h200"));
    assert_eq!(profile(&["--gpu-tune=off"], &[("GPU_TUNE", "h100")]), None);
    let probe = cluster.probe_path();
    let script = format!(
        "srun -n1 {probe}\nexport GPU_TUNE=classic\nsrun -n1 {probe}\nsrun -n1 --gpu-tune=h100 {probe}\nsrun -n1 --gpu-tune=off {probe}"
    );
    let out = cluster.batch(&["-n1", "-c1", "--gpus=1", "--gpu-tune=h200"], &[], &script).fine();
    let steps = out.witnesses();
    let inner: Vec<_> = steps.iter().map(|task| task.var("GPU_TUNE_PROFILE").unwrap_or("none").to_owned()).collect();
    // An inherited option beats `GPU_TUNE`; an inner `off` beats both.
    assert_eq!(inner[..3], ["h200", "h200", "h100"], "{}", out.stdout);
    assert!(steps[0].policy == 1 && steps[3].policy == 0, "{}", out.stdout);
}

#[test]
fn a_default_leaves_a_step_without_gpus_untouched() {
    let Some(cluster) = Cluster::start(Setup::default().words("default=h200")) else { return };
    let out = cluster.probe(&["-n1"], &[]).fine();
    // The GPUs of its job are not its own, and the variable may be a left-over.
    let left_over = cluster.probe(&["-n1"], &[("SLURM_JOB_GPUS", "0,1")]).fine();
    let probe = cluster.probe_path();
    let script = format!("srun -n1 --gpus=0 {probe}");
    let in_job = cluster.batch(&["-n1", "-c1", "--gpus=1"], &[], &script).fine();
    let nested = format!("srun -n1 --gpus=1 --overlap srun -n1 --overlap --gpus=0 {probe}");
    let in_step = cluster.batch(&["-n1", "-c1", "--gpus=1"], &[], &nested).fine();
    for other in [left_over, in_job, in_step] {
        let task = other.witnesses().remove(0);
        assert_eq!((task.var("GPU_TUNE_PROFILE"), task.var("NCCL_DEBUG"), task.policy), (None, None, 0), "{other:?}");
    }
    let tuned = cluster.probe(&["-n1", "--gpus=1"], &[]).fine();
    let asked = cluster.probe(&["-n1", "--gpu-tune=h200"], &[]).fine();
    drop(cluster);
    assert_eq!(tuned.witnesses()[0].var("NCCL_DEBUG"), Some("WARN"), "the default works at all");
    let asked = asked.witnesses().remove(0);
    assert_eq!((asked.var("NCCL_DEBUG"), asked.policy), (Some("WARN"), 0), "asked for: the environment only");
    let Some(without) = Cluster::start(Setup::default().without_plugin()) else { return };
    let (mine, theirs) = (out.witnesses().remove(0), without.probe(&["-n1"], &[]).fine().witnesses().remove(0));
    assert_eq!(out.stderr, "");
    assert_eq!(mine.stable_env(), theirs.stable_env());
    assert_eq!((mine.cpus, mine.policy), (theirs.cpus, theirs.policy));
}

#[test]
fn a_profile_removed_while_the_job_was_queued_warns_and_goes_on() {
    let Some(cluster) = Cluster::start(Setup::default()) else { return };
    cluster.place.write("etc/profiles.d/mine.toml", "inherits = \"h200\"\n");
    let probe = cluster.probe_path();
    let gone = cluster.place.inside("etc/profiles.d/mine.toml");
    let script = format!("rm {}\nsrun -n1 {probe}", gone.display());
    let out = cluster.batch(&["-n1", "-c1", "--gpus=1", "--gpu-tune=mine"], &[], &script).fine();
    assert_eq!(out.witnesses().len(), 1, "{}", out.stdout);
    assert!(out.stdout.contains("warning: unknown profile `mine`"), "{}", out.stdout);
    assert!(out.stdout.contains("note: the value was inherited from the job"), "{}", out.stdout);
    // What the command line replaces is nobody's worry.
    cluster.place.write("etc/profiles.d/mine.toml", "inherits = \"h200\"\n");
    let script = format!("rm {}\nfor p in h200 off; do srun -n1 --gpu-tune=$p {probe}; done 2>&1", gone.display());
    let out = cluster.batch(&["-n1", "-c1", "--gpus=1", "--gpu-tune=mine"], &[], &script).fine();
    assert_eq!(out.witnesses().len(), 2, "{}", out.stdout);
    assert!(!out.stdout.contains("note: the value was inherited"), "{}", out.stdout);
}

#[test]
fn a_wrong_word_in_plugstack_conf_is_named_and_the_plugin_stays_out_of_the_way() {
    let Some(mut cluster) = Cluster::start(Setup::default().words("defalt=h200")) else { return };
    let out = cluster.probe(&["-n1", "--gpus=1", "--gpu-tune=anything"], &[]).fine();
    assert!(out.stderr.contains("unknown word `defalt` in plugstack.conf"), "{}", out.stderr);
    assert!(out.stderr.contains("did you mean `default`?"), "{}", out.stderr);
    assert_eq!(out.witnesses()[0].var("GPU_TUNE_PROFILE"), None);
    assert!(cluster.slurmd_log().contains("unknown word `defalt`"));
    cluster.check_alive();
}
