//! A user who means harm, on a real Slurm: whatever he names, sets or sends, root runs and reads nothing for him, what
//! the admin locked stays locked, and what he hears is clear and harmless.
#![cfg(test)]

mod slurm;

use gpu_tune_engine::trusted;
use gpu_tune_shim_core::bytes::hash;
use slurm::run::{AS_NOBODY, OPTION, Output};
use slurm::{Cluster, Setup};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{chown, symlink};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

const STEP: [&str; 3] = ["-n2", "-c1", "--gpus-per-task=1"];
const NOBODY: u32 = 65534;

/// Both tasks are tuned as the site's default says, bound and with the memory policy.
#[track_caller]
fn tuned(out: &Output) {
    assert_eq!(out.masks(), ["1", "0"], "{}", out.stderr);
    for task in out.witnesses() {
        let seen = (task.policy, task.var("NCCL_DEBUG"), task.var("GPU_TUNE_PROFILE"));
        assert_eq!(seen, (1, Some("WARN"), Some("h200")), "{}", out.stderr);
    }
}

/// Nothing that plays with a terminal, and no flood.
#[track_caller]
fn harmless(out: &Output) {
    let odd = out.stderr.chars().find(|c| c.is_control() && *c != '\n');
    assert_eq!(odd, None, "{:?}", out.stderr);
    assert!(out.stderr.len() < 4000, "{} bytes: {}", out.stderr.len(), &out.stderr[..500]);
}

#[test]
fn what_the_admin_locked_stays_locked_and_odd_words_are_harmless() {
    let words = "default=h200 allow=h200 lock=off,env,bind,mem,dry-run";
    let Some(mut cluster) = Cluster::start(Setup::default().words(words)) else { return };
    a_user_who_is_not_root_is_tuned_too(&cluster);
    an_option_that_passed_by_srun_changes_nothing_that_is_locked(&cluster);
    an_srun_without_the_plugin_changes_nothing_that_is_locked(&cluster);
    odd_options_are_told_harmlessly(&cluster);
    a_huge_environment_is_no_obstacle(&cluster);
    forged_variables_of_ours_are_nothing(&cluster);
    cluster.check_alive();
}

fn a_user_who_is_not_root_is_tuned_too(cluster: &Cluster) {
    let out = cluster.probe_as_nobody(&STEP, &[]).fine();
    tuned(&out);
    assert_eq!(out.stderr, "");
}

fn an_option_that_passed_by_srun_changes_nothing_that_is_locked(cluster: &Cluster) {
    for option in ["off", "nonexistent", "classic", "h200,env=off,bind=off,mem=off,dry-run", "%s%n", "h200,bind=numa"] {
        let out = cluster.probe_as_nobody(&STEP, &[(OPTION, option)]).fine();
        tuned(&out);
        harmless(&out);
        assert!(out.stderr.contains("gpu-tune: "), "{option}: nobody was told");
    }
}

fn an_srun_without_the_plugin_changes_nothing_that_is_locked(cluster: &Cluster) {
    let conf = std::fs::read_to_string(cluster.place.outside("etc/slurm.conf")).unwrap();
    let empty = cluster.place.write("etc/no-plugins.conf", "");
    let line = |line: &str| match line.strip_prefix("PlugStackConfig=") {
        Some(_) => format!("PlugStackConfig={}\n", empty.display()),
        None => format!("{line}\n"),
    };
    let own: String = conf.lines().map(line).collect();
    for file in ["gres.conf", "cgroup.conf"] {
        let _ = std::fs::create_dir_all(cluster.place.outside("etc/own"));
        std::fs::copy(cluster.place.outside(&format!("etc/{file}")), cluster.place.outside(&format!("etc/own/{file}")))
            .unwrap();
    }
    let own = cluster.place.write("etc/own/slurm.conf", &own).display().to_string();
    for option in ["off", "list", "nonexistent", "h200,env=off,bind=off", "", "h200\n%s%n\u{1b}[31m"] {
        let out = cluster.probe_as_nobody(&STEP, &[("SLURM_CONF", &own), (OPTION, option)]).fine();
        tuned(&out);
        harmless(&out);
    }
}

fn odd_options_are_told_harmlessly(cluster: &Cluster) {
    let long = "x".repeat(100_000);
    let words: [&[u8]; 9] = [
        b"../../etc/shadow",
        b"/etc/shadow",
        b"h200\n\x1b[2J\x07",
        b"%n%n%n%s%s%s",
        b"\xff\xfe\x80",
        b"h200,\xc3\x28=1",
        b"$(touch /tmp/gpu-tune-was-here)`id`;id|id",
        b"-h",
        long.as_bytes(),
    ];
    for word in words {
        let option = [b"--gpu-tune=".as_slice(), word].concat();
        // The user's own word is refused; what was inherited only warns.
        assert_ne!(said_of(cluster, word, |srun| srun.arg(OsStr::from_bytes(&option))), 0);
        assert_ne!(said_of(cluster, word, |srun| srun.env("GPU_TUNE", OsStr::from_bytes(word))), 0);
        assert_eq!(said_of(cluster, word, |srun| srun.env(OPTION, OsStr::from_bytes(word))), 0);
    }
    assert!(!std::path::Path::new("/tmp/gpu-tune-was-here").exists());
}

/// The exit status of an srun that gets an odd word in some way, and says so harmlessly.
#[track_caller]
fn said_of(cluster: &Cluster, word: &[u8], give: impl FnOnce(&mut Command) -> &mut Command) -> i32 {
    let mut command = cluster.command("timeout");
    command.args(["-k5", "60"]).args(AS_NOBODY).arg("srun").args(STEP);
    let said = give(&mut command).arg("true").output().unwrap();
    // Slurm itself repeats a wrong word as it is: `Invalid argument (…) for environment variable`,
    // `Invalid --gpu-tune argument: …`.
    let word = String::from_utf8_lossy(word);
    let stderr = String::from_utf8_lossy(&said.stderr).replace(&format!("({word})"), "");
    let stderr = stderr.replace(&format!("argument: {word}"), "");
    let out = Output { code: said.status.code().unwrap_or(-1), stdout: String::new(), stderr };
    assert!(out.stderr.contains("gpu-tune: "), "{}: {out:#?}", word.escape_debug());
    harmless(&out);
    out.code
}

fn a_huge_environment_is_no_obstacle(cluster: &Cluster) {
    let names: Vec<String> = (0..3000).map(|number| format!("NCCL_FILLER_{number}")).collect();
    let long = "y".repeat(100_000);
    let mut env: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "value")).collect();
    env.extend([("LONG", long.as_str()), ("LD_LIBRARY_PATH", &long)]);
    let out = cluster.probe_as_nobody(&STEP, &env).fine();
    tuned(&out);
    for task in out.witnesses() {
        assert_eq!((task.var("NCCL_FILLER_2999"), task.var("LONG")), (Some("value"), Some(long.as_str())));
    }
    assert_eq!(out.stderr, "");
}

fn forged_variables_of_ours_are_nothing(cluster: &Cluster) {
    let set = "PATH=00000000,NCCL_DEBUG=00000000:9999999999999999999+18446744073709551615,=,,,LD_PRELOAD=deadbeef:1+1";
    // An inner step of ours would take away what has this value.
    let hides_the_gpus = format!("SLURM_STEP_GPUS={:08x}", hash(b"0,1"));
    for (name, value) in [
        ("GPU_TUNE_SET", set),
        ("GPU_TUNE_SET", "%n%s"),
        ("GPU_TUNE_SET", &hides_the_gpus),
        ("GPU_TUNE_PLAN", "1;0-4294967295;;0-99999999999999999999:p4294967295;;;;"),
        ("GPU_TUNE_PROFILE", "root\n"),
        ("SLURM_STEP_GPUS", "7,8,9"),
        ("SLURM_JOB_GPUS", "%s"),
        ("SLURM_CPU_BIND_LIST", "0xffffffffffffffffffffffffffffffff"),
        ("SLURM_RLIMIT_MEMLOCK", "18446744073709551616"),
        ("CUDA_VISIBLE_DEVICES", "GPU-\n,,,-5"),
        ("GPU_TUNE_TEST_PANIC", "nothing"),
    ] {
        let out = cluster.probe_as_nobody(&STEP, &[(name, value)]).fine();
        tuned(&out);
        harmless(&out);
    }
}

#[test]
fn what_is_not_roots_is_not_used_and_not_shown() {
    let Some(mut cluster) = Cluster::start(Setup::default()) else { return };
    let step = [&STEP[..], &["--gpu-tune=mine"]].concat();
    let forced = "inherits = \"h200\"\n[env]\nNCCL_DEBUG = { value = \"TRACE\", action = \"force\" }\n[limits]\nmemlock = \"unlimited\"\n";
    cluster.place.write("etc/profiles.d/mine.toml", forced);
    let file = cluster.place.outside("etc/profiles.d/mine.toml");
    let limit = cluster.probe_as_nobody(&STEP, &[]).fine().witnesses()[0].memlock.clone();
    // The user's own file: his srun believes him, root does not.
    chown(&file, Some(NOBODY), None).unwrap();
    let out = cluster.probe_as_nobody(&step, &[]).fine();
    let task = out.witnesses().remove(0);
    assert_eq!((task.var("NCCL_DEBUG"), task.policy, &task.memlock), (None, 0, &limit), "{}", out.stderr);
    assert!(out.stderr.contains("belongs to user 65534, not to root"), "{}", out.stderr);
    // A link to what he may not read: nothing of it is shown, not even that it is no profile.
    std::fs::remove_file(&file).unwrap();
    std::fs::write(cluster.place.outside("etc/secret"), "root:SECRET:1:\n").unwrap();
    symlink(cluster.place.inside("etc/secret"), &file).unwrap();
    let refused = cluster.run(AS_NOBODY[0], &[&AS_NOBODY[1..], &["srun"], &step, &["true"]].concat(), &[]);
    assert!(refused.stderr.contains("is a symbolic link") && !refused.stderr.contains("SECRET"), "{}", refused.stderr);
    // The description of the node.
    let described = cluster.place.outside("etc/node.snapshot");
    chown(&described, Some(NOBODY), None).unwrap();
    let tuned = [&STEP[..], &["--gpu-tune=h200"]].concat();
    let out = cluster.probe_as_nobody(&tuned, &[]).fine();
    assert_eq!(out.witnesses()[0].policy, 0);
    assert!(out.stderr.contains("belongs to user 65534, not to root"), "{}", out.stderr);
    chown(&described, Some(0), None).unwrap();
    assert_eq!(cluster.probe_as_nobody(&tuned, &[]).fine().witnesses()[0].policy, 1, "it was the owner");
    words_that_are_no_text_keep_the_plugin_away(&cluster);
    cluster.check_alive();
}

/// An admin's slip, not a user's; passing over all words would open what `lock=` and `allow=` closed.
fn words_that_are_no_text_keep_the_plugin_away(cluster: &Cluster) {
    let file = cluster.place.outside("etc/plugstack.conf");
    let good = std::fs::read(&file).unwrap();
    let mut odd = good.trim_ascii_end().to_vec();
    odd.extend_from_slice(b" fabric=\xff\n");
    std::fs::write(&file, odd).unwrap();
    let out = cluster.probe_as_nobody(&[&STEP[..], &["--gpu-tune=h200"]].concat(), &[]).fine();
    assert_eq!((out.witnesses()[0].policy, out.witnesses()[0].var("NCCL_DEBUG")), (0, None), "{}", out.stderr);
    assert!(out.stderr.contains("the words in plugstack.conf are no text"), "{}", out.stderr);
    std::fs::write(&file, good).unwrap();
}

#[test]
fn a_file_that_is_swapped_while_it_is_read_is_roots_or_refused() {
    let Some(dir) = trusted_dir() else { return println!("skipped: not root") };
    let (good, evil, file) = (dir.join("good"), dir.join("evil"), dir.join("file"));
    std::fs::write(&good, "good").unwrap();
    std::fs::write(&evil, "evil").unwrap();
    chown(&evil, Some(NOBODY), None).unwrap();
    let stop = AtomicBool::new(false);
    let (mut read, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let next = dir.join("next");
            while !stop.load(Ordering::Relaxed) {
                for swap in 0..4 {
                    let made = match swap {
                        0 => std::fs::hard_link(&good, &next),
                        1 => std::fs::hard_link(&evil, &next),
                        2 => symlink(&good, &next),
                        _ => std::fs::copy(&good, &next).and_then(|_| chown(&next, Some(NOBODY), None)),
                    };
                    made.and_then(|()| std::fs::rename(&next, &file)).unwrap();
                    // Of two names of one file rename(2) keeps both.
                    let _ = std::fs::remove_file(&next);
                }
            }
        });
        for _ in 0..20_000 {
            match trusted::read(&file, 100) {
                Ok(text) if text == b"good" => read += 1,
                Ok(text) => panic!("read {}", String::from_utf8_lossy(&text)),
                Err(_) => refused += 1,
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    let _ = std::fs::remove_dir_all(&dir);
    assert!(read > 0 && refused > 0, "no race: {read} read, {refused} refused");
}

/// A fresh directory that only root can write; `None` if this is not root.
fn trusted_dir() -> Option<std::path::PathBuf> {
    let dir = std::path::PathBuf::from(format!("/tmp/gpu-tune-hostile-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir(&dir).unwrap();
    let root = chown(&dir, Some(NOBODY), None).and_then(|()| chown(&dir, Some(0), None)).is_ok();
    root.then_some(dir)
}
