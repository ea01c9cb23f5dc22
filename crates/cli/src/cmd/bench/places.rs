//! Near, far and unbound: where the measuring thread is put.

use gpu_tune_engine::plan::{MemKind, Memory, Share};
use gpu_tune_engine::{CpuSet, Machine};

/// The three placements; unbound needs no description. `None`: there is no such place, or this host does not let us have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Places {
    pub(super) near: Option<Share>,
    pub(super) far: Option<Share>,
}

/// For something near `near`. `None` when no allowed CPU is near it.
pub(super) fn around(machine: &Machine, near: &CpuSet, allowed: &CpuSet) -> Option<Places> {
    let here = machine
        .numa
        .iter()
        .find(|node| usable(machine, node.id, &(&node.cpus & allowed)) && !node.cpus.is_disjoint(near))?;
    Some(Places {
        near: Some(on(machine, here.id, allowed)?),
        far: far_from(machine, near, allowed).and_then(|node| on(machine, node, allowed)),
    })
}

/// A node in another package if there is one, else any other node; the last of them, because distance mostly grows with
/// the number.
fn far_from(machine: &Machine, near: &CpuSet, allowed: &CpuSet) -> Option<u32> {
    let package = machine.packages.iter().find(|package| !package.cpus.is_disjoint(near)).map(|package| &package.cpus);
    let others = machine.numa.iter().filter(|node| node.cpus.is_disjoint(near));
    let others: Vec<_> = others.filter(|node| usable(machine, node.id, &(&node.cpus & allowed))).collect();
    let beyond = others.iter().rfind(|node| package.is_none_or(|package| node.cpus.is_disjoint(package)));
    beyond.or(others.last()).map(|node| node.id)
}

fn usable(machine: &Machine, node: u32, cpus: &CpuSet) -> bool {
    !cpus.is_empty() && machine.has_host_memory(node)
}

/// CPUs and memory of one node, and no other memory: what the node's memory gives is to be measured.
pub(super) fn on(machine: &Machine, id: u32, allowed: &CpuSet) -> Option<Share> {
    let node = machine.numa.iter().find(|node| node.id == id)?;
    let memory = Memory { policy: MemKind::Bind, nodes: [id].into_iter().collect(), first: id };
    Some(Share { cpus: Some(&node.cpus & allowed), memory: Some(memory) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpu_tune_engine::machine::testing;

    fn nodes(machine: &Machine, near: &str, allowed: &CpuSet) -> Option<(u32, Option<u32>)> {
        let places = around(machine, &near.parse().unwrap(), allowed)?;
        let first = |share: Share| share.memory.unwrap().first;
        Some((first(places.near.unwrap()), places.far.map(first)))
    }

    #[test]
    fn far_is_in_the_other_package() {
        let machine = testing::turin();
        assert_eq!(nodes(&machine, "16-31,144-159", &machine.cpus), Some((1, Some(7))));
        assert_eq!(nodes(&machine, "112-127,240-255", &machine.cpus), Some((7, Some(3))));
    }

    #[test]
    fn only_allowed_cpus_are_used_and_far_may_be_missing() {
        let machine = testing::turin();
        let allowed: CpuSet = "16-19,33".parse().unwrap();
        assert_eq!(nodes(&machine, "16-31,144-159", &allowed), Some((1, Some(2))));
        let places = around(&machine, &"16-31".parse().unwrap(), &"16-19".parse().unwrap()).unwrap();
        assert_eq!((places.near.unwrap().cpus.unwrap().to_string().as_str(), places.far), ("16-19", None));
        assert_eq!(nodes(&machine, "16-31", &"0-3".parse().unwrap()), None);
    }
}
