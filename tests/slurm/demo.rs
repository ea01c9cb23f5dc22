//! `make demo`: a throw-away Slurm with two stand-in GPUs; the same step without and with gpu-tune, as its tasks see
//! themselves; the plan of a machine with eight GPUs. Everything that was started is stopped.
#![allow(clippy::print_stdout, reason = "it shows something")]

#[path = "mod.rs"]
mod slurm;

use slurm::discovery::nvml;
use slurm::{Cluster, Setup};

/// What the tasks print: CPUs and memory policy as the kernel has them, and the variables that matter.
const SHOW: &str = r#"
cpus=$(sed -n 's/^Cpus_allowed_list:\s*//p' /proc/self/status)
echo "rank $SLURM_PROCID: CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES, runs on CPUs $cpus"
env | grep -E '^(NCCL|CUDA_DEVICE|OMP|GPU_TUNE_PROFILE|RANK|WORLD_SIZE|MASTER)' | sort | sed "s/^/rank $SLURM_PROCID:   /""#;

fn main() {
    println!(
        "Starting a throw-away Slurm: two GPUs that only NVML's stand-in knows, each near a core that Slurm would not choose."
    );
    let Some(cluster) = Cluster::start(Setup::default().discovered(&nvml())) else { return };
    cluster.wait_for_snapshot();
    let step = ["-n2", "-c1", "--gpus-per-task=1"];
    show(&cluster, "Before", &step, &[]);
    show(&cluster, "After", &step, &["--gpu-tune=h200,verbose"]);
    let file = cluster
        .place
        .write("eight.snapshot", &slurm::machine::text(&slurm::machine::eight_gpus()))
        .display()
        .to_string();
    println!("\n== The plan of a machine with eight GPUs: gpu-tune plan h200 --topology FILE\n");
    let command = cluster.place.inside("bin/gpu-tune").display().to_string();
    let plan = cluster.run(&command, &["plan", "h200", "--topology", &file], &[]);
    print!("{}{}", plan.stderr, plan.stdout);
}

fn show(cluster: &Cluster, when: &str, step: &[&str], option: &[&str]) {
    let words = [step, option].concat();
    println!("\n== {when}: srun {} …\n", words.join(" "));
    let out = cluster.run("srun", &[&words[..], &["bash", "-c", SHOW]].concat(), &[]);
    print!("{}", out.stderr);
    let mut lines: Vec<&str> = out.stdout.lines().collect();
    lines.sort_by_key(|line| line.split(':').next().map(str::to_owned));
    lines.iter().for_each(|line| println!("{line}"));
}
