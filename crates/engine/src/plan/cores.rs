//! The cores that ranks may have: allowed, not reserved, in hwloc's logical order.
#![forbid(unsafe_code)]

use super::Reserve;
use crate::spec::Smt;
use crate::{CpuSet, IdSet, Machine};

/// A set of cores, as positions in [`Cores`].
pub(super) type CoreSet = IdSet;

/// One core of which a rank may have something.
#[derive(Debug)]
pub(super) struct UsableCore {
    /// Its threads that may be used: not empty. A rank gets all of them or none.
    pub(super) cpus: CpuSet,
    /// The NUMA node that the kernel counts it to.
    pub(super) node: Option<u32>,
    /// Position in [`Machine::packages`]; cores outside every package have one for themselves, the last.
    package: usize,
    /// Firmware marks it faster than others.
    pub(super) priority: bool,
}

/// The usable cores in hwloc's logical order. Isolated CPUs (`isolcpus`) count like any other: a step that owns them was
/// given them on purpose, and an explicit mask is the one way to run there.
#[derive(Debug)]
pub(super) struct Cores {
    list: Vec<UsableCore>,
    /// For each CPU number the core's position.
    at_cpu: Vec<Option<u32>>,
    /// For each package, the last one being that of cores outside every package, its cores.
    packages: Vec<CoreSet>,
}

impl Cores {
    /// The cores of `machine` that have a thread in `allowed`. CPUs that the machine counts to no core are cores of one
    /// thread, after the others.
    pub(super) fn new(machine: &Machine, allowed: &CpuSet) -> Self {
        let mut left = &machine.cpus & allowed;
        let fastest = machine.cores.iter().filter_map(|core| core.highest_perf).max();
        let some_slower = machine.cores.iter().any(|core| core.highest_perf != fastest);
        let mut found: Vec<(CpuSet, bool)> = Vec::new();
        for core in &machine.cores {
            let cpus: CpuSet = core.pus.iter().filter(|&pu| left.remove(pu)).collect();
            found.push((cpus, some_slower && fastest.is_some() && core.highest_perf == fastest));
        }
        found.extend(left.iter().map(|cpu| ([cpu].into_iter().collect(), false)));
        Self::index(machine, found)
    }

    /// Looks up once where each core is, so that nothing later has to search.
    fn index(machine: &Machine, found: Vec<(CpuSet, bool)>) -> Self {
        let nodes = owners(machine.numa.iter().map(|node| &node.cpus));
        let packages = owners(machine.packages.iter().map(|package| &package.cpus));
        let mut cores = Self {
            list: Vec::new(),
            at_cpu: vec![None; machine.cpus.last().map_or(0, place) + 1],
            packages: vec![CoreSet::new(); machine.packages.len() + 1],
        };
        for (cpus, priority) in found {
            let Some(first) = cpus.first() else { continue };
            let node = owner(&nodes, first).and_then(|at| machine.numa.get(place(at))).map(|node| node.id);
            let package = owner(&packages, first).map_or(machine.packages.len(), place);
            cores.push(UsableCore { cpus, node, package, priority });
        }
        cores
    }

    fn push(&mut self, core: UsableCore) {
        let Ok(position) = u32::try_from(self.list.len()) else { return };
        for cpu in core.cpus.iter() {
            if let Some(slot) = self.at_cpu.get_mut(place(cpu)) {
                *slot = Some(position);
            }
        }
        if let Some(package) = self.packages.get_mut(core.package) {
            package.insert(position);
        }
        self.list.push(core);
    }

    /// Only the cores that firmware marks as the fastest; empty when it marks none.
    pub(super) fn priority(&self) -> CoreSet {
        (0..).zip(&self.list).filter(|(_, core)| core.priority).map(|(position, _)| position).collect()
    }

    /// All of them.
    pub(super) fn all(&self) -> CoreSet {
        (0..).zip(&self.list).map(|(position, _)| position).collect()
    }

    /// Those with a thread in `cpus`.
    pub(super) fn within(&self, cpus: &CpuSet) -> CoreSet {
        cpus.iter().filter_map(|cpu| owner(&self.at_cpu, cpu)).collect()
    }

    /// The packages that have usable cores, each with its cores.
    pub(super) fn packages(&self) -> impl Iterator<Item = &CoreSet> {
        self.packages.iter().filter(|package| !package.is_empty())
    }

    /// Those of the package at this position.
    pub(super) fn of_package(&self, package: usize) -> CoreSet {
        self.packages.get(package).cloned().unwrap_or_default()
    }

    /// These cores, in logical order.
    pub(super) fn get<'a>(&'a self, cores: &'a CoreSet) -> impl Iterator<Item = &'a UsableCore> {
        cores.iter().filter_map(|position| self.list.get(place(position)))
    }

    /// The CPUs of these cores that a rank is bound to.
    pub(super) fn cpus(&self, cores: &CoreSet, smt: Smt) -> CpuSet {
        let threads = match smt {
            Smt::All => usize::MAX,
            Smt::One => 1,
        };
        self.get(cores).flat_map(|core| core.cpus.iter().take(threads)).collect()
    }
}

/// For each CPU number the position of the first set that has it.
fn owners<'a>(sets: impl Iterator<Item = &'a CpuSet>) -> Vec<Option<u32>> {
    let mut owners: Vec<Option<u32>> = Vec::new();
    for (position, set) in (0..).zip(sets) {
        owners.resize(owners.len().max(set.last().map_or(0, place) + 1), None);
        for cpu in set.iter() {
            if let Some(slot) = owners.get_mut(place(cpu)) {
                slot.get_or_insert(position);
            }
        }
    }
    owners
}

fn owner(owners: &[Option<u32>], cpu: u32) -> Option<u32> {
    owners.get(place(cpu)).copied().flatten()
}

/// A number as an index. Ids end at [`crate::idset::MAX_ID`], so nothing is lost.
fn place(id: u32) -> usize {
    usize::try_from(id).unwrap_or(usize::MAX - 1)
}

/// The CPUs that `reserve` keeps from all ranks. `first-core-per-numa` means the first core of the node, whether or not
/// the step may use it: it is there for the system, at the same place on every node of the cluster.
pub(super) fn reserved(machine: &Machine, reserve: &Reserve) -> CpuSet {
    match reserve {
        Reserve::Nothing => CpuSet::new(),
        Reserve::Cpus(cpus) => cpus.clone(),
        Reserve::FirstCorePerNuma => {
            let first = |node: &crate::machine::NumaNode| {
                machine.cores.iter().find(|core| !core.pus.is_disjoint(&node.cpus)).map(|core| &core.pus)
            };
            machine.numa.iter().filter_map(first).fold(CpuSet::new(), |all, pus| &all | pus)
        }
    }
}
