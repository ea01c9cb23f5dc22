//! The memory policy that goes with a set of cores (rule 10).
#![forbid(unsafe_code)]

use super::cores::{CoreSet, Cores};
use super::{MemKind, Memory};
use crate::spec::MemPolicy;
use crate::{Machine, NodeSet};

/// What memory policies of one step have in common.
#[derive(Debug)]
pub(super) struct Policy {
    kind: Option<MemKind>,
    /// Nodes that a policy may name: with host memory, and the step's.
    nodes: NodeSet,
    /// Nodes with host memory that are not the step's.
    others: NodeSet,
}

impl Policy {
    pub(super) fn new(machine: &Machine, wanted: MemPolicy, mems: Option<&NodeSet>) -> Self {
        let kind = match wanted {
            MemPolicy::Preferred => Some(MemKind::Preferred),
            MemPolicy::Bind => Some(MemKind::Bind),
            MemPolicy::Off => None,
        };
        let with_memory = machine.numa.iter().map(|node| node.id).filter(|id| machine.has_host_memory(*id));
        let (nodes, others): (Vec<u32>, Vec<u32>) =
            with_memory.partition(|id| mems.is_none_or(|mems| mems.contains(*id)));
        Self { kind, nodes: nodes.into_iter().collect(), others: others.into_iter().collect() }
    }

    /// The nodes of `set` whose memory is kept from the step.
    pub(super) fn kept_from(&self, cores: &Cores, set: &CoreSet) -> NodeSet {
        cores.get(set).filter_map(|core| core.node).filter(|node| self.others.contains(*node)).collect()
    }

    /// Whether any policy is wanted.
    pub(super) fn wanted(&self) -> bool {
        self.kind.is_some()
    }

    /// The nodes of `cores`, of which `own` (the GPU's own nodes) come first; `None` when none of them may be named.
    pub(super) fn of(&self, cores: &Cores, set: &CoreSet, own: &NodeSet) -> Option<Memory> {
        let counted = self.count(cores, set);
        let nodes: NodeSet = counted.iter().map(|(node, _)| *node).collect();
        // The first of equals, so not `max_by_key`, which takes the last.
        let rank = |(node, count): &(u32, usize)| (own.contains(*node), *count);
        let first = counted.iter().reduce(|best, next| if rank(next) > rank(best) { next } else { best })?.0;
        Some(Memory { policy: self.kind?, nodes, first })
    }

    /// Each node that may be named and how many of the cores it has, by its first core in logical order.
    fn count(&self, cores: &Cores, set: &CoreSet) -> Vec<(u32, usize)> {
        let mut counted: Vec<(u32, usize)> = Vec::new();
        for node in cores.get(set).filter_map(|core| core.node).filter(|node| self.nodes.contains(*node)) {
            match counted.iter_mut().find(|(other, _)| *other == node) {
                Some((_, count)) => *count += 1,
                None => counted.push((node, 1)),
            }
        }
        counted
    }
}

/// The policy of a process that drives several GPUs: the nodes of all, the first GPU's first. `None` when one of them has
/// no policy: its memory would be missing.
pub(super) fn union<'a>(mut memories: impl Iterator<Item = Option<&'a Memory>>) -> Option<Memory> {
    let mut all = memories.next()??.clone();
    for memory in memories {
        all.nodes.extend(&memory?.nodes);
    }
    Some(all)
}
