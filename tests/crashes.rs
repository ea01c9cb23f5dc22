//! Crashes around discovery on a real Slurm: slurmd's while it waits for nobody, and discovery's own under slurmd.
//! Nothing is left behind, the next start works, and the node stays up.
#![cfg(test)]

mod slurm;

use gpu_tune_engine::snapshot;
use slurm::discovery::{NVML, wait_until};
use slurm::{Cluster, Setup};

const STEP: [&str; 4] = ["-n2", "-c1", "--gpus-per-task=1", "--gpu-tune=h200"];

#[test]
fn a_slurmd_that_is_killed_while_its_discovery_runs_leaves_nothing_and_the_next_one_tunes() {
    let Some(mut cluster) = Cluster::start(Setup::default().discovered(NVML)) else { return };
    cluster.wait_for_snapshot();
    let discoveries =
        |cluster: &Cluster| cluster.processes().iter().filter(|process| process.contains("gpu-tune snapshot")).count();
    cluster.command_is("sleep 3; exec $REAL \"$@\"");
    cluster.restart_slurmd(&[]);
    wait_until(|| discoveries(&cluster) == 1, "discovery runs");
    assert_eq!(cluster.state_files(), Vec::<String>::new(), "it was to be killed before it has found anything");
    // Twice: the old ones go on while a new one begins.
    cluster.crash_slurmd();
    cluster.crash_slurmd();
    cluster.wait_for_snapshot();
    cluster.wait_until_quiet();
    assert_eq!(cluster.state_files(), [snapshot::FILE_NAME], "half a file or a lock is left");
    cluster.command_is("exec $REAL \"$@\"");
    cluster.restart_slurmd(&[]);
    cluster.wait_for_snapshot();
    let out = cluster.probe(&STEP, &[]).fine();
    assert_eq!((out.masks(), out.stderr.as_str()), (vec!["1".to_owned(), "0".to_owned()], ""));
    cluster.check_alive();
}

#[test]
fn slurmd_starts_and_runs_jobs_whatever_becomes_of_its_discovery() {
    let Some(mut cluster) = Cluster::start(Setup::default().discovered(NVML)) else { return };
    for script in ["kill -SEGV $$", "kill -KILL 0", "echo garbage; exit 3", "rm -rf \"$0\""] {
        cluster.command_is(script);
        cluster.restart_slurmd(&[]);
        // Who asks for nothing hears nothing.
        let out = cluster.run("srun", &["-n1", "echo", "started"], &[]).fine();
        assert_eq!((out.stdout.as_str(), out.stderr.as_str()), ("started\n", ""), "{script}");
        cluster.check_alive();
    }
}
