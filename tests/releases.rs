//! One plugin file for every release of Slurm: `make slurm-matrix` runs these, and all others, on three of them.
#![cfg(test)]

mod slurm;

use slurm::place::Place;
use slurm::{Cluster, Setup, artifacts, conf, place, plugin};

#[test]
fn every_program_that_loads_plugins_takes_the_file() {
    let Some(cluster) = Cluster::start(Setup::default().discovered(r#"{"gpus":[]}"#)) else { return };
    for program in ["srun", "sbatch", "salloc"] {
        let help = cluster.run(program, &["--help"], &[]).fine().stdout;
        assert!(help.contains("--gpu-tune"), "{program} has not loaded it: {help}");
    }
    // slurmd's hook makes the snapshot, slurmstepd's set the variable.
    cluster.wait_for_snapshot();
    let task = cluster.probe(&["-n1", "--gpu-tune=h200"], &[]).fine().witnesses().remove(0);
    assert_eq!(task.var("GPU_TUNE_PROFILE"), Some("h200"));
    assert!(!cluster.place.logs().contains("Incompatible"), "{}", cluster.place.logs());
}

/// A library that makes the program which loads it look like a release of the far future.
fn future(place: &Place) -> String {
    plugin::compile(place, "future", "long slurm_api_version(void) { return 999L << 16; }")
        .unwrap()
        .display()
        .to_string()
}

#[test]
fn a_release_that_the_file_does_not_know_refuses_it_in_slurms_own_words() {
    let Some(mut cluster) = Cluster::start(Setup::default()) else { return };
    let library = future(&cluster.place);
    let words = ["-n1", "--gpu-tune=h200", "true"];
    cluster.run("srun", &words, &[]).fine();
    let refused = cluster.run("srun", &words, &[("LD_PRELOAD", &library)]);
    assert_ne!(refused.code, 0, "{refused:?}");
    assert!(refused.stderr.contains("Incompatible Slurm plugin"), "{}", refused.stderr);
    // Without the option the job runs: the line in plugstack.conf is `optional`.
    cluster.run("srun", &["-n1", "true"], &[("LD_PRELOAD", &library)]).fine();
    a_node_whose_slurm_refuses_the_file_runs_jobs(&mut cluster, &library);
}

fn a_node_whose_slurm_refuses_the_file_runs_jobs(cluster: &mut Cluster, library: &str) {
    let refusals = |cluster: &Cluster| cluster.slurmd_log().matches("Incompatible Slurm plugin").count();
    assert_eq!(refusals(cluster), 0);
    cluster.restart_slurmd(&[("LD_PRELOAD", library)]);
    let task = cluster.probe(&["-n1"], &[]).fine().witnesses().remove(0);
    assert_eq!((task.policy, task.var("GPU_TUNE_PROFILE")), (0, None));
    assert!(refusals(cluster) > 0, "slurmd took it: {}", cluster.slurmd_log());
    cluster.check_alive();
}

#[test]
fn an_upgrade_of_slurm_leaves_the_file_in_place() {
    let Some(newer) = place::root() else {
        println!("skipped: needs a second release of Slurm, `make slurm-matrix` has some");
        return;
    };
    let installed = Place::in_root(None);
    artifacts::install(&installed);
    let plugin = installed.inside("lib/gpu_tune.so");
    let mut releases = Vec::new();
    for root in [None, Some(newer)] {
        let Some(mut cluster) = Cluster::start_in(root, Setup::default().plugin(plugin.clone())) else { return };
        releases.push(conf::release(&cluster.place));
        let task = cluster.probe(&["-n1", "--gpus-per-task=1", "--gpu-tune=h200"], &[]).fine().witnesses().remove(0);
        assert_eq!((task.policy, task.var("GPU_TUNE_PROFILE")), (1, Some("h200")), "{task:?}");
        cluster.check_alive();
    }
    assert!(releases[0] < releases[1], "{releases:?}");
}
