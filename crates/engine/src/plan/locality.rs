//! What is near each GPU: the ladder of sources (rule 3), and a place for GPUs whose near CPUs nobody knows or may use.
#![forbid(unsafe_code)]

use super::cores::{CoreSet, Cores};
use crate::machine::Locality;
use crate::{CpuSet, Machine, PciAddress};
use std::collections::BTreeMap;

/// The CPUs nearest to a GPU, on the whole machine; `None` when no source knows any.
///
/// The admin's map comes first: who writes one for a GPU knows better than firmware that says nothing, or says node 0
/// for everything. On a machine with a single node that has CPUs, unknown means that node.
pub(super) fn near_cpus(machine: &Machine, gpu: usize, map: &BTreeMap<PciAddress, u32>) -> Option<CpuSet> {
    let gpu = machine.gpus.get(gpu);
    let mapped = gpu.and_then(|gpu| map.get(&gpu.pci)).and_then(|&node| node_cpus(machine, node));
    mapped.or_else(|| device_cpus(machine, gpu.and_then(|gpu| gpu.locality.as_ref())))
}

/// The CPUs nearest to a device with this locality, without the admin's map.
pub(super) fn device_cpus(machine: &Machine, locality: Option<&Locality>) -> Option<CpuSet> {
    let told = locality.and_then(|locality| told_cpus(machine, locality));
    told.or_else(|| (nodes_with_cpus(machine) <= 1).then(|| machine.cpus.clone()))
}

/// The online CPUs of a locality, by its nodes if it names no CPUs. One that spans all CPUs tells nothing: the device hangs
/// below the whole machine.
fn told_cpus(machine: &Machine, locality: &Locality) -> Option<CpuSet> {
    let mut near = &locality.cpus & &machine.cpus;
    if near.is_empty() {
        let nodes = machine.numa.iter().filter(|node| locality.nodes.contains(node.id));
        nodes.for_each(|node| near.extend(&node.cpus));
    }
    (!near.is_empty() && !machine.cpus.is_subset(&near)).then_some(near)
}

/// The CPUs of a node, unless it has none.
pub(super) fn node_cpus(machine: &Machine, id: u32) -> Option<CpuSet> {
    let node = machine.numa.iter().find(|node| node.id == id)?;
    (!node.cpus.is_empty()).then(|| node.cpus.clone())
}

/// All CPUs of the nodes that have some of these.
pub(super) fn cpus_of_nodes(machine: &Machine, cpus: &CpuSet) -> CpuSet {
    let nodes = machine.numa.iter().filter(|node| !node.cpus.is_disjoint(cpus));
    nodes.flat_map(|node| node.cpus.iter()).collect()
}

fn nodes_with_cpus(machine: &Machine) -> usize {
    machine.numa.iter().filter(|node| !node.cpus.is_empty()).count()
}

/// Where a GPU stands towards the cores that may be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Home {
    /// These usable cores are near; never empty.
    Near(CoreSet),
    /// What is near is known, and none of it may be used (rule 9). Positions of the packages it belongs to.
    Remote(Vec<usize>),
    /// Nobody knows what is near.
    Unknown,
}

/// Where a GPU with these near CPUs stands. One that is near to a part of a NUMA node, as below a cache of its own, is
/// near to the rest of the node where that part may not be used: no link between nodes is crossed there.
pub(super) fn home(machine: &Machine, cores: &Cores, near: Option<&CpuSet>) -> Home {
    let Some(near) = near else { return Home::Unknown };
    let mut usable = cores.within(near);
    if usable.is_empty() {
        usable = cores.within(&cpus_of_nodes(machine, near));
    }
    if !usable.is_empty() {
        return Home::Near(usable);
    }
    let packages = machine.packages.iter().enumerate().filter(|(_, package)| !package.cpus.is_disjoint(near));
    Home::Remote(packages.map(|(position, _)| position).collect())
}

/// The cores each GPU counts as near, out of `from`: its own, or those of the package that takes it in.
///
/// When nothing is known of any GPU, all cores are near to all. Otherwise a GPU without near cores is taken in by its own
/// package if some of that may be used, else by the package with the most cores for each GPU, so that it gets a fair
/// share and disturbs the others least.
pub(super) fn settle(cores: &Cores, from: &CoreSet, homes: &[Home]) -> Vec<CoreSet> {
    if homes.iter().all(|home| *home == Home::Unknown) {
        return vec![from.clone(); homes.len()];
    }
    let mut near: Vec<CoreSet> = homes.iter().map(|home| own(cores, from, home)).collect();
    let mut guests = Guests::new(cores, from, &near);
    for set in near.iter_mut().filter(|set| set.is_empty()) {
        *set = guests.take_in();
    }
    near
}

fn own(cores: &Cores, from: &CoreSet, home: &Home) -> CoreSet {
    match home {
        Home::Near(near) => near & from,
        Home::Remote(packages) => packages.iter().fold(CoreSet::new(), |all, &p| &all | &(&cores.of_package(p) & from)),
        Home::Unknown => CoreSet::new(),
    }
}

/// How full the packages are.
struct Guests {
    /// For each package with usable cores: the cores, and how many GPUs it has.
    packages: Vec<(CoreSet, usize)>,
}

impl Guests {
    fn new(cores: &Cores, from: &CoreSet, near: &[CoreSet]) -> Self {
        let of_package = |package: &CoreSet| {
            let here = package & from;
            let gpus = near.iter().filter(|set| !set.is_disjoint(&here)).count();
            (here, gpus)
        };
        Self { packages: cores.packages().map(of_package).collect() }
    }

    /// The package with the most cores for each GPU once it has taken in one more; the first of equals.
    fn take_in(&mut self) -> CoreSet {
        let mut best: Option<&mut (CoreSet, usize)> = None;
        for package in &mut self.packages {
            let better = |best: &(CoreSet, usize)| package.0.len() * (best.1 + 1) > best.0.len() * (package.1 + 1);
            if best.as_deref().is_none_or(better) {
                best = Some(package);
            }
        }
        best.map(|package| {
            package.1 += 1;
            package.0.clone()
        })
        .unwrap_or_default()
    }
}
