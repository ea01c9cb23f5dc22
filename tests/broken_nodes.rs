//! Nodes on which something is broken, on a real Slurm: the state directory, NVML, /sys, the kernel's willingness. The
//! job runs, the node stays up, and the user is told once.
#![cfg(test)]

mod slurm;

use gpu_tune_engine::snapshot;
use slurm::discovery::NVML;
use slurm::run::Output;
use slurm::{Cluster, Setup};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const STEP: [&str; 5] = ["-wn1", "-n2", "-c1", "--gpus-per-task=1", "--gpu-tune=h200"];

#[track_caller]
fn bound(out: &Output) {
    assert_eq!((out.masks().as_slice(), out.stderr.as_str()), (["1".to_owned(), "0".to_owned()].as_slice(), ""));
}

/// A file system of its own on the state directory, as the first node's slurmd sees it; it goes away with this value,
/// also when a test fails.
struct Mounted {
    slurmd: String,
    dir: PathBuf,
    /// The same directory below slurmd's root, which is a tree's where its Slurm runs in one.
    inside: PathBuf,
}

impl Mounted {
    fn on_state(cluster: &Cluster, options: &str) -> Option<Self> {
        let dir = cluster.state_dir();
        let inside = dir.strip_prefix(cluster.place.root()).unwrap().to_owned();
        let mounted = Self { slurmd: cluster.pid("slurmd").to_string(), dir, inside };
        if mounted.there(&["mount", "-t", "tmpfs", "-o", options, "none"]) {
            return Some(mounted);
        }
        println!("skipped: no file system can be mounted here");
        None
    }

    /// Runs a command on the directory in slurmd's view of the files.
    fn there(&self, command: &[&str]) -> bool {
        let enter = ["--target", &self.slurmd, "--mount"];
        Command::new("nsenter").args(enter).args(command).arg(&self.dir).status().unwrap().success()
    }

    /// The directory as slurmd sees it.
    fn dir(&self) -> PathBuf {
        Path::new("/proc").join(&self.slurmd).join("root").join(&self.inside)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.there(&["umount", "-l"]);
    }
}

fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn discovery_and_its_state_may_break_in_any_way() {
    let Some(mut cluster) = Cluster::start(Setup::default().discovered(NVML).nodes(2)) else { return };
    two_slurmd_share_a_state_directory(&cluster);
    a_snapshot_of_another_boot_is_made_anew(&cluster);
    a_full_or_read_only_state_directory_costs_the_binding_only(&cluster);
    nvml_may_be_missing_broken_or_silent(&cluster);
    a_node_without_sys_runs_jobs(&cluster);
    what_discovery_started_dies_with_it(&cluster);
    a_command_that_keeps_talking_is_not_listened_to_for_ever(&cluster);
    a_library_that_others_could_have_written_is_not_loaded(&cluster);
    cluster.check_alive();
}

fn two_slurmd_share_a_state_directory(cluster: &Cluster) {
    cluster.wait_for_snapshot();
    let both = cluster.probe(&["-N2", "-n4", "-c1", "--gpus-per-task=1", "--gpu-tune=h200"], &[]).fine();
    assert_eq!(both.witnesses().len(), 4);
    cluster.forget_snapshot();
    // Both nodes find nothing at the same time, and both write.
    let both = cluster.probe(&["-N2", "-n4", "-c1", "--gpus-per-task=1", "--gpu-tune=h200"], &[]).fine();
    assert!(both.witnesses().iter().all(|task| task.policy == 1), "{both:#?}");
    assert_eq!(both.stderr, "");
    assert_eq!(cluster.state_files(), [snapshot::FILE_NAME], "half a file is left");
}

fn a_snapshot_of_another_boot_is_made_anew(cluster: &Cluster) {
    let file = cluster.state_dir().join(snapshot::FILE_NAME);
    let (machine, mut key) = snapshot::decode(&std::fs::read(&file).unwrap()).unwrap();
    let now = key.boot_id.replace("another".to_owned());
    std::fs::write(&file, snapshot::encode(&machine, &key)).unwrap();
    bound(&cluster.probe(&STEP, &[]).fine());
    let (_, key) = snapshot::decode(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(key.boot_id, now, "the old snapshot was used");
}

fn a_full_or_read_only_state_directory_costs_the_binding_only(cluster: &Cluster) {
    let Some(state) = Mounted::on_state(cluster, "size=4k,mode=755") else { return };
    std::fs::write(state.dir().join("full"), [0; 4096]).unwrap();
    cluster.probe(&STEP, &[]).fine().only_environment("No space left on device");
    assert_eq!(names(&state.dir()), ["full"], "half a file is left");
    drop(state);
    let Some(_state) = Mounted::on_state(cluster, "ro,mode=755") else { return };
    cluster.probe(&STEP, &[]).fine().only_environment("Read-only file system");
}

fn nvml_may_be_missing_broken_or_silent(cluster: &Cluster) {
    let library = cluster.place.outside("lib/libnvidia-ml.so.1");
    let good = std::fs::read(&library).unwrap();
    let told = "the node's description has 0";
    // A library whose file ends too early crashes who loads it: that is the command, and nobody else.
    let crash = "ended with signal";
    let cases = [
        ("text", Some(b"garbage".as_slice()), told),
        ("cut off", good.get(..64 * 1024), crash),
        ("missing", None, told),
    ];
    for (name, broken, told) in cases {
        println!("NVML's library: {name}");
        cluster.forget_snapshot();
        std::fs::remove_file(&library).unwrap();
        broken.into_iter().for_each(|bytes| std::fs::write(&library, bytes).unwrap());
        cluster.probe(&STEP, &[]).fine().only_environment(told);
    }
    std::fs::write(&library, &good).unwrap();
    cluster.forget_snapshot();
    cluster.place.write("lib/libnvidia-ml.so.1.json", r#"{ "hang": "nvmlInit_v2", "gpus": [] }"#);
    cluster.probe(&STEP, &[]).fine().only_environment(told);
    cluster.place.write("lib/libnvidia-ml.so.1.json", NVML);
    cluster.forget_snapshot();
    bound(&cluster.probe(&STEP, &[]).fine());
}

fn a_node_without_sys_runs_jobs(cluster: &Cluster) {
    cluster.command_is("exec unshare -m sh -c 'mount -t tmpfs none /sys && exec \"$@\"' sh $REAL \"$@\"");
    let out = cluster.probe(&STEP, &[]).fine();
    for task in out.witnesses() {
        assert_eq!(task.var("NCCL_DEBUG"), Some("WARN"));
    }
    assert!(out.stderr.matches("gpu-tune: warning: ").count() <= 1, "{}", out.stderr);
}

fn what_discovery_started_dies_with_it(cluster: &Cluster) {
    cluster.command_is("sleep 4321 & sleep 4321");
    cluster.probe(&STEP, &[]).fine().only_environment("did not end within 3 s");
    let left = Command::new("pgrep").args(["-f", "^sleep 4321"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&left.stdout), "");
    // Whoever ends in time may leave somebody behind who keeps its standard error.
    cluster.command_is("echo broken >&2; sleep 6 & exit 1");
    cluster.probe(&STEP, &[]).fine().only_environment("ended with exit status: 1: broken");
}

fn a_command_that_keeps_talking_is_not_listened_to_for_ever(cluster: &Cluster) {
    cluster.command_is(
        "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); printf '%0200d\\033[31m%%s%%n\\n' $i >&2; done; exit 1",
    );
    let out = cluster.probe(&STEP, &[]).fine();
    out.only_environment("ended with exit status: 1: 0000");
    assert!(!out.stderr.contains('\x1b') && out.stderr.len() < 2000, "{}", out.stderr);
}

fn a_library_that_others_could_have_written_is_not_loaded(cluster: &Cluster) {
    cluster.command_is("exec $REAL \"$@\"");
    bound(&cluster.probe(&STEP, &[]).fine());
    let library = cluster.place.outside("lib/libnvidia-ml.so.1");
    std::fs::set_permissions(&library, std::fs::Permissions::from_mode(0o777)).unwrap();
    cluster.forget_snapshot();
    cluster.probe(&STEP, &[]).fine().only_environment("can be written by others (mode 0777)");
    std::fs::set_permissions(&library, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_kernel_that_refuses_the_calls_costs_the_binding_only_and_with_strict_the_job() {
    let setup = Setup { slurmd_under: Some("bin/refuse"), ..Setup::default().task_plugin("task/none") };
    let Some(mut cluster) = Cluster::start(setup) else { return };
    let out = cluster.probe(&STEP, &[]).fine();
    for task in out.witnesses() {
        assert_eq!((task.var("NCCL_DEBUG"), task.policy), (Some("WARN"), 0));
    }
    for call in ["sched_setaffinity", "set_mempolicy"] {
        let told = format!("{call}: Operation not permitted");
        assert_eq!(out.stderr.matches(&told).count(), 1, "{}", out.stderr);
    }
    assert!(out.stderr.contains("help: a seccomp filter"), "{}", out.stderr);
    cluster.plugins(|setup| setup.words = Some("strict".to_owned()));
    let out = cluster.run("srun", &[&STEP[..], &["echo", "started"]].concat(), &[]);
    assert_eq!((out.code, out.stdout.as_str()), (1, ""), "{out:#?}");
    assert_eq!(out.stderr.matches("error: gpu-tune: ").count(), 1, "{}", out.stderr);
    assert!(out.stderr.contains("sched_setaffinity: Operation not permitted"), "{}", out.stderr);
    cluster.check_alive();
}
