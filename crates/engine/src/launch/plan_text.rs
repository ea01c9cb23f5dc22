//! `GPU_TUNE_PLAN`: the ranks of a launcher, for the preload shim; of a task that is a rank itself, its own part, which
//! nobody but `gpu-tune verify` reads.
//!
//! The form is described where it is read, in [`gpu_tune_shim_core::text`]. A plan for 8 ranks takes about 300 bytes.
#![forbid(unsafe_code)]

use crate::CpuSet;
use crate::plan::{MemKind, Memory, RankPlan, Share};
use gpu_tune_shim_core::{bytes, rank, text};
use std::fmt::Write as _;
use std::str::from_utf8;

/// A plan as it is read back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlanText {
    /// The launcher's own CPUs: a process that has others is no rank that waits to be bound.
    pub launcher: CpuSet,
    /// Names of the variables that the launcher itself was given although they tell a rank.
    pub had: Vec<String>,
    /// What the ranks are bound to, by local rank.
    pub shares: Vec<Share>,
}

/// Writes a plan.
///
/// `launcher` are the CPUs that the task has once it is bound itself; `var` looks a variable up in the environment that the
/// task will start with. Ranks that the plan leaves out between others are left alone.
pub fn encode(launcher: &CpuSet, var: impl Fn(&str) -> Option<Vec<u8>>, ranks: &[RankPlan]) -> String {
    let mut had = Vec::new();
    for name in rank::TELLING.iter().filter_map(|name| from_utf8(name.text()).ok()) {
        if let Some(value) = var(name) {
            had.push(format!("{name}={:08x}", bytes::hash(&value)));
        }
    }
    let mut plan = format!("{};{launcher};{}", String::from_utf8_lossy(text::VERSION), had.join(","));
    let count = ranks.iter().map(|rank| rank.local_rank + 1).max().unwrap_or(0);
    for local_rank in 0..count {
        plan.push(';');
        if let Some(rank) = ranks.iter().find(|rank| rank.local_rank == local_rank) {
            write_share(&mut plan, &rank.share);
        }
    }
    plan
}

/// The plan of a task that is a rank itself: one part, the task's own. `None` if nothing is bound.
pub fn of_rank(share: &Share) -> Option<String> {
    let part = RankPlan { local_rank: 0, gpu: 0, share: share.clone() };
    let cpus = share.cpus.clone().unwrap_or_default();
    (*share != Share::default()).then(|| encode(&cpus, |_| None, &[part]))
}

fn write_share(plan: &mut String, share: &Share) {
    let cpus = share.cpus.as_ref().map(ToString::to_string).unwrap_or_default();
    let written = match &share.memory {
        None => write!(plan, "{cpus}"),
        Some(Memory { policy: MemKind::Bind, nodes, .. }) => write!(plan, "{cpus}:b{nodes}"),
        Some(Memory { nodes, first, .. }) if nodes.len() == 1 => write!(plan, "{cpus}:p{first}"),
        Some(Memory { nodes, first, .. }) => write!(plan, "{cpus}:p{first}/{nodes}"),
    };
    debug_assert!(written.is_ok(), "writing to a string cannot fail");
}

/// Reads a plan; `None` if the shim would not take it, or would not take all of it.
pub fn decode(plan: &str) -> Option<PlanText> {
    let plan = text::Plan::read(plan.as_bytes())?;
    let had = plan.had_entries().map(|entry| Some(from_utf8(entry).ok()?.split_once('=')?.0.to_string()));
    let shares = plan.shares().map(|share| {
        let cpus = (!share.cpus.is_empty()).then(|| parse(share.cpus));
        let cpus = cpus.map_or(Some(None), |cpus| cpus.map(Some))?;
        let memory = share.memory.map_or(Some(None), |memory| read_memory(memory).map(Some))?;
        Some(Share { cpus, memory })
    });
    Some(PlanText {
        launcher: parse(plan.launcher)?,
        had: had.collect::<Option<_>>()?,
        shares: shares.collect::<Option<_>>()?,
    })
}

fn read_memory(memory: text::Memory<'_>) -> Option<Memory> {
    let (policy, nodes, first) = match memory {
        text::Memory::Prefer { first, nodes } => (MemKind::Preferred, parse(nodes)?, parse(first)?),
        text::Memory::Bind(nodes) => (MemKind::Bind, parse(nodes)?, parse(nodes)?),
    };
    Some(Memory { policy, first: first.first()?, nodes })
}

/// A list, if the shim reads it too.
fn parse(list: &[u8]) -> Option<CpuSet> {
    let fits = gpu_tune_shim_core::set::Set::empty().read(list);
    from_utf8(list).ok()?.parse().ok().filter(|_| fits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn set(list: &str) -> CpuSet {
        list.parse().unwrap()
    }

    fn rank(local_rank: u32, cpus: &str, memory: Option<(MemKind, &str, u32)>) -> RankPlan {
        let cpus = (!cpus.is_empty()).then(|| set(cpus));
        let memory = memory.map(|(policy, nodes, first)| Memory { policy, nodes: set(nodes), first });
        RankPlan { local_rank, gpu: 0, share: Share { cpus, memory } }
    }

    #[test]
    fn a_plan_has_one_field_per_local_rank() {
        let ranks = [
            rank(0, "0-7,16-23", Some((MemKind::Preferred, "0", 0))),
            rank(1, "8-15", Some((MemKind::Preferred, "0-1", 1))),
            rank(2, "", Some((MemKind::Bind, "0,2", 0))),
            rank(3, "24-31", None),
        ];
        let text = encode(&set("0-31"), |_| None, &ranks);
        assert_eq!(text, "1;0-31;;0-7,16-23:p0;8-15:p1/0-1;:b0,2;24-31");
        let back = decode(&text).unwrap();
        assert_eq!(back.launcher, set("0-31"));
        assert_eq!(back.shares, ranks.map(|rank| rank.share));
    }

    #[test]
    fn a_rank_left_out_is_left_alone() {
        let text = encode(&set("0-3"), |_| None, &[rank(2, "2", None), rank(0, "0", None)]);
        assert_eq!(text, "1;0-3;;0;;2");
        assert_eq!(
            decode(&text).unwrap().shares,
            [rank(0, "0", None), rank(1, "", None), rank(2, "2", None)].map(|r| r.share)
        );
    }

    #[test]
    fn what_the_launcher_was_given_is_told_with_its_hash() {
        let var = |name: &str| (name == "LOCAL_RANK").then(|| b"0".to_vec());
        let text = encode(&set("0-3"), var, &[rank(0, "0", None)]);
        assert_eq!(text, format!("1;0-3;LOCAL_RANK={:08x};0", bytes::hash(b"0")));
        assert_eq!(decode(&text).unwrap().had, ["LOCAL_RANK"]);
    }

    #[test]
    fn what_the_shim_does_not_take_is_not_decoded() {
        for text in ["", "2;0-3;;0", "1;0-9999;;0", "1;;;0", "1;0-3;;0-9999", "1;0-3;;0:p"] {
            assert_eq!(decode(text), None, "{text:?}");
        }
    }

    fn share() -> impl Strategy<Value = Share> {
        let list =
            || proptest::collection::btree_set(0_u32..8192, 1..20).prop_map(|ids| ids.into_iter().collect::<CpuSet>());
        let memory = (list(), any::<bool>()).prop_map(|(nodes, bind)| Memory {
            policy: if bind { MemKind::Bind } else { MemKind::Preferred },
            first: nodes.first().unwrap(),
            nodes,
        });
        (proptest::option::of(list()), proptest::option::of(memory)).prop_map(|(cpus, memory)| Share { cpus, memory })
    }

    proptest! {
        #[test]
        fn every_plan_reads_back(shares in proptest::collection::vec(share(), 1..20)) {
            let ranks: Vec<_> = (0..).zip(&shares).map(|(local_rank, share)| RankPlan { local_rank, gpu: 0, share: share.clone() }).collect();
            let back = decode(&encode(&set("0-8191"), |_| None, &ranks)).unwrap();
            prop_assert_eq!(back.shares, shares);
        }
    }
}
