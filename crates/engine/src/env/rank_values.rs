//! What differs from task to task, computed from the plan.

use super::RankValues;
use crate::plan::{Share, TaskPlan, nics};
use crate::{CpuSet, Machine};

impl RankValues {
    /// A task's values. `allowed` are the CPUs that it has where the plan leaves its mask alone.
    pub fn of(machine: &Machine, allowed: &CpuSet, task: &TaskPlan) -> Self {
        let gpu = task.gpus.first().and_then(|gpu| machine.gpus.get(*gpu));
        Self {
            cores: smallest(task, allowed, |cpus| cores(machine, cpus)),
            threads: smallest(task, allowed, CpuSet::len),
            launcher: !task.ranks.is_empty(),
            unbound: task.share.cpus.is_none() && task.ranks.iter().all(|rank| rank.share.cpus.is_none()),
            local_rank: Some(task.local_id),
            gpu_uuid: gpu.and_then(|gpu| gpu.uuid.clone()),
            gpu_pci: gpu.map(|gpu| gpu.pci.to_string()),
            near_nics: near_nics(machine, task),
        }
    }
}

/// Physical cores. On a machine that nobody knows each CPU counts as one, which errs by the threads per core.
fn cores(machine: &Machine, cpus: &CpuSet) -> usize {
    match machine.cores.as_slice() {
        [] => cpus.len(),
        cores => cores.iter().filter(|core| !core.pus.is_disjoint(cpus)).count(),
    }
}

/// The smallest count over a launcher's ranks, or that of the task itself. Zero is as good as unknown.
fn smallest(task: &TaskPlan, allowed: &CpuSet, count: impl Fn(&CpuSet) -> usize) -> Option<u32> {
    let shares: Vec<&Share> = match task.ranks.as_slice() {
        [] => vec![&task.share],
        ranks => ranks.iter().map(|rank| &rank.share).collect(),
    };
    let counts = shares.iter().map(|share| count(share.cpus.as_ref().unwrap_or(allowed)));
    counts.min().and_then(|count| u32::try_from(count).ok()).filter(|count| *count > 0)
}

/// The NICs nearest to the task's first GPU, as NCCL_IB_HCA and UCX_NET_DEVICES list them.
fn near_nics(machine: &Machine, task: &TaskPlan) -> Option<String> {
    let nics = nics::nearest(machine, *task.gpus.first()?);
    let names: Vec<&str> = nics.iter().map(|nic| nic.name.as_str()).collect();
    (!names.is_empty()).then(|| names.join(","))
}
