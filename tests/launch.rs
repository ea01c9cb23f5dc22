//! Launcher mode on a real Slurm: what launchers and their ranks get, and that nothing of it leaks. The launchers here are
//! stand-ins; `tests/torchrun.rs` has the real one.
#![cfg(test)]

mod slurm;

use slurm::run::{Output, Witness};
use slurm::{Cluster, Setup};
use std::os::unix::fs::PermissionsExt;

/// Two GPUs, all CPUs of this host: at least two of these.
fn cluster(setup: Setup) -> Option<Cluster> {
    if slurm::machine::online_cpus() < 2 {
        println!("skipped: needs two CPUs");
        return None;
    }
    let cluster = Cluster::start(setup)?;
    // A stand-in torchrun: the ranks see what they would see, and what is said before them is the launcher's own.
    let text = format!("{0}\nfor rank in ${{RANKS:-0 1}}; do LOCAL_RANK=$rank {0}; done", cluster.probe_path());
    cluster.place.script("bin/torchrun", &text);
    Some(cluster)
}

/// The one core near a GPU.
fn near(gpu: usize) -> String {
    slurm::machine::described(8).gpus[gpu].locality.as_ref().unwrap().cpus.to_string()
}

/// The CPUs that a task's own plan names, for `gpu-tune verify`.
fn planned(task: &Witness) -> Option<&str> {
    task.var("GPU_TUNE_PLAN")?.split(';').nth(1)
}

/// `srun ARGS torchrun FLAGS`.
fn torchrun(cluster: &Cluster, args: &[&str], flags: &[&str], env: &[(&str, &str)]) -> Output {
    let torchrun = cluster.place.inside("bin/torchrun").display().to_string();
    cluster.tasks(&[args, &[torchrun.as_str()], flags].concat(), env).fine()
}

/// The launcher, and its ranks by local rank.
fn parted(witnesses: Vec<Witness>) -> (Vec<Witness>, Vec<Witness>) {
    let (mut ranks, launchers): (Vec<_>, Vec<_>) =
        witnesses.into_iter().partition(|witness| witness.var("LOCAL_RANK").is_some());
    ranks.sort_by_key(|witness| (witness.rank, witness.env["LOCAL_RANK"].clone()));
    (launchers, ranks)
}

fn pet(witness: &Witness) -> String {
    let names = witness.env.iter().filter(|(name, _)| name.starts_with("PET_"));
    names.map(|(name, value)| format!("{}={value}", name.trim_start_matches("PET_"))).collect::<Vec<_>>().join(" ")
}

const ONE: [&str; 4] = ["-N1", "--ntasks-per-node=1", "-c2", "--gpus=2"];

#[test]
fn a_launcher_keeps_all_cpus_and_each_rank_is_bound_to_its_own() {
    let Some(mut cluster) = cluster(Setup::default()) else { return };
    let out = torchrun(&cluster, &[&ONE[..], &["--gpu-tune=h200"]].concat(), &["t.py"], &[]);
    assert_eq!(out.stderr, "");
    let (launchers, ranks) = parted(out.witnesses());
    assert_eq!((launchers[0].cpus.as_str(), launchers[0].policy), ("0-1", 0));
    assert_eq!((ranks[0].cpus.clone(), ranks[1].cpus.clone()), (near(0), near(1)));
    for rank in &ranks {
        assert_eq!((rank.policy, rank.nodes.as_slice()), (1, [0].as_slice()));
    }
    let launcher = &launchers[0];
    assert_eq!(launcher.var("OMP_NUM_THREADS"), Some("1"), "one core for each rank");
    assert_eq!(launcher.var("GPU_TUNE_PROFILE"), Some("h200"));
    for name in ["RANK", "WORLD_SIZE", "MASTER_ADDR"] {
        assert_eq!(launcher.var(name), None, "{name}");
    }
    let job = launcher.env["SLURM_JOB_ID"].parse::<u32>().unwrap();
    let port = 61_000 + job % 4536;
    assert_eq!(
        pet(launcher),
        format!("MASTER_ADDR=n1 MASTER_PORT={port} NNODES=1 NODE_RANK=0 NPROC_PER_NODE=2 RDZV_ID={job}.0")
    );
    cluster.check_alive();
}

#[test]
fn four_nodes_find_each_other_and_the_users_own_words_win() {
    let Some(mut cluster) = cluster(Setup::default().nodes(4).gpus(1)) else { return };
    let four = ["-N4", "--ntasks-per-node=1", "--gpus-per-node=1", "--gpu-tune=h200"];
    let (launchers, ranks) = parted(torchrun(&cluster, &four, &["t.py"], &[("RANKS", "0")]).witnesses());
    assert_eq!((launchers.len(), ranks.len()), (4, 4), "one GPU on each node is a launcher, too");
    for (node, launcher) in launchers.iter().enumerate() {
        let pet = pet(launcher);
        assert!(pet.starts_with("MASTER_ADDR=n1 MASTER_PORT=6"), "{pet}");
        assert!(pet.contains(&format!(" NNODES=4 NODE_RANK={node} NPROC_PER_NODE=1 RDZV_ID=")), "{pet}");
        assert_eq!(launcher.var("SLURMD_NODENAME"), Some(format!("n{}", node + 1).as_str()));
    }
    for flags in [&["--nnodes=2", "t.py"][..], &["--standalone", "t.py"]] {
        let (launchers, _) = parted(torchrun(&cluster, &four, flags, &[]).witnesses());
        assert!(launchers.iter().all(|launcher| pet(launcher).is_empty()), "{flags:?}");
    }
    let (launchers, _) = parted(torchrun(&cluster, &four, &["t.py"], &[("PET_NNODES", "1")]).witnesses());
    assert!(launchers.iter().all(|launcher| pet(launcher) == "NNODES=1"));
    let off = ["-N4", "--ntasks-per-node=1", "--gpus-per-node=1", "--gpu-tune=h200,rendezvous=off"];
    let (launchers, _) = parted(torchrun(&cluster, &off, &["t.py"], &[]).witnesses());
    assert!(launchers.iter().all(|launcher| pet(launcher).is_empty()));
    cluster.check_alive();
}

#[test]
fn the_first_host_is_slurms_own_first_host() {
    let Some(cluster) = cluster(Setup::default()) else { return };
    for list in ["n[001-004,7],gpu-a[1-2]", "rack[1-2]node[03-04]", "a,b[1-3]", "n[07,09-12]", "dgx-01", "n[2-3],n1"] {
        let said = cluster.run("scontrol", &["show", "hostnames", list], &[]).fine();
        let first = said.stdout.lines().next().unwrap_or_else(|| panic!("{list}: {said:?}"));
        assert_eq!(gpu_tune_engine::launch::hostlist::first(list).as_deref(), Some(first), "{list}");
    }
}

#[test]
fn uneven_gpus_are_told_and_no_rendezvous_is_set() {
    let Some(cluster) = cluster(Setup::default().nodes(2)) else { return };
    let out = torchrun(&cluster, &["-N2", "-n2", "--gpus=3", "--gpu-tune=h200"], &["t.py"], &[("RANKS", "0")]);
    let (launchers, _) = parted(out.witnesses());
    let counts: Vec<_> = launchers.iter().map(|l| l.var("SLURM_GPUS_ON_NODE").unwrap_or("?").to_owned()).collect();
    assert_ne!(counts[0], counts[1], "the step is not uneven: {counts:?}");
    assert!(
        launchers.iter().all(|launcher| pet(launcher).is_empty()),
        "{:?}",
        launchers.iter().map(pet).collect::<Vec<_>>()
    );
    assert!(out.stderr.contains("the nodes have different numbers of GPUs"), "{}", out.stderr);
}

#[test]
fn several_launchers_on_a_node_bind_their_ranks_to_their_own_gpus() {
    let Some(cluster) = cluster(Setup::default().gpus(4)) else { return };
    let args = ["-N1", "-n2", "-c1", "--gpus=4", "--gpu-tune=h200"];
    let (launchers, ranks) = parted(torchrun(&cluster, &args, &["t.py"], &[]).witnesses());
    assert_eq!((launchers.len(), ranks.len()), (2, 4));
    for (at, rank) in ranks.iter().enumerate() {
        assert_eq!((rank.rank as usize, &rank.cpus), (at / 2, &near(at)), "launcher 0 has GPUs 0 and 1");
    }
    assert!(launchers.iter().all(|launcher| pet(launcher).is_empty()));
}

#[test]
fn ranks_that_slurm_starts_are_told_about_each_other() {
    let Some(cluster) = cluster(Setup::default().nodes(2)) else { return };
    let four = ["-N2", "-n4", "--gpus-per-node=2", "--gpu-tune=h200"];
    let probe = cluster.probe_path();
    let tasks = cluster.tasks(&[&four[..], &[&probe]].concat(), &[]).fine().witnesses();
    let ports: std::collections::BTreeSet<_> = tasks.iter().map(|task| task.env["MASTER_PORT"].clone()).collect();
    assert_eq!(ports.len(), 1);
    for (rank, task) in tasks.iter().enumerate() {
        let var = |name| task.var(name).unwrap_or("unset").to_owned();
        assert_eq!(var("RANK"), rank.to_string());
        assert_eq!(var("LOCAL_RANK"), (rank % 2).to_string());
        assert_eq!(
            (var("WORLD_SIZE"), var("LOCAL_WORLD_SIZE"), var("MASTER_ADDR")),
            ("4".into(), "2".into(), "n1".into())
        );
        assert_eq!((task.var("LD_PRELOAD"), planned(task)), (None, Some(task.cpus.as_str())));
    }
    let own = [("MASTER_ADDR", "elsewhere"), ("RANK", "7")];
    let own = cluster.tasks(&[&four[..], &[&probe]].concat(), &own).fine().witnesses();
    assert!(own.iter().all(|task| task.var("MASTER_ADDR") == Some("elsewhere") && task.var("RANK") == Some("7")));
}

/// salloc's shell as a step on the node; without a terminal, which the tests have not.
const INTERACTIVE: &str =
    "LaunchParameters=use_interactive_step\nInteractiveStepOptions=\"--interactive --preserve-env $SHELL\"";

#[test]
fn an_interactive_shell_binds_the_ranks_it_starts() {
    let Some(cluster) = cluster(Setup::default().more(INTERACTIVE)) else { return };
    let torchrun = cluster.place.inside("bin/torchrun").display().to_string();
    let script = cluster.place.write("shell.in", &format!("{torchrun} t.py\n")).display().to_string();
    let line = format!("salloc -n1 -c2 --gpus=2 --gpu-tune=h200 < {script}");
    let out = cluster.run("sh", &["-c", &line], &[("SHELL", "/bin/sh")]).fine();
    let (launchers, ranks) = parted(out.witnesses());
    // Before 26.05 the number is written without a sign.
    let step = launchers[0].var("SLURM_STEP_ID").unwrap_or_default();
    assert!(["4294967290", "-6"].contains(&step), "the shell is no step, but `{step}`: {}", out.stderr);
    assert_eq!(launchers[0].cpus, "0-1");
    assert_eq!((ranks[0].cpus.clone(), ranks[1].cpus.clone()), (near(0), near(1)));
}

#[test]
fn a_batch_script_binds_the_ranks_it_starts() {
    let Some(cluster) = cluster(Setup::default()) else { return };
    let torchrun = cluster.place.inside("bin/torchrun").display().to_string();
    let out = cluster.batch(&["-n1", "-c2", "--gpus=2", "--gpu-tune=h200"], &[], &format!("{torchrun} t.py"));
    let (launchers, ranks) = parted(out.fine().witnesses());
    assert_eq!(launchers[0].cpus, "0-1");
    assert_eq!((ranks[0].cpus.clone(), ranks[1].cpus.clone()), (near(0), near(1)));
    assert_eq!(pet(&launchers[0]), "", "a script's own torchrun is left alone");
}

#[test]
fn an_inner_step_has_its_own_plan_and_off_has_none() {
    let Some(cluster) = cluster(Setup::default()) else { return };
    let probe = cluster.probe_path();
    let inner = |options: &str| {
        let line = format!("srun -n1 -c2 --gpus=1 --overlap {options} {probe}");
        let out = cluster.run("srun", &[&ONE[..], &["--gpu-tune=h200", "sh", "-c", &line]].concat(), &[("KEPT", "1")]);
        out.fine().witnesses().remove(0)
    };
    let tuned = inner("--gpu-tune=a100");
    assert_eq!(tuned.var("GPU_TUNE_PROFILE"), Some("a100"));
    assert_eq!(planned(&tuned), Some(tuned.cpus.as_str()));
    assert_eq!(tuned.var("LD_PRELOAD"), None, "one GPU, and no launcher");
    let mut off = inner("--gpu-tune=off").stable_env();
    let mut none = inner("").stable_env();
    let mut plain =
        cluster.probe(&["-n1", "-c2", "--gpus=1"], &[("KEPT", "1")]).fine().witnesses().remove(0).stable_env();
    for env in [&mut off, &mut none, &mut plain] {
        // A shell stands between, and the option itself stays visible to the steps of a step.
        ["SHLVL", "OLDPWD"].iter().for_each(|name| drop(env.remove(*name)));
    }
    assert_eq!(off, plain);
    assert_eq!(none, plain);
}

#[test]
fn what_the_user_changed_inside_a_step_is_his() {
    let Some(cluster) = cluster(Setup::default()) else { return };
    let line = format!(
        "export NCCL_DEBUG=TRACE LD_PRELOAD=/lib/x86_64-linux-gnu/libm.so.6:$LD_PRELOAD; srun -n1 -c2 --gpus=1 --overlap --gpu-tune=off {}",
        cluster.probe_path()
    );
    let out = cluster.run("srun", &[&ONE[..], &["--gpu-tune=h200", "sh", "-c", &line]].concat(), &[]).fine();
    let task = out.witnesses().remove(0);
    assert_eq!(task.var("NCCL_DEBUG"), Some("TRACE"));
    assert_eq!(task.var("LD_PRELOAD"), Some("/lib/x86_64-linux-gnu/libm.so.6"));
    assert_eq!(task.var("CUDA_DEVICE_ORDER"), None);
}

#[test]
fn a_job_submitted_from_inside_starts_clean() {
    let Some(cluster) = cluster(Setup::default()) else { return };
    let out = cluster.place.inside("inner.out").display().to_string();
    let script =
        cluster.place.write("inner.sh", &format!("#!/bin/sh\n{}\n", cluster.probe_path())).display().to_string();
    let line = format!("test -n \"$GPU_TUNE_PLAN\" && sbatch -n1 --output={out} {script}");
    cluster.tasks(&[&ONE[..], &["--gpu-tune=h200", "sh", "-c", &line]].concat(), &[]).fine();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    let written = loop {
        let text = std::fs::read_to_string(cluster.place.outside("inner.out")).unwrap_or_default();
        if text.contains("PROBE") || std::time::Instant::now() > deadline {
            break text;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    };
    let task = Output { code: 0, stdout: written, stderr: String::new() }.witnesses().remove(0);
    for name in ["LD_PRELOAD", "GPU_TUNE_PLAN", "GPU_TUNE_SET", "GPU_TUNE_PROFILE", "CUDA_DEVICE_ORDER", "PET_NNODES"] {
        assert_eq!(task.var(name), None, "{name}");
    }
}

#[test]
fn a_task_that_does_not_see_the_shim_is_told_once_and_gets_no_preload() {
    let Some(cluster) = cluster(Setup::default().words("shim=/nonexistent/libgpu_tune_preload.so")) else { return };
    let out = torchrun(&cluster, &[&ONE[..], &["--gpu-tune=h200"]].concat(), &["t.py"], &[]);
    let (launchers, ranks) = parted(out.witnesses());
    assert_eq!(launchers[0].var("LD_PRELOAD"), None);
    assert!(ranks.iter().all(|rank| rank.cpus == "0-1"));
    assert_eq!(out.stderr.matches("the ranks of launchers are not bound").count(), 1, "{}", out.stderr);
    let out = torchrun(&cluster, &[&ONE[..], &["--gpu-tune=h200,workers=off"]].concat(), &["t.py"], &[]);
    assert_eq!(out.stderr, "");
}

#[test]
fn a_user_who_may_not_read_the_shim_is_told_once_and_gets_no_preload() {
    let Some(cluster) = cluster(Setup::default()) else { return };
    let shim = cluster.place.outside("lib/libgpu_tune_preload.so");
    let preloaded = || {
        let out = cluster.probe_as_nobody(&[&ONE[..], &["--gpu-tune=h200"]].concat(), &[]).fine();
        assert!(!out.stderr.contains("ld.so"), "{}", out.stderr);
        (out.witnesses()[0].var("LD_PRELOAD").is_some(), out.stderr.matches("the task may not read").count())
    };
    assert_eq!(preloaded(), (true, 0));
    std::fs::set_permissions(&shim, std::fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(preloaded(), (false, 1));
}

#[test]
fn a_command_that_enters_a_container_by_itself_gets_no_preload() {
    let Some(cluster) = cluster(Setup::default()) else { return };
    let apptainer = cluster.place.script("bin/apptainer", &cluster.probe_path()).display().to_string();
    let out =
        cluster.tasks(&[&ONE[..], &["--gpu-tune=h200", &apptainer, "exec", "img.sif", "train"]].concat(), &[]).fine();
    let task = &out.witnesses()[0];
    assert_eq!((task.var("LD_PRELOAD"), task.var("GPU_TUNE_PLAN")), (None, None));
    assert_eq!(task.var("NCCL_DEBUG"), Some("WARN"));
    assert!(out.stderr.contains("the command enters a container"), "{}", out.stderr);
}

#[test]
fn the_users_own_preload_comes_first() {
    let Some(cluster) = cluster(Setup::default()) else { return };
    let own = [("LD_PRELOAD", "/lib/x86_64-linux-gnu/libm.so.6")];
    if !std::path::Path::new(own[0].1).exists() {
        return println!("skipped: no {}", own[0].1);
    }
    let (launchers, ranks) =
        parted(torchrun(&cluster, &[&ONE[..], &["--gpu-tune=h200"]].concat(), &["t.py"], &own).witnesses());
    let list = launchers[0].var("LD_PRELOAD").unwrap();
    assert!(list.starts_with(own[0].1) && list.ends_with("libgpu_tune_preload.so"), "{list}");
    assert_eq!(ranks[1].cpus, near(1));
}

#[test]
fn what_a_container_gave_the_launcher_makes_it_no_rank() {
    let Some(cluster) = cluster(Setup::default()) else { return };
    // What pyxis's hook leaves in the launcher itself.
    let pyxis = [("LOCAL_RANK", "0"), ("TORCHELASTIC_RUN_ID", "")];
    let text = format!("{0}\nTORCHELASTIC_RUN_ID=7 LOCAL_RANK=0 {0}", cluster.probe_path());
    let torchrun = cluster.place.script("bin/deepspeed", &text).display().to_string();
    let out = cluster.run("srun", &[&ONE[..], &["--gpu-tune=h200", &torchrun]].concat(), &pyxis[..1]).fine();
    let witnesses = out.witnesses();
    let by_run_id = |some: bool| witnesses.iter().find(|w| w.var("TORCHELASTIC_RUN_ID").is_some() == some).unwrap();
    assert_eq!(by_run_id(false).cpus, "0-1");
    assert_eq!(by_run_id(true).cpus, near(0));
}

#[test]
fn ranks_of_a_real_mpirun_are_bound() {
    let Some(cluster) = cluster(Setup::default()) else { return };
    if !cluster.place.root().join("usr/bin/mpirun").exists() {
        return println!("skipped: no /usr/bin/mpirun: Debian's openmpi-bin has it");
    }
    let probe = cluster.probe_path();
    // The node's name is not this host's, so mpirun would start its daemon there with an srun of its own.
    let local = ["--mca", "ras", "^slurm", "--mca", "plm", "isolated"];
    // A file for each rank: mpirun forwards what they print in pieces of 4 KiB, and so mixes longer lines.
    let said = cluster.place.inside("said").display().to_string();
    let rank = format!("exec {probe} > {said}.$OMPI_COMM_WORLD_LOCAL_RANK");
    let mpirun = [&["/usr/bin/mpirun", "--allow-run-as-root", "--oversubscribe"], &local[..], &["-np", "2"]].concat();
    let rank = ["sh", "-c", &rank];
    let mut out = cluster.tasks(&[&ONE[..], &["--gpu-tune=h200"], &mpirun, &rank].concat(), &[]).fine();
    let file = |rank: u32| cluster.place.outside(&format!("said.{rank}"));
    out.stdout = [0, 1].map(|rank| std::fs::read_to_string(file(rank)).unwrap()).concat();
    let mut ranks = out.witnesses();
    ranks.sort_by_key(|rank| rank.env["OMPI_COMM_WORLD_LOCAL_RANK"].clone());
    assert_eq!((ranks[0].cpus.clone(), ranks[1].cpus.clone()), (near(0), near(1)), "{}", out.stderr);
    assert_eq!((ranks[0].policy, ranks[1].policy), (1, 1));
}

#[test]
fn a_setuid_program_runs_as_before() {
    let Some(cluster) = cluster(Setup::default()) else { return };
    let cat = cluster.place.outside("bin/cat");
    std::fs::copy("/bin/cat", &cat).unwrap();
    std::os::unix::fs::chown(&cat, Some(65534), None).unwrap();
    std::fs::set_permissions(&cat, std::fs::Permissions::from_mode(0o4755)).unwrap();
    let line = format!("LOCAL_RANK=0 {} /proc/self/status", cluster.place.inside("bin/cat").display());
    let out = cluster.tasks(&[&ONE[..], &["--gpu-tune=h200", "sh", "-c", &line]].concat(), &[]).fine();
    let field = |name: &str| out.stdout.lines().find(|line| line.starts_with(name)).map(str::to_owned).unwrap();
    assert!(field("Uid:").contains("65534"), "the program is not setuid: {}", field("Uid:"));
    assert_eq!(field("Cpus_allowed_list:").split_whitespace().nth(1), Some("0-1"), "the loader passes the shim over");
    assert_eq!(out.stderr, "");
}
