//! Steps on a real Slurm: what the tasks themselves see with gpu-tune, against what they see without.
#![cfg(test)]

mod slurm;

use slurm::{Cluster, Setup};

#[test]
fn each_task_has_its_own_cores_its_memory_and_the_environment_of_the_profile() {
    let Some(mut cluster) = Cluster::start(Setup::default()) else { return };
    let out = cluster.probe(&["-n2", "--gpus-per-task=1", "-c1", "--gpu-tune=h200,verbose"], &[]).fine();
    let tasks = out.witnesses();
    println!("{}", out.stderr);
    assert_eq!(tasks.len(), 2);
    assert_eq!((tasks[0].cpus.as_str(), tasks[1].cpus.as_str()), ("0", "1"));
    for task in &tasks {
        assert_eq!((task.policy, task.nodes.as_slice()), (1, [0].as_slice()), "{task:?}");
        assert_eq!(task.var("NCCL_DEBUG"), Some("WARN"));
        assert_eq!(task.var("OMP_NUM_THREADS"), Some("1"));
        assert_eq!(task.var("GPU_TUNE_PROFILE"), Some("h200"));
    }
    cluster.check_alive();
}
