//! How the cost grows with tasks, nodes and CPUs.
//!
//! Every node is a slurmd on this host that claims 64 cores, with `task/none`, so that steps may be wider than the host. The
//! node that `topology=` describes may be as wide as it likes; what is shared out to the tasks are the host's own CPUs.

use crate::own::{self, Hooks};
use crate::slurm::{Cluster, Setup, machine};
use crate::stats::median;
use crate::steps::Bench;

/// Tasks of each node, and nodes.
const TASKS: [u32; 3] = [1, 8, 64];
const NODES: [usize; 3] = [1, 2, 4];
/// CPUs of the described machine: sockets of two are half of it.
const CPUS: [u32; 4] = [64, 256, 512, 1024];
/// Rounds for steps that start hundreds of tasks.
const FEW: usize = 3;

/// One size of step.
#[derive(Debug)]
pub(crate) struct Size {
    pub(crate) nodes: usize,
    pub(crate) tasks: u32,
    /// Milliseconds without and with gpu-tune, round by round.
    pub(crate) times: [Vec<f64>; 2],
    pub(crate) hooks: Hooks,
}

/// What was measured here.
#[derive(Debug)]
pub(crate) struct Scale {
    pub(crate) sizes: Vec<Size>,
    /// What the hooks took in a step of 8 tasks, by CPUs of the machine.
    pub(crate) machines: Vec<(u32, Hooks)>,
}

impl Size {
    /// Medians without and with.
    pub(crate) fn medians(&self) -> [f64; 2] {
        [median(&self.times[0]), median(&self.times[1])]
    }
}

/// Measures; `None` where no Slurm can run.
pub(crate) fn run(rounds: usize) -> Option<Scale> {
    let most = NODES[NODES.len() - 1];
    let setup = Setup { cores: Some(64), ..Setup::default().nodes(most).gpus(8).task_plugin("task/none") };
    let cluster = Cluster::start(setup)?;
    let nodes = format!("-N{most}");
    let bench = Bench::new(&cluster, &[&nodes, "--ntasks-per-node=64", "--gpus-per-node=8"]);
    describe(&cluster, 256);
    let sizes = NODES.iter().flat_map(|nodes| TASKS.map(|tasks| (*nodes, tasks)));
    let sizes = sizes.map(|(nodes, tasks)| size(&bench, nodes, tasks, rounds)).collect();
    let machines = CPUS.iter().map(|cpus| {
        describe(&cluster, *cpus);
        (*cpus, own::hooks((0..rounds * 2).map(|_| bench.srun(&words(1, 8, true), true).1)))
    });
    let machines = machines.collect();
    drop(bench);
    Some(Scale { sizes, machines })
}

/// Lets the nodes be a machine of two sockets with that many CPUs.
fn describe(cluster: &Cluster, cpus: u32) {
    cluster.place.write("etc/node.snapshot", &machine::text(&machine::two_sockets(cpus / 4)));
}

fn words(nodes: usize, tasks: u32, tuned: bool) -> Vec<String> {
    let mut words = vec![
        format!("-N{nodes}"),
        format!("-n{}", nodes as u32 * tasks),
        format!("--ntasks-per-node={tasks}"),
        "--gpus-per-node=8".to_owned(),
    ];
    words.extend(tuned.then(|| "--gpu-tune=h200".to_owned()));
    words.push("true".to_owned());
    words
}

fn size(bench: &Bench<'_>, nodes: usize, tasks: u32, rounds: usize) -> Size {
    let many = nodes as u32 * tasks > 64;
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..if many { rounds.min(FEW) } else { rounds } {
        for turn in 0..2 {
            let tuned = (round + turn) % 2 == 1;
            bench.plugin(tuned);
            times[usize::from(tuned)].push(bench.srun(&words(nodes, tasks, tuned), false).0);
        }
    }
    bench.plugin(true);
    let hooks = own::hooks((0..FEW).map(|_| bench.srun(&words(nodes, tasks, true), true).1));
    Size { nodes, tasks, times, hooks }
}
