//! Beside a container plugin, on a real Slurm: a stand-in for pyxis (tests/fake-pyxis) that puts an image's environment
//! over the job's and empties directories in the task's view, listed before and behind ours.
#![cfg(test)]

mod slurm;

use slurm::run::Output;
use slurm::{Cluster, Setup};

const STEP: [&str; 4] = ["-n2", "-c1", "--gpus-per-task=1", "--gpu-tune=h200"];

/// What the image sets: over what the profile sets, over what the user sets, and of its own.
const IMAGE: &str =
    "NCCL_DEBUG=IMAGE\nOMP_NUM_THREADS=77\nCUDA_DEVICE_ORDER=FASTEST_FIRST\nONLY_IMAGE=1\nGPU_TUNE_PROFILE=image\n";

/// Everything that is read of the host before a task starts.
const HOST: [&str; 4] = ["etc", "state", "lib", "spool"];

/// Our line and the stand-in's, which stands before ours or behind it.
fn plugins(cluster: &mut Cluster, before: bool, hide: &[&str]) {
    let here = |path: &str| cluster.place.inside(path).display().to_string();
    cluster.place.write("image.env", IMAGE);
    let hidden: Vec<String> =
        hide.iter().map(|dir| if dir.starts_with('/') { (*dir).to_owned() } else { here(dir) }).collect();
    let hide = if hidden.is_empty() { String::new() } else { format!("hide={}", hidden.join(",")) };
    let line = format!("required {} image={} {hide}", here("lib/fake_pyxis.so"), here("image.env"));
    let none = String::new();
    cluster.plugins(|setup| setup.other_plugins = if before { (line, none) } else { (none, line) });
}

fn values(out: &Output, name: &str) -> Vec<String> {
    out.witnesses().iter().map(|task| task.var(name).unwrap_or("-").to_owned()).collect()
}

#[track_caller]
fn bound(out: &Output) {
    let masks: Vec<(String, i64)> = out.witnesses().iter().map(|task| (task.cpus.clone(), task.policy)).collect();
    assert_eq!(masks, [("1".to_owned(), 1), ("0".to_owned(), 1)], "{}", out.stderr);
}

#[test]
fn listed_behind_the_container_plugin_the_documented_order_wins_over_the_image() {
    let Some(mut cluster) = Cluster::start(Setup::default()) else { return };
    plugins(&mut cluster, true, &[]);
    without_us_the_image_wins(&cluster);
    the_profile_wins_over_the_image_and_the_user_over_both(&cluster);
    listed_before_it_the_image_has_the_last_word(&mut cluster);
    nothing_of_the_host_is_needed_once_the_task_has_moved(&mut cluster);
    a_shim_that_the_task_does_not_see_is_not_preloaded(&mut cluster);
    cluster.check_alive();
}

fn without_us_the_image_wins(cluster: &Cluster) {
    let out = cluster.probe(&[&STEP[..3], &["--gpu-tune=off"]].concat(), &[("NCCL_DEBUG", "INFO")]).fine();
    assert_eq!(values(&out, "NCCL_DEBUG"), ["IMAGE", "IMAGE"], "the stand-in does nothing");
    assert_eq!(values(&out, "ONLY_IMAGE"), ["1", "1"]);
}

fn the_profile_wins_over_the_image_and_the_user_over_both(cluster: &Cluster) {
    let out = cluster.probe(&STEP, &[("OMP_NUM_THREADS", "3")]).fine();
    bound(&out);
    assert_eq!(values(&out, "NCCL_DEBUG"), ["WARN", "WARN"], "the profile's value");
    assert_eq!(values(&out, "CUDA_DEVICE_ORDER"), ["PCI_BUS_ID", "PCI_BUS_ID"], "the profile's value");
    assert_eq!(values(&out, "OMP_NUM_THREADS"), ["3", "3"], "the user's, though the image replaced it");
    assert_eq!(values(&out, "ONLY_IMAGE"), ["1", "1"], "what the profile does not name stays the image's");
    assert_eq!(values(&out, "GPU_TUNE_PROFILE"), ["h200", "h200"]);
    assert_eq!(out.stderr, "");
}

fn listed_before_it_the_image_has_the_last_word(cluster: &mut Cluster) {
    plugins(cluster, false, &[]);
    let out = cluster.probe(&STEP, &[("OMP_NUM_THREADS", "3")]).fine();
    bound(&out);
    assert_eq!(values(&out, "NCCL_DEBUG"), ["IMAGE", "IMAGE"], "as the documents say of this order");
    assert_eq!(values(&out, "OMP_NUM_THREADS"), ["77", "77"]);
}

fn nothing_of_the_host_is_needed_once_the_task_has_moved(cluster: &mut Cluster) {
    plugins(cluster, true, &[&HOST[..], &["/sys", "/etc"]].concat());
    let out = cluster.probe(&STEP, &[]).fine();
    bound(&out);
    assert_eq!(values(&out, "NCCL_DEBUG"), ["WARN", "WARN"]);
    assert_eq!(out.stderr, "");
}

fn a_shim_that_the_task_does_not_see_is_not_preloaded(cluster: &mut Cluster) {
    let launcher = ["-n1", "-c2", "--gpus=2", "--gpu-tune=h200"];
    plugins(cluster, true, &[]);
    let seen = cluster.probe(&launcher, &[]).fine();
    let shim = cluster.place.inside("lib/libgpu_tune_preload.so").display().to_string();
    assert_eq!(values(&seen, "LD_PRELOAD"), [shim], "exported where it is visible");
    plugins(cluster, true, &["lib"]);
    let unseen = cluster.probe(&launcher, &[]).fine();
    assert_eq!(values(&unseen, "LD_PRELOAD"), ["-"]);
    assert_eq!(values(&unseen, "GPU_TUNE_PLAN"), ["-"]);
    assert_eq!(unseen.stderr.matches("gpu-tune: warning: ").count(), 1, "{}", unseen.stderr);
    assert!(!unseen.stderr.contains("ld.so"), "{}", unseen.stderr);
}

#[test]
fn in_a_container_a_constrained_task_still_finds_its_own_gpu() {
    let Some(mut cluster) = Cluster::start(Setup::default().constrained()) else { return };
    plugins(&mut cluster, true, &["/sys", "etc", "state"]);
    let out = cluster.probe(&STEP, &[]).fine();
    assert_eq!(values(&out, "CUDA_VISIBLE_DEVICES"), ["0", "0"], "each counts from 0");
    bound(&out);
    cluster.check_alive();
}
