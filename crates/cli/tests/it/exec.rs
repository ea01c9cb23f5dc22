//! `gpu-tune exec`, with real processes: the kernel tells what they are bound to.

use crate::common::{scratch, topology};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

#[path = "../../../../tests/slurm/machine.rs"]
#[allow(dead_code, unreachable_pub, clippy::unwrap_used, reason = "shared with the tests on a real Slurm")]
mod machine;

/// `exec` on a machine with two GPUs near all CPUs of this host, with a clean environment but for `vars`.
fn exec(name: &str, vars: &[(&str, &str)], args: &[&str]) -> Command {
    let folder = scratch(name);
    let topology = folder.join("machine.snapshot");
    fs::write(&topology, machine::text(&machine::described(2))).expect("a snapshot");
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpu-tune"));
    command.arg("exec").arg("--topology").arg(topology).arg("--shim").arg(shim());
    command.arg("--profile-dir").arg(folder).args(args);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).envs(vars.iter().copied());
    command
}

/// The shim, built once.
fn shim() -> &'static Path {
    static SHIM: OnceLock<PathBuf> = OnceLock::new();
    SHIM.get_or_init(|| {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("shim-build");
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--package", "gpu-tune-preload", "--profile", "shim", "--target-dir"]);
        let built = build.arg(&target).current_dir(env!("CARGO_MANIFEST_DIR")).status();
        assert!(built.is_ok_and(|status| status.success()), "the shim does not build");
        target.join("shim/libgpu_tune_preload.so")
    })
}

fn stdout(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().expect("it starts");
    let stderr = String::from_utf8_lossy(&stderr);
    assert!(status.success() && stderr.is_empty(), "{command:?}: {status}\n{stderr}");
    String::from_utf8_lossy(&stdout).into_owned()
}

fn cpus(status: &str) -> Vec<&str> {
    let lists = status.lines().filter_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    lists.map(str::trim).collect()
}

fn one_cpu_only() -> bool {
    let few = machine::online_cpus() < 2;
    if few {
        println!("skipped: needs two CPUs");
    }
    few
}

#[test]
fn a_rank_is_bound_to_its_own_gpus_part() {
    if one_cpu_only() {
        return;
    }
    let mut found = Vec::new();
    for rank in ["0", "1"] {
        let vars = [("LOCAL_RANK", rank), ("LOCAL_WORLD_SIZE", "2")];
        let status = stdout(&mut exec("exec-rank", &vars, &["h200", "cat", "/proc/self/status"]));
        found.push(cpus(&status)[0].to_owned());
        let env = stdout(&mut exec("exec-rank", &vars, &["h200", "env"]));
        assert!(
            !env.contains("LD_PRELOAD") && env.contains(&format!("GPU_TUNE_PLAN=1;{};", found[found.len() - 1])),
            "{env}"
        );
        assert!(env.contains("GPU_TUNE_PROFILE=h200\n"), "{env}");
    }
    assert_ne!(found[0], found[1]);
}

/// A real mpirun, which binds two ranks to a core each unless it is told not to.
#[test]
fn a_rank_that_its_launcher_bound_is_left_there_and_told_once() {
    if one_cpu_only() || !Path::new("/usr/bin/mpirun").exists() {
        println!("skipped: needs two CPUs and mpirun");
        return;
    }
    let run = |words: &[&str]| {
        let inner = exec("exec-mpirun", &[], &["h200", "cat", "/proc/self/status"]);
        let mut command = Command::new("/usr/bin/mpirun");
        command.args(["--allow-run-as-root", "-n", "2"]).args(words);
        command.arg(inner.get_program()).args(inner.get_args());
        let output = command.env_remove("GPU_TUNE").output().expect("it starts");
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{out}{err}");
        let mut cpus: Vec<String> = cpus(&out).into_iter().map(str::to_owned).collect();
        cpus.sort();
        // Open MPI may have words of its own.
        (
            cpus,
            err.lines()
                .filter(|line| line.starts_with("gpu-tune: "))
                .map(|line| format!("{line}\n"))
                .collect::<String>(),
        )
    };
    let both = ["0".to_owned(), "1".to_owned()];
    let (bound, told) = run(&["--bind-to", "core"]);
    assert_eq!(bound, both, "{told}");
    assert_eq!(told.matches("left as they are: `mpirun` bound this rank to the CPUs").count(), 1, "{told}");
    assert!(told.contains("help: `mpirun --bind-to none` leaves it to gpu-tune\n") && !told.contains("srun"), "{told}");
    assert_eq!(run(&["--bind-to", "none"]), (both.to_vec(), String::new()));
}

#[test]
fn a_rank_that_sees_only_its_own_gpu_gets_that_gpus_part() {
    if one_cpu_only() {
        return;
    }
    let of = |rank, gpu| {
        let vars = [("LOCAL_RANK", rank), ("LOCAL_WORLD_SIZE", "2"), ("CUDA_VISIBLE_DEVICES", gpu)];
        cpus(&stdout(&mut exec("exec-narrow", &vars, &["h200", "cat", "/proc/self/status"])))[0].to_owned()
    };
    assert_ne!(of("0", "0"), of("1", "1"));
    assert_eq!(of("0", "1"), of("1", "1"), "the GPU decides, not the rank");
}

#[test]
fn a_launcher_keeps_its_cpus_and_its_ranks_are_bound_at_birth() {
    if one_cpu_only() {
        return;
    }
    let script = "for rank in 0 1; do LOCAL_RANK=$rank cat /proc/self/status; done; cat /proc/self/status";
    let status = stdout(&mut exec("exec-launcher", &[], &["h200", "sh", "-c", script]));
    let [first, second, child] = cpus(&status)[..] else { panic!("{status}") };
    assert_ne!(first, second);
    assert_eq!(child, machine::online().to_string());
}

#[test]
fn torchrun_in_a_pod_finds_its_peers() {
    let folder = scratch("exec-pod-bin");
    let torchrun = folder.join("torchrun");
    fs::write(&torchrun, "#!/bin/sh\nenv | grep '^PET_' | sort | tr '\\n' ' '\n").expect("a script");
    fs::set_permissions(&torchrun, fs::Permissions::from_mode(0o755)).expect("executable");
    let torchrun = torchrun.to_str().expect("text");
    let pod = [("WORLD_SIZE", "4"), ("RANK", "2"), ("MASTER_ADDR", "job-master-0"), ("MASTER_PORT", "23456")];
    let told = |vars: &[(&str, &str)], args: &[&str]| {
        let all = [&["h200", torchrun], args].concat();
        stdout(&mut exec("exec-pod", vars, &all)).trim().to_owned()
    };
    let expect = "PET_MASTER_ADDR=job-master-0 PET_MASTER_PORT=23456 PET_NNODES=4 PET_NODE_RANK=2 PET_NPROC_PER_NODE=2";
    assert_eq!(told(&pod, &["t.py"]), expect);
    assert_eq!(told(&[], &["t.py"]), "PET_NPROC_PER_NODE=2");
    assert_eq!(told(&pod, &["--nnodes=1", "t.py"]), "");
    // A container's hook may have given the launcher itself a local rank.
    assert_eq!(told(&[("LOCAL_RANK", "0")], &["t.py"]), "PET_NPROC_PER_NODE=2");
}

#[test]
fn the_users_own_values_stay_and_an_outer_profile_goes() {
    let outer = stdout(&mut exec("exec-outer", &[("NCCL_DEBUG", "INFO")], &["h200", "env"]));
    assert!(outer.contains("NCCL_DEBUG=INFO\n") && outer.contains("CUDA_DEVICE_ORDER=PCI_BUS_ID\n"), "{outer}");
    let vars: Vec<(&str, &str)> = outer.lines().filter_map(|line| line.split_once('=')).collect();
    assert!(vars.iter().any(|(name, _)| *name == "LD_PRELOAD"), "{outer}");
    let inner = stdout(&mut exec("exec-inner", &vars, &["off", "env"]));
    let mut left: Vec<_> = inner.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
    left.sort_unstable();
    assert_eq!(left, ["NCCL_DEBUG", "PATH"]);
}

#[test]
fn what_the_command_binds_itself_is_left_alone_and_told() {
    if one_cpu_only() {
        return;
    }
    let vars = [("LOCAL_RANK", "0"), ("LOCAL_WORLD_SIZE", "2")];
    let taskset = ["taskset", "-c", "0", "cat", "/proc/self/status"];
    let plain = ["cat", "/proc/self/status"];
    for (command, cpu, told) in [(&taskset[..], "0", true), (&plain[..], "1", false)] {
        let output = exec("exec-own", &vars, &[&["h200,verbose"], command].concat()).output().expect("it starts");
        assert_eq!(cpus(&String::from_utf8_lossy(&output.stdout)), [cpu]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(said.contains("left as they are: `taskset` was given"), told, "{said}");
        // All of the profile, also what is left as it is.
        for line in ["gpu-tune: OMP_NUM_THREADS=", "gpu-tune: NCCL_BUFFSIZE not set"] {
            assert!(said.contains(line), "{line}: {said}");
        }
    }
}

#[test]
fn without_a_machine_the_environment_is_tuned_and_the_whole_reason_told() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpu-tune"));
    command.args(["exec", "--topology", "/nonexistent.xml", "h200", "env"]);
    let output = command.env_clear().env("PATH", "/usr/bin:/bin").output().expect("it starts");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("NCCL_DEBUG=WARN\n"), "{out}{err}");
    let reason = "only the environment is tuned: cannot read the machine: cannot read `/nonexistent.xml`: No such file";
    assert!(err.contains(reason), "{err}");
}

#[test]
fn what_concerns_all_ranks_of_a_node_is_told_by_the_first() {
    let Some(file) = topology("turin-4gpu-nvml.xml") else { return };
    let said = |rank: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpu-tune"));
        command.args(["exec", "--topology", &file, "b200", "true"]).env_clear();
        let output = command.env("LOCAL_RANK", rank).env("LOCAL_WORLD_SIZE", "4").output().expect("it starts");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let first = said("0");
    assert!(first.contains("far from") && first.contains("profile `b200` is for"), "{first}");
    assert!(first.contains("help: this process may use the CPUs ") && !first.contains("--gres-flags"), "{first}");
    assert_eq!(said("1"), "");
}

#[test]
fn who_sees_no_gpu_is_not_told_of_others() {
    let Some(file) = topology("turin-4gpu-nvml.xml") else { return };
    let said = |list: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpu-tune"));
        command.args(["exec", "--topology", &file, "h200", "true"]);
        let output = command.env_clear().env("CUDA_VISIBLE_DEVICES", list).output().expect("it starts");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(["0", "3"].iter().any(|gpu| said(gpu).contains("far from")), "this host's CPUs are not near both");
    for none in ["", "-1"] {
        assert_eq!(said(none), "");
    }
}

#[test]
fn a_dry_run_shows_the_plan_and_changes_nothing() {
    let output = exec("exec-dry", &[], &["h200,dry-run", "--", "env"]).output().expect("it starts");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(out.lines().count(), 1, "only PATH: {out}");
    for word in ["profile h200", "launcher", "0000:10:00.0", "CUDA_DEVICE_ORDER=PCI_BUS_ID"] {
        assert!(err.contains(word), "{word}: {err}");
    }
}

#[test]
fn a_shim_that_is_not_there_is_told_and_the_command_runs() {
    let output = exec("exec-no-shim", &[], &["--shim", "/nonexistent/shim.so", "h200", "env"]).output();
    // The second `--shim` is refused as usage: an option is given once.
    assert_eq!(output.expect("it starts").status.code(), Some(2));
    let mut command = exec("exec-no-shim", &[], &["h200", "env"]);
    let args: Vec<_> =
        command.get_args().map(|arg| if arg == shim() { "/no/shim.so".into() } else { arg.to_owned() }).collect();
    command = Command::new(command.get_program());
    let output = command.args(args).env_clear().env("PATH", "/usr/bin:/bin").output().expect("it starts");
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{err}");
    assert_eq!(
        err,
        "gpu-tune: warning: ranks are not bound: cannot read `/no/shim.so`: No such file or directory (os error 2)\n\
         gpu-tune: help: name the library with `--shim`\n"
    );
    assert!(!String::from_utf8_lossy(&output.stdout).contains("LD_PRELOAD"));
}

#[test]
fn the_exit_status_is_the_commands_or_says_why_there_was_none() {
    let status = |args: &[&str]| {
        let output = exec("exec-status", &[], args).output().expect("it starts");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(status(&["h200", "sh", "-c", "exit 7"]), (Some(7), String::new()));
    let (code, told) = status(&["h200", "/nonexistent/program"]);
    assert_eq!(code, Some(127), "{told}");
    assert!(told.starts_with("gpu-tune: error: cannot start `/nonexistent/program`: No such file"), "{told}");
    assert!(!told.contains("help:"), "{told}");
    let (code, told) = status(&["H200", "true"]);
    assert_eq!(code, Some(127), "{told}");
    assert!(told.contains("help: `H200` is no profile either: `gpu-tune profile list` names them\n"), "{told}");
    let (code, told) = status(&["h200", "--topology", "x", "true"]);
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("help: options of gpu-tune stand before the profile\n"), "{told}");
    let (code, told) = status(&["--fabric", "nope", "h200", "true"]);
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("unknown profile `nope`"), "{told}");
    let (code, told) = status(&["h200", "/"]);
    assert_eq!(code, Some(126), "{told}");
    let (code, told) = status(&["h20", "--", "true"]);
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("unknown profile `h20`") && told.contains("did you mean `h200`?"), "{told}");
    assert_eq!(status(&["h200"]).0, Some(2));
}
