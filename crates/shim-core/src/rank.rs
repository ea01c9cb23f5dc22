//! Is this process a rank that the launcher started, and which?
//!
//! A process is a rank if a local-rank variable tells so that the launcher itself was not given. Containers' hooks give
//! the launcher `LOCAL_RANK=0`, and all its children inherit that: there, a value of its own or a `TORCHELASTIC_RUN_ID`
//! beside it makes the rank.
use crate::bytes::{hash, number};
use crate::env::{Env, Name};
use crate::text::{Plan, Share};

/// Local rank, and how many ranks the node has, as the MPI libraries tell it.
const MPI: [(Name, Option<Name>); 5] = [
    (Name::OmpiLocalRank, Some(Name::OmpiLocalSize)),
    (Name::MpiLocalRankId, Some(Name::MpiLocalNRanks)),
    (Name::Mv2LocalRank, Some(Name::Mv2LocalSize)),
    (Name::PalsLocalRankId, None),
    (Name::PmiLocalRank, Some(Name::PmiLocalSize)),
];

/// The variables whose values a plan must know of when the launcher itself was given them.
pub const TELLING: [Name; 7] = [
    Name::LocalRank,
    Name::OmpiLocalRank,
    Name::MpiLocalRankId,
    Name::Mv2LocalRank,
    Name::PalsLocalRankId,
    Name::PmiLocalRank,
    Name::TorchelasticRunId,
];

/// The plan and this process's part of it; `None`: the process is no rank, or the plan has no part for it.
pub fn share<'a>(env: &Env<'a>) -> Option<(Plan<'a>, Share<'a>)> {
    let plan = Plan::read(env.get(Name::Plan)?)?;
    let rank = local_rank(env, &plan)?;
    let share = plan.shares().nth(rank as usize)?;
    Some((plan, share))
}

/// The local rank, if this process is a rank.
pub fn local_rank(env: &Env<'_>, plan: &Plan<'_>) -> Option<u32> {
    let torchrun = new(env, plan, Name::TorchelasticRunId).is_some();
    if let Some(rank) = if torchrun { env.get(Name::LocalRank) } else { new(env, plan, Name::LocalRank) } {
        let rank = number(rank)?;
        return Some(if torchrun && rank == 0 { behind_virtual(env).unwrap_or(0) } else { rank });
    }
    let (rank, size) = MPI.iter().find_map(|&(rank, size)| Some((new(env, plan, rank)?, size)))?;
    // The only rank of its node, where the plan is made for several: `mpirun --map-by node torchrun`, or a process that
    // drives all GPUs. Bound to the first part, everything that it starts would be.
    let alone = size.and_then(|size| number(env.get(size)?)) == Some(1);
    if alone && plan.shares().nth(1).is_some() { None } else { number(rank) }
}

/// The value of a variable, unless the launcher itself was given this very value.
fn new<'a>(env: &Env<'a>, plan: &Plan<'_>, name: Name) -> Option<&'a [u8]> {
    env.get(name).filter(|value| plan.had(name.text()) != Some(hash(value)))
}

/// The true local rank of a worker of `torchrun --virtual-local-rank` (PyTorch 2.10 and later), which gives every worker
/// `LOCAL_RANK=0`: its rank counted from the first one of its node. `None` if the numbers do not fit, as they may not when
/// nodes have different numbers of workers.
fn behind_virtual(env: &Env<'_>) -> Option<u32> {
    let [rank, node, workers] = [Name::Rank, Name::GroupRank, Name::LocalWorldSize].map(|name| number(env.get(name)?));
    let rank = rank?.checked_sub(node?.checked_mul(workers?)?)?;
    (rank < workers?).then_some(rank)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;
    use std::string::{String, ToString};
    use std::vec::Vec;

    /// Eight ranks; the launcher was given what `had` says. The CPUs that a process with `entries` gets.
    fn cpus(had: &[(&str, &str)], entries: &str) -> Option<String> {
        let had: Vec<_> = had.iter().map(|(name, value)| format!("{name}={:08x}", hash(value.as_bytes()))).collect();
        let plan = format!("GPU_TUNE_PLAN=1;0-7;{};0;1;2;3;4;5;6;7", had.join(","));
        let mut env = Env::default();
        env.see(plan.as_bytes());
        entries.split_whitespace().for_each(|entry| env.see(entry.as_bytes()));
        share(&env).map(|(_, share)| core::str::from_utf8(share.cpus).unwrap().to_string())
    }

    fn check(had: &[(&str, &str)], entries: &str, expect: Option<&str>) {
        assert_eq!(cpus(had, entries).as_deref(), expect, "launcher had {had:?}, process has {entries:?}");
    }

    #[test]
    fn every_launchers_variable_makes_a_rank() {
        for name in ["LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "MV2_COMM_WORLD_LOCAL_RANK"] {
            check(&[], &format!("{name}=3"), Some("3"));
        }
        for name in ["PALS_LOCAL_RANKID", "PMI_LOCAL_RANK"] {
            check(&[], &format!("{name}=5"), Some("5"));
        }
    }

    #[test]
    fn a_process_without_such_a_variable_is_no_rank() {
        check(&[], "SLURM_LOCALID=0 RANK=1 LOCAL_RANKS=2", None);
        check(&[], "TORCHELASTIC_RUN_ID=none", None);
    }

    #[test]
    fn what_a_container_gave_the_launcher_makes_no_rank() {
        let pyxis = [("LOCAL_RANK", "0")];
        check(&pyxis, "LOCAL_RANK=0", None);
        check(&pyxis, "LOCAL_RANK=0 TORCHELASTIC_RUN_ID=none", Some("0"));
        check(&pyxis, "LOCAL_RANK=1 TORCHELASTIC_RUN_ID=none", Some("1"));
        check(&pyxis, "LOCAL_RANK=1", Some("1"));
        check(&pyxis, "LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_RANK=6", Some("6"));
    }

    #[test]
    fn a_launcher_inside_another_torchruns_worker_is_no_rank() {
        let worker = [("LOCAL_RANK", "2"), ("TORCHELASTIC_RUN_ID", "7.0")];
        check(&worker, "LOCAL_RANK=2 TORCHELASTIC_RUN_ID=7.0", None);
        check(&worker, "LOCAL_RANK=2 TORCHELASTIC_RUN_ID=8.0", Some("2"));
        check(&worker, "LOCAL_RANK=1 TORCHELASTIC_RUN_ID=7.0", Some("1"));
    }

    #[test]
    fn a_rank_beyond_the_plan_is_left_alone() {
        check(&[], "LOCAL_RANK=8", None);
        check(&[], "LOCAL_RANK=-1", None);
        check(&[], "LOCAL_RANK=", None);
        check(&[], "LOCAL_RANK=one", None);
    }

    #[test]
    fn the_only_mpi_rank_of_a_node_keeps_all_gpus() {
        check(&[], "OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=1", None);
        check(&[], "OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=8", Some("0"));
        check(&[], "OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=1 LOCAL_RANK=4", Some("4"));
    }

    #[test]
    fn a_virtual_local_rank_is_seen_through() {
        let worker = |rank| format!("TORCHELASTIC_RUN_ID=1 LOCAL_RANK=0 GROUP_RANK=1 LOCAL_WORLD_SIZE=8 RANK={rank}");
        check(&[], &worker(8), Some("0"));
        check(&[], &worker(13), Some("5"));
        check(&[], &worker(4), Some("0"));
        check(&[], &worker(16), Some("0"));
    }

    #[test]
    fn without_a_plan_nobody_is_bound() {
        let mut env = Env::default();
        env.see(b"LOCAL_RANK=0");
        assert!(share(&env).is_none());
    }
}
