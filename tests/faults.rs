//! Faults on a real Slurm: whatever breaks, the job runs, the node stays up, and somebody is told once. With `strict` the
//! job ends with the reason, and the node still stays up.
#![cfg(test)]

mod slurm;

use gpu_tune_engine::snapshot;
use slurm::discovery::NVML;
use slurm::run::Output;
use slurm::{Cluster, Setup, artifacts};
use std::os::unix::fs::PermissionsExt;

const STEP: [&str; 4] = ["-n2", "-c1", "--gpus-per-task=1", "--gpu-tune=h200"];

#[test]
fn a_panic_in_any_hook_is_caught_and_the_job_goes_on() {
    if !artifacts::panics_on_demand() {
        return println!("skipped: a released plugin cannot be told to panic");
    }
    let Some(mut cluster) = Cluster::start(Setup::default()) else { return };
    for hook in ["register", "init", "init_post_opt", "user_init", "task_init_privileged", "task_init", "option"] {
        cluster.restart_slurmd(&[("GPU_TUNE_TEST_PANIC", hook)]);
        let out = cluster.probe(&STEP, &[]).fine();
        assert_eq!(out.witnesses().len(), 2, "{hook}");
        let told = format!("internal fault in `{hook}`: injected into `{hook}`");
        assert_eq!(out.stderr.matches(&told).count(), 1, "{hook}: {} {}", out.stderr, cluster.slurmd_log());
        cluster.check_alive();
    }
    cluster.restart_slurmd(&[]);
    for hook in ["init", "init_post_opt", "option"] {
        let out = cluster.probe(&STEP, &[("GPU_TUNE_TEST_PANIC", hook)]).fine();
        assert_eq!(out.witnesses().len(), 2, "in srun: {hook}");
    }
    let fine = cluster.probe(&STEP, &[]).fine();
    assert_eq!(fine.masks(), ["1", "0"], "nothing is left of it");
    assert_eq!(fine.stderr, "");
    with_strict_a_panic_ends_the_job_and_not_the_node(&mut cluster);
}

fn with_strict_a_panic_ends_the_job_and_not_the_node(cluster: &mut Cluster) {
    cluster.plugins(|setup| setup.words = Some("strict".to_owned()));
    for hook in ["init_post_opt", "user_init", "task_init"] {
        cluster.restart_slurmd(&[("GPU_TUNE_TEST_PANIC", hook)]);
        let out = cluster.run("srun", &[&STEP[..], &["echo", "started"]].concat(), &[]);
        assert_eq!((out.code, out.stdout.as_str()), (1, ""), "{hook}: {out:#?}");
        let told = format!("error: gpu-tune: internal fault in `{hook}`");
        assert_eq!(out.stderr.matches(&told).count(), 1, "{hook}: {}", out.stderr);
        let unasked = cluster.run("srun", &["-n1", "echo", "started"], &[]).fine();
        assert_eq!(unasked.stdout, "started\n", "{hook}: a step that asked for nothing");
        cluster.check_alive();
    }
}

#[test]
fn slurmd_has_the_snapshot_made_and_steps_use_what_nvml_told() {
    let Some(mut cluster) = Cluster::start(Setup::default().discovered(NVML)) else { return };
    cluster.wait_for_snapshot();
    let out = cluster.probe(&[&STEP[..3], &["--gpu-tune=h200,verbose"]].concat(), &[]).fine();
    assert_eq!(out.masks(), ["1", "0"], "{}", out.stderr);
    assert!(out.stderr.contains("0000:4e:00.0") && out.stderr.contains("0000:4f:00.0"), "{}", out.stderr);
    cluster.check_alive();
}

#[test]
fn a_missing_or_damaged_or_foreign_snapshot_is_made_anew_by_the_step() {
    let Some(cluster) = Cluster::start(Setup::default().discovered(NVML)) else { return };
    cluster.wait_for_snapshot();
    let file = cluster.state_dir().join(snapshot::FILE_NAME);
    let good = std::fs::read(&file).unwrap();
    let damages: [(&str, &dyn Fn()); 4] = [
        ("missing", &|| std::fs::remove_file(&file).unwrap()),
        ("cut off", &|| std::fs::write(&file, &good[..good.len() / 2]).unwrap()),
        ("changed", &|| std::fs::write(&file, String::from_utf8_lossy(&good).replace("4e:00", "5e:00")).unwrap()),
        ("of another", &|| std::os::unix::fs::chown(&file, Some(65534), Some(65534)).unwrap()),
    ];
    for (name, damage) in damages {
        damage();
        let out = cluster.probe(&STEP, &[]).fine();
        assert_eq!((out.masks(), out.stderr.as_str()), (vec!["1".to_owned(), "0".to_owned()], ""), "{name}");
    }
}

#[test]
fn discovery_that_fails_costs_the_binding_only() {
    let Some(mut cluster) = Cluster::start(Setup::default().discovered(NVML)) else { return };
    cluster.wait_for_snapshot();
    let cases = [
        ("echo broken >&2; exit 1", "ended with exit status: 1: broken"),
        ("kill -SEGV $$", "ended with signal: 11"),
        ("echo garbage", "left nothing usable"),
        ("sleep 60", "did not end within 3 s"),
    ];
    for (script, told) in cases {
        cluster.command_is(script);
        cluster.probe(&STEP, &[]).fine().only_environment(told);
    }
    std::fs::set_permissions(cluster.place.outside("bin/gpu-tune"), std::fs::Permissions::from_mode(0o777)).unwrap();
    cluster.probe(&STEP, &[]).fine().only_environment("cannot be used");
    std::fs::remove_file(cluster.place.outside("bin/gpu-tune")).unwrap();
    cluster.probe(&STEP, &[]).fine().only_environment("cannot be used");
    cluster.check_alive();
}

#[test]
fn strict_ends_the_tasks_with_the_reason_and_the_node_stays_up() {
    let Some(mut cluster) = Cluster::start(Setup::default().discovered(NVML).words("strict")) else { return };
    cluster.wait_for_snapshot();
    cluster.probe(&STEP, &[]).fine();
    cluster.command_is("printf 'gpu-tune: error: broken\\ngpu-tune: help: mend it\\n' >&2; exit 1");
    let out = cluster.run("srun", &[&STEP[..], &["echo", "started"]].concat(), &[]);
    assert_eq!(out.code, 1, "{out:#?}");
    assert!(
        out.stderr.contains("exit status: 1: broken\n") && out.stderr.contains("help: mend it\n"),
        "{}",
        out.stderr
    );
    assert!(out.stderr.contains("error: gpu-tune: nothing is known of this node"), "{}", out.stderr);
    assert_eq!(out.stdout, "");
    cluster.check_alive();
}

#[test]
fn strict_ends_what_would_run_unbound_or_with_another_profile() {
    let Some(mut cluster) = Cluster::start(Setup::default().words("strict")) else { return };
    let ended = |cluster: &Cluster, words: &[&str], why: &str| {
        let words = [words, &["--gpu-tune=h200", "echo", "started"]].concat();
        let out = cluster.run("srun", &words, &[]);
        assert_eq!((out.code, out.stdout.as_str()), (1, ""), "{out:#?}");
        assert!(out.stderr.contains(&format!("error: gpu-tune: {why}")), "{}", out.stderr);
        assert!(!out.stderr.contains("goes on without"), "{}", out.stderr);
    };
    let launcher = ["-n1", "-c2", "--gpus=2"];
    cluster.run("srun", &[&launcher[..], &["--gpu-tune=h200", "true"]].concat(), &[]).fine();
    ended(&cluster, &["-n1", "-c1", "--gpus=2"], "2 ranks have a single CPU");
    std::fs::remove_file(cluster.place.outside("lib/libgpu_tune_preload.so")).unwrap();
    ended(&cluster, &launcher, "the ranks of launchers are not bound: ");
    cluster.plugins(|setup| setup.words = Some("strict fabric=roec".to_owned()));
    ended(&cluster, &launcher, "`fabric=` in plugstack.conf: unknown profile `roec`");
    cluster.plugins(|setup| setup.words = Some("strict".to_owned()));
    let dir = cluster.place.outside("etc/profiles.d");
    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o777)).unwrap();
    ended(&cluster, &["-n1", "-c1", "--gpus=1"], "`");
    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o755)).unwrap();
    cluster.check_alive();
}

#[test]
fn a_profile_that_others_could_have_written_is_not_used() {
    let Some(cluster) = Cluster::start(Setup::default()) else { return };
    let file = cluster
        .place
        .write("etc/profiles.d/h200.toml", "[env]\nNCCL_DEBUG = { value = \"TRACE\", action = \"force\" }\n");
    let outside = cluster.place.outside("etc/profiles.d/h200.toml");
    let debug = |out: &Output| out.witnesses()[0].var("NCCL_DEBUG").map(str::to_owned);
    assert_eq!(debug(&cluster.probe(&STEP, &[]).fine()).as_deref(), Some("TRACE"), "used at all");
    std::fs::set_permissions(&outside, std::fs::Permissions::from_mode(0o666)).unwrap();
    let out = cluster.run("srun", &[&STEP[..], &["true"]].concat(), &[]);
    assert_ne!(out.code, 0);
    assert!(out.stderr.contains(&file.display().to_string()), "{}", out.stderr);
    std::fs::set_permissions(&outside, std::fs::Permissions::from_mode(0o644)).unwrap();
    let dir = cluster.place.outside("etc/profiles.d");
    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o777)).unwrap();
    let out = cluster.probe(&STEP, &[]).fine();
    assert_eq!(debug(&out).as_deref(), Some("WARN"), "the built-in one");
    assert!(out.stderr.contains("only built-in profiles are used"), "{}", out.stderr);
    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_profile_directory_that_cannot_be_read_costs_its_own_profiles_only() {
    let Some(mut cluster) = Cluster::start(Setup::default()) else { return };
    cluster.place.write("etc/profiles.d/mine.toml", "inherits = \"h200\"\n");
    let dir = cluster.place.outside("etc/profiles.d");
    // Closed to users: an srun cannot check what the compute node will read.
    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o700)).unwrap();
    let mine = [&STEP[..3], &["--gpu-tune=mine"]].concat();
    let out = cluster.probe_as_nobody(&mine, &[]).fine();
    assert_eq!((out.masks(), out.witnesses()[0].var("GPU_TUNE_PROFILE")), (vec!["1".into(), "0".into()], Some("mine")));
    assert!(out.stderr.contains("warning: cannot check the profile here"), "{}", out.stderr);
    let out = cluster.probe_as_nobody(&STEP, &[]).fine();
    assert_eq!((out.masks(), out.stderr.as_str()), (vec!["1".into(), "0".into()], ""));
    // Not there to be read at all.
    std::fs::remove_dir_all(&dir).unwrap();
    let breaks: [(&str, &dyn Fn()); 2] = [
        ("a file", &|| std::fs::write(&dir, "").unwrap()),
        ("a link to itself", &|| std::os::unix::fs::symlink("profiles.d", &dir).unwrap()),
    ];
    for (name, make) in breaks {
        make();
        let out = cluster.probe(&STEP, &[]).fine();
        assert_eq!(out.masks(), ["1", "0"], "{name}");
        assert_eq!(out.stderr.matches("only built-in profiles are used").count(), 1, "{name}: {}", out.stderr);
        std::fs::remove_file(&dir).unwrap();
    }
    let out = cluster.probe(&STEP, &[]).fine();
    assert_eq!(
        (out.masks(), out.stderr.as_str()),
        (vec!["1".into(), "0".into()], ""),
        "without one there is nothing to tell"
    );
    cluster.check_alive();
}

#[test]
fn a_broken_profile_is_refused_with_file_and_line() {
    let Some(cluster) = Cluster::start(Setup::default()) else { return };
    let cases = [
        ("[env\nA = 1\n", ":1:"),
        ("[bind]\ncpu = \"most\"\n", ":2:"),
        ("[bind]\nmem = 7\n", ":2:"),
        ("inherits = \"mine\"\n", "inherits itself"),
        ("inherits = \"nobody\"\n", "unknown profile `nobody`"),
    ];
    for (text, told) in cases {
        let file = cluster.place.write("etc/profiles.d/mine.toml", text);
        let out = cluster.run("srun", &["-n1", "--gpu-tune=mine", "true"], &[]);
        assert_ne!(out.code, 0, "{text}");
        let line = out.stderr.lines().find(|line| line.contains("error: gpu-tune:")).unwrap_or_default();
        assert!(line.contains(told) && line.contains(&file.display().to_string()), "{text}: {}", out.stderr);
    }
    cluster.place.write("etc/profiles.d/mine.toml", "inherits = \"h200\"\nbined = 1\n");
    let out = cluster.probe(&[&STEP[..3], &["--gpu-tune=mine"]].concat(), &[]).fine();
    assert_eq!(out.witnesses()[0].policy, 1, "a newer file does not stop an older plugin");
    assert!(out.stderr.contains("bined"), "{}", out.stderr);
}
