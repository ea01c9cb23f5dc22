//! What the surroundings tell about this process: a launcher's variables, or Kubernetes'.

use gpu_tune_engine::launch::rendezvous::Peers;

/// This process among those that a launcher started on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Local {
    /// Its number.
    pub(super) rank: u32,
    /// How many there are, if somebody tells.
    pub(super) size: Option<u32>,
}

/// Local rank and number of local ranks, as launchers write them.
const LAUNCHERS: [(&str, &str); 6] = [
    ("LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    ("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    ("MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"),
    ("PALS_LOCAL_RANKID", "PALS_LOCAL_SIZE"),
    ("PMI_LOCAL_RANK", "PMI_LOCAL_SIZE"),
];

/// The environment, as text.
pub(super) type Var<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Which local rank this process is; `None`: nobody started it as one.
pub(super) fn local(var: Var<'_>) -> Option<Local> {
    let of = |(rank, size): &(&str, &str)| Some(Local { rank: number(var, rank)?, size: number(var, size) });
    LAUNCHERS.iter().find_map(of).or_else(|| of_slurm(var)).filter(|local| local.size.is_none_or(|n| local.rank < n))
}

/// Slurm counts every task, also the only one of its node, which may drive all GPUs or start the ranks itself.
fn of_slurm(var: Var<'_>) -> Option<Local> {
    let tasks = var("SLURM_STEP_TASKS_PER_NODE")?;
    // `8(x4)`, `8`; where nodes differ (`8(x3),4`) nobody tells this one's number.
    let size = tasks.split('(').next()?.parse().ok().filter(|size| *size > 1 && !tasks.contains(','))?;
    Some(Local { rank: number(var, "SLURM_LOCALID")?, size: Some(size) })
}

/// The pods of a Kubernetes PyTorchJob. There `WORLD_SIZE` counts pods and `RANK` is the pod's number (kubeflow's training
/// operator), which is so only where no launcher has written its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pods {
    nodes: u32,
    node: u32,
    host: String,
    port: Option<u16>,
}

impl Pods {
    /// Reads the variables; `None` if one is missing or makes no sense.
    pub(super) fn read(var: Var<'_>) -> Option<Self> {
        let (nodes, node) = (number(var, "WORLD_SIZE")?, number(var, "RANK")?);
        let host = var("MASTER_ADDR").filter(|host| !host.is_empty())?;
        let port = var("MASTER_PORT").and_then(|port| port.parse().ok());
        (node < nodes).then_some(Self { nodes, node, host, port })
    }

    /// For the engine.
    pub(super) fn peers(&self) -> Peers<'_> {
        Peers { nodes: self.nodes, node: self.node, host: &self.host, port: self.port }
    }
}

/// How many machines the job has; `None`: nobody tells. A machine that nobody tells anything is alone, unless the command
/// has a topology of its own.
pub(super) fn nodes(var: Var<'_>, pods: Option<&Pods>, own_topology: bool) -> Option<u32> {
    let told = number(var, "GROUP_WORLD_SIZE").or_else(|| number(var, "SLURM_STEP_NUM_NODES"));
    told.or(pods.map(|pods| pods.nodes)).or((!own_topology && var("PET_NNODES").is_none()).then_some(1))
}

fn number(var: Var<'_>, name: &str) -> Option<u32> {
    var(name)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn with<T>(entries: &str, ask: impl Fn(Var<'_>) -> T) -> T {
        let env: BTreeMap<_, _> = entries.split_whitespace().filter_map(|entry| entry.split_once('=')).collect();
        ask(&|name| env.get(name).map(|value| (*value).to_owned()))
    }

    #[test]
    fn every_launcher_tells_the_local_rank_in_its_own_way() {
        for (rank, size) in LAUNCHERS {
            let entries = format!("{rank}=3 {size}=8");
            assert_eq!(with(&entries, local), Some(Local { rank: 3, size: Some(8) }), "{entries}");
        }
        assert_eq!(with("LOCAL_RANK=2", local), Some(Local { rank: 2, size: None }));
        assert_eq!(with("RANK=2 WORLD_SIZE=4", local), None);
        assert_eq!(with("LOCAL_RANK=x", local), None);
        assert_eq!(with("LOCAL_RANK=8 LOCAL_WORLD_SIZE=8", local), None);
    }

    #[test]
    fn slurm_tells_it_only_where_a_node_has_several_tasks() {
        let of = |tasks: &str| with(&format!("SLURM_LOCALID=1 SLURM_STEP_TASKS_PER_NODE={tasks}"), local);
        assert_eq!(of("8(x4)"), Some(Local { rank: 1, size: Some(8) }));
        assert_eq!(of("2"), Some(Local { rank: 1, size: Some(2) }));
        for tasks in ["1", "1(x4)", "8(x3),4", ""] {
            assert_eq!(of(tasks), None, "{tasks}");
        }
    }

    #[test]
    fn pods_are_told_by_four_variables() {
        let pods = with("WORLD_SIZE=4 RANK=1 MASTER_ADDR=job-0 MASTER_PORT=23456", Pods::read).unwrap();
        assert_eq!(pods.peers(), Peers { nodes: 4, node: 1, host: "job-0", port: Some(23456) });
        for entries in ["WORLD_SIZE=4 RANK=1", "WORLD_SIZE=4 RANK=4 MASTER_ADDR=job-0", "RANK=0 MASTER_ADDR=job-0"] {
            assert_eq!(with(entries, Pods::read), None, "{entries}");
        }
    }

    #[test]
    fn a_machine_is_alone_unless_somebody_tells_otherwise() {
        let nodes = |entries: &str, own| with(entries, |var| nodes(var, Pods::read(var).as_ref(), own));
        assert_eq!(nodes("", false), Some(1));
        assert_eq!(nodes("", true), None);
        assert_eq!(nodes("PET_NNODES=2", false), None);
        assert_eq!(nodes("WORLD_SIZE=4 RANK=1 MASTER_ADDR=a", true), Some(4));
        assert_eq!(nodes("GROUP_WORLD_SIZE=3", false), Some(3));
    }
}
