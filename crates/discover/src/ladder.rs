//! The locality ladder: what is near a device, from the best source that knows.
//!
//! Each rung answers `None` when it does not know. "Every CPU of the machine" is no knowledge where CPUs are on several
//! NUMA nodes: hwloc hangs a device of unknown place below the whole machine, and the kernel lists every online CPU for
//! one. On a machine with CPUs on one node only, it is true.

use crate::nvml::GpuFacts;
use crate::shape::Place;
use crate::sysfs::Function;
use gpu_tune_engine::machine::{Locality, LocalitySource};
use gpu_tune_engine::{CpuSet, Machine, NodeSet};

/// First rung: the device's place in hwloc's tree.
pub(crate) fn hwloc(place: &Place, machine: &Machine) -> Option<Locality> {
    let locality = Locality { cpus: place.cpus.clone(), nodes: place.nodes.clone(), source: LocalitySource::Hwloc };
    says_something(&locality.cpus, machine).then_some(locality)
}

/// Second rung: `numa_node` and `local_cpulist` of /sys.
pub(crate) fn sysfs(function: &Function, machine: &Machine) -> Option<Locality> {
    let listed = function.cpus.as_ref().map(|cpus| cpus & &machine.cpus).filter(|cpus| says_something(cpus, machine));
    let node = function.node.and_then(|id| machine.numa.iter().find(|node| node.id == id));
    let (cpus, nodes) = match node {
        Some(node) if !node.cpus.is_empty() => (node.cpus.clone(), NodeSet::from_iter([node.id])),
        // A node without CPUs: the kernel lists those of the nearest node with CPUs, or nothing.
        Some(node) => (listed.unwrap_or_default(), NodeSet::from_iter([node.id])),
        None => listed.filter(|cpus| !cpus.is_empty()).map(|cpus| (cpus.clone(), machine.nodes_of(&cpus)))?,
    };
    Some(Locality { cpus, nodes, source: LocalitySource::Sysfs })
}

/// Third rung: NVML's CPU and memory affinity. The GPU's own memory node is not asked for: it is not near CPUs.
pub(crate) fn nvml(gpu: &GpuFacts, machine: &Machine) -> Option<Locality> {
    let of_nodes = |nodes: &NodeSet| -> CpuSet {
        let near = machine.numa.iter().filter(|node| nodes.contains(node.id));
        near.flat_map(|node| node.cpus.iter()).collect()
    };
    let useful = |cpus: &CpuSet| !cpus.is_empty() && says_something(cpus, machine);
    let told = gpu.cpus.as_ref().map(|cpus| cpus & &machine.cpus).filter(useful);
    let cpus = told.or_else(|| gpu.nodes.as_ref().map(of_nodes).filter(useful))?;
    let with_cpus = machine.nodes_of(&machine.cpus);
    let nodes = gpu.nodes.as_ref().map(|nodes| nodes & &with_cpus).filter(|nodes| !nodes.is_empty());
    Some(Locality { nodes: nodes.unwrap_or_else(|| machine.nodes_of(&cpus)), cpus, source: LocalitySource::Nvml })
}

/// The best answer: the first with CPUs, or else the first at all (a device at a node without CPUs). Where all CPUs are on
/// one node, everything is near it, whoever is asked.
pub(crate) fn climb(rungs: [Option<Locality>; 3], machine: &Machine) -> Option<Locality> {
    let mut known = rungs.into_iter().flatten();
    let first = known.next();
    if first.as_ref().is_some_and(|locality| !locality.cpus.is_empty()) {
        return first;
    }
    known.find(|locality| !locality.cpus.is_empty()).or(first).or_else(|| whole(machine))
}

fn whole(machine: &Machine) -> Option<Locality> {
    let nodes = machine.nodes_of(&machine.cpus);
    (nodes.len() == 1).then(|| Locality { cpus: machine.cpus.clone(), nodes, source: LocalitySource::Hwloc })
}

fn says_something(cpus: &CpuSet, machine: &Machine) -> bool {
    *cpus != machine.cpus || machine.nodes_of(&machine.cpus).len() < 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpu_tune_engine::machine::NumaNode;

    /// CPUs 0-3 on node 0, 4-7 on node 1; node 2 is memory without CPUs.
    fn two_nodes() -> Machine {
        let node =
            |id, cpus: &str| NumaNode { id, cpus: cpus.parse().unwrap(), memory_bytes: Some(1), gpu_memory: id == 2 };
        let numa = vec![node(0, "0-3"), node(1, "4-7"), node(2, "")];
        Machine { cpus: "0-7".parse().unwrap(), numa, ..Machine::default() }
    }

    fn one_node() -> Machine {
        let mut machine = two_nodes();
        machine.numa.truncate(1);
        machine.numa[0].cpus = machine.cpus.clone();
        machine
    }

    fn place(cpus: &str, nodes: &str) -> Place {
        Place { cpus: cpus.parse().unwrap(), nodes: nodes.parse().unwrap(), ..Place::default() }
    }

    fn function(node: Option<u32>, cpus: &str) -> Function {
        Function { node, cpus: cpus.parse().ok(), ..Function::default() }
    }

    fn told(cpus: Option<&str>, nodes: Option<&str>) -> GpuFacts {
        let set = |list: &str| list.parse().unwrap();
        let pci = "0000:4e:00.0".parse().unwrap();
        GpuFacts { pci, uuid: None, model: None, minor: None, mig: vec![], cpus: cpus.map(set), nodes: nodes.map(set) }
    }

    fn shown(locality: Option<Locality>) -> String {
        locality.map_or("unknown".into(), |l| format!("{} / {} {:?}", l.cpus, l.nodes, l.source))
    }

    #[test]
    fn the_nvml_answer_is_used_where_firmware_says_minus_one() {
        let machine = two_nodes();
        let rungs = |gpu| [None, sysfs(&function(None, "0-7"), &machine), nvml(&gpu, &machine)];
        assert_eq!(shown(climb(rungs(told(Some("4-7"), Some("1"))), &machine)), "4-7 / 1 Nvml");
        assert_eq!(shown(climb(rungs(told(None, Some("1"))), &machine)), "4-7 / 1 Nvml");
        assert_eq!(shown(climb(rungs(told(Some("4-7"), None)), &machine)), "4-7 / 1 Nvml");
    }

    #[test]
    fn nobody_knowing_is_unknown_and_never_node_0() {
        let machine = two_nodes();
        for gpu in [told(None, None), told(Some("0-7"), Some("0-1")), told(Some("64-127"), None)] {
            let rungs =
                [hwloc(&place("0-7", "0-2"), &machine), sysfs(&function(None, ""), &machine), nvml(&gpu, &machine)];
            assert_eq!(shown(climb(rungs, &machine)), "unknown");
        }
    }

    #[test]
    fn with_one_node_minus_one_means_that_node() {
        let machine = one_node();
        let rungs = [None, sysfs(&function(None, "0-7"), &machine), None];
        assert_eq!(shown(climb(rungs, &machine)), "0-7 / 0 Sysfs");
        assert_eq!(shown(climb([None, None, None], &machine)), "0-7 / 0 Hwloc");
    }

    #[test]
    fn sysfs_is_used_where_nvml_does_not_support_the_question() {
        let machine = two_nodes();
        let rungs = [None, sysfs(&function(Some(1), "4-7"), &machine), nvml(&told(None, None), &machine)];
        assert_eq!(shown(climb(rungs, &machine)), "4-7 / 1 Sysfs");
    }

    #[test]
    fn hwloc_wins_over_the_others() {
        let machine = two_nodes();
        let rungs = [hwloc(&place("0-3", "0"), &machine), sysfs(&function(Some(1), "4-7"), &machine), None];
        assert_eq!(shown(climb(rungs, &machine)), "0-3 / 0 Hwloc");
    }

    #[test]
    fn a_node_without_cpus_is_left_for_a_source_that_names_cpus() {
        let machine = two_nodes();
        let at_its_memory = || hwloc(&place("", "2"), &machine);
        let sysfs_too = || sysfs(&function(Some(2), ""), &machine);
        let affinity = nvml(&told(Some("0-3"), Some("0,2")), &machine);
        assert_eq!(shown(climb([at_its_memory(), sysfs_too(), affinity], &machine)), "0-3 / 0 Nvml");
        assert_eq!(shown(climb([at_its_memory(), sysfs_too(), None], &machine)), " / 2 Hwloc");
        assert_eq!(shown(sysfs(&function(Some(2), "0-3"), &machine)), "0-3 / 2 Sysfs");
    }
}
