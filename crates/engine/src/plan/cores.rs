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
    pub(super) package: usize,
    /// Firmware marks it faster than others.
    pub(super) priority: bool,
}

/// The usable cores in hwloc's logical order. Isolated CPUs (`isolcpus`) count like any other: a step that owns them was
/// given them on purpose, and an explicit mask is the one way to run there.
#[derive(Debug)]
pub(super) struct Cores {
    list: Vec<UsableCore>,
}

impl Cores {
    /// The cores of `machine` that have a thread in `allowed`. CPUs that the machine counts to no core are cores of one
    /// thread, after the others.
    pub(super) fn new(machine: &Machine, allowed: &CpuSet) -> Self {
        let mut left = &machine.cpus & allowed;
        let fastest = machine.cores.iter().filter_map(|core| core.highest_perf).max();
        let some_slower = machine.cores.iter().any(|core| core.highest_perf != fastest);
        let mut list = Vec::new();
        for core in &machine.cores {
            let cpus = &core.pus & &left;
            left = &left - &cpus;
            let priority = some_slower && fastest.is_some() && core.highest_perf == fastest;
            list.extend(usable(machine, cpus, priority));
        }
        list.extend(left.iter().filter_map(|cpu| usable(machine, [cpu].into_iter().collect(), false)));
        Self { list }
    }

    /// Only the cores that firmware marks as the fastest; empty when it marks none.
    pub(super) fn priority(&self) -> CoreSet {
        self.pick(|core| core.priority)
    }

    /// All of them.
    pub(super) fn all(&self) -> CoreSet {
        self.pick(|_| true)
    }

    /// Those with a thread in `cpus`.
    pub(super) fn within(&self, cpus: &CpuSet) -> CoreSet {
        self.pick(|core| !core.cpus.is_disjoint(cpus))
    }

    /// Those of the package at this position.
    pub(super) fn of_package(&self, package: usize) -> CoreSet {
        self.pick(|core| core.package == package)
    }

    /// Positions of the packages that have some of these cores, ascending.
    pub(super) fn packages_of(&self, cores: &CoreSet) -> Vec<usize> {
        let mut packages: Vec<usize> = self.get(cores).map(|core| core.package).collect();
        packages.sort_unstable();
        packages.dedup();
        packages
    }

    /// These cores, in logical order.
    pub(super) fn get<'a>(&'a self, cores: &'a CoreSet) -> impl Iterator<Item = &'a UsableCore> {
        cores.iter().filter_map(|position| self.list.get(usize::try_from(position).ok()?))
    }

    /// The CPUs of these cores that a rank is bound to.
    pub(super) fn cpus(&self, cores: &CoreSet, smt: Smt) -> CpuSet {
        let mut cpus = CpuSet::new();
        for core in self.get(cores) {
            match smt {
                Smt::All => cpus.extend(&core.cpus),
                Smt::One => cpus.extend(&core.cpus.first().into_iter().collect()),
            }
        }
        cpus
    }

    fn pick(&self, wanted: impl Fn(&UsableCore) -> bool) -> CoreSet {
        (0..).zip(&self.list).filter(|(_, core)| wanted(core)).map(|(position, _)| position).collect()
    }
}

fn usable(machine: &Machine, cpus: CpuSet, priority: bool) -> Option<UsableCore> {
    let first = cpus.first()?;
    let package = machine.packages.iter().position(|package| package.cpus.contains(first));
    Some(UsableCore {
        node: machine.node_of(first).map(|node| node.id),
        package: package.unwrap_or(machine.packages.len()),
        cpus,
        priority,
    })
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
