//! Cpusets that Slurm knows nothing of, on a real Slurm: around its daemon, or around a task just before us. Steps run,
//! on the CPUs that are left, and the user is told.
#![cfg(test)]

mod slurm;

use slurm::{Cluster, Setup, plugin};
use std::path::{Path, PathBuf};
use std::time::Duration;

const STEP: [&str; 4] = ["-n2", "-c1", "--gpus-per-task=1", "--gpu-tune=h200"];

/// A cpuset of this machine, for as long as this value lives.
struct Cpuset {
    dir: PathBuf,
}

impl Cpuset {
    /// Makes one of these CPUs, or says why not.
    fn new(name: &str, cpus: &str) -> Option<Self> {
        let top = Path::new("/sys/fs/cgroup");
        let v1 = top.join("cpuset");
        let top = if v1.exists() { v1 } else { top.to_owned() };
        let _ = std::fs::write(top.join("cgroup.subtree_control"), "+cpuset");
        let dir = top.join(format!("gpu-tune-{name}-{}", std::process::id()));
        let made = std::fs::create_dir(&dir)
            .and_then(|()| std::fs::write(dir.join("cpuset.cpus"), cpus))
            .and_then(|()| std::fs::write(dir.join("cpuset.mems"), "0"));
        if let Err(error) = made {
            println!("skipped: no cpuset can be made here: {error}");
            return None;
        }
        Some(Self { dir })
    }

    /// Whoever writes 0 into this file is moved.
    fn entrance(&self) -> String {
        self.dir.join("cgroup.procs").display().to_string()
    }
}

impl Drop for Cpuset {
    fn drop(&mut self) {
        // The last process may still be on its way out.
        for _ in 0..50 {
            if std::fs::remove_dir(&self.dir).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

#[test]
fn a_daemon_in_a_narrow_cpuset_starts_steps_on_the_cpus_that_it_has() {
    let Some(narrow) = Cpuset::new("daemon", "0") else { return };
    let enter = format!("echo 0 >{} && exec \"$@\"", narrow.entrance());
    // With task/affinity Slurm itself fails there, with us or without.
    let setup = Setup::default().task_plugin("task/none").daemon_prefix(&["sh", "-c", &enter, "sh"]);
    let Some(mut cluster) = Cluster::start(setup) else { return };
    let out = cluster.probe(&STEP, &[]).fine();
    assert_eq!(out.masks(), ["0", "0"], "{}", out.stderr);
    assert_eq!(out.witnesses()[0].var("NCCL_DEBUG"), Some("WARN"));
    assert_eq!(out.stderr.matches("gpu-tune: warning: ").count(), 1, "{}", out.stderr);
    assert!(out.stderr.contains("have a single CPU 0: nothing is bound"), "{}", out.stderr);
    cluster.check_alive();
}

#[test]
fn a_task_that_is_moved_into_another_cpuset_before_us_starts_there() {
    let (Some(first), Some(second)) = (Cpuset::new("first", "0"), Cpuset::new("second", "1")) else { return };
    let Some(mut cluster) = Cluster::start(Setup::default().task_plugin("task/none")) else { return };
    let code = "int file = open(argv[0], O_WRONLY); (void)!write(file, \"0\", 1); close(file);";
    let Some(mover) = plugin::in_task_init(&cluster.place, "mover", code) else { return };
    let line = |into: &Cpuset| format!("required {} {}", mover.display(), into.entrance());
    // The step owns both cores, one is left.
    cluster.plugins(|setup| setup.other_plugins.0 = line(&first));
    let out = cluster.probe(&["-n1", "-c2", "--gpus=1", "--gpu-tune=h200"], &[]).fine();
    assert_eq!((out.masks(), out.witnesses()[0].policy), (vec!["0".to_owned()], 1), "{}", out.stderr);
    // The step owns core 0 alone, and may not run there any more: the kernel refuses.
    let one = ["-n1", "-c1", "--gpus=1", "--gpu-tune=h200"];
    cluster.plugins(|setup| setup.other_plugins.0 = line(&second));
    let out = cluster.probe(&one, &[]).fine();
    assert_eq!((out.masks(), out.witnesses()[0].var("NCCL_DEBUG")), (vec!["1".to_owned()], Some("WARN")));
    let told = "task 0: cannot bind to CPUs 0: sched_setaffinity: Invalid argument";
    assert_eq!(out.stderr.matches(told).count(), 1, "{}", out.stderr);
    assert!(out.stderr.contains("help: the cpuset of the step changed"), "{}", out.stderr);
    cluster.plugins(|setup| setup.words = Some("strict".to_owned()));
    let out = cluster.run("srun", &[&one[..], &["echo", "started"]].concat(), &[]);
    assert_eq!((out.code, out.stdout.as_str()), (1, ""), "{out:#?}");
    assert!(out.stderr.contains(&format!("error: gpu-tune: {told}")), "{}", out.stderr);
    cluster.check_alive();
}
