//! The first stage: the step's cores become one [`Slice`] for each GPU.
#![forbid(unsafe_code)]

use super::cores::{CoreSet, Cores, reserved};
use super::locality::{Home, cpus_of_nodes, home, near_cpus, node_cpus, settle};
use super::memory::Policy;
use super::{Layout, Request, Share, Slice, notices, share};
use crate::spec::{CpuPolicy, Smt};
use crate::{CpuSet, Machine, NodeSet, Notice};

impl Layout {
    /// Plans a step. Never fails: what cannot be had is left out and told in [`Layout::notices`].
    ///
    /// A step without GPUs has no slices and nothing to tell.
    pub fn new(machine: &Machine, request: &Request) -> Self {
        if request.gpus.is_empty() {
            return blank(request);
        }
        let mut told = Vec::new();
        let allowed = usable_cpus(machine, request, &mut told);
        let cores = Cores::new(machine, &allowed);
        if let Some(notice) = nothing_to_divide(machine, request, &cores, &allowed) {
            return Self { notices: vec![notice], ..unbound(request) };
        }
        let planner = Planner::new(machine, request, cores);
        planner.tell_localities(&mut told);
        let slices = planner.slices(&mut told);
        let cpus = if request.binding.cpu == CpuPolicy::Off { CpuSet::new() } else { request.cpus.clone() };
        Self { slices, notices: told, cpus, ..blank(request) }
    }
}

fn blank(request: &Request) -> Layout {
    let Request { tasks, mode, keep_launcher, .. } = *request;
    Layout { tasks, mode, keep_launcher, ..Layout::default() }
}

/// Slices that change nothing.
fn unbound(request: &Request) -> Layout {
    let slice = |&gpu: &usize| Slice { gpu, whole: Share::default(), shares: vec![Share::default()], remote: false };
    Layout { slices: request.gpus.iter().map(slice).collect(), ..blank(request) }
}

/// The CPUs to plan with: allowed, and not reserved unless that would leave none.
pub(super) fn usable_cpus(machine: &Machine, request: &Request, told: &mut Vec<Notice>) -> CpuSet {
    let allowed = &request.cpus & &machine.cpus;
    let reserved = &reserved(machine, &request.binding.reserve) & &allowed;
    if reserved.is_empty() || reserved != allowed {
        return &allowed - &reserved;
    }
    told.push(notices::reserve_ignored(&reserved));
    allowed
}

/// Why nothing is bound: no usable core, or one for several ranks (rule 11). Nothing is said where nothing was wanted.
fn nothing_to_divide(machine: &Machine, request: &Request, cores: &Cores, allowed: &CpuSet) -> Option<Notice> {
    let ranks = request.gpus.len().max(usize::try_from(request.tasks).unwrap_or(usize::MAX));
    match cores.all().len() {
        _ if request.binding.cpu == CpuPolicy::Off => None,
        0 => Some(notices::foreign_cpus(&request.cpus)),
        1 if ranks > 1 => Some(notices::one_cpu(ranks, allowed, &(&(&request.cpus & &machine.cpus) - allowed))),
        _ => None,
    }
}

/// Everything that the slices of one step are made from.
struct Planner<'a> {
    machine: &'a Machine,
    request: &'a Request,
    cores: Cores,
    policy: Policy,
    /// Near CPUs of each GPU of the step, whether or not they may be used.
    near: Vec<Option<CpuSet>>,
    homes: Vec<Home>,
}

impl<'a> Planner<'a> {
    fn new(machine: &'a Machine, request: &'a Request, cores: Cores) -> Self {
        let near: Vec<_> = request.gpus.iter().map(|&gpu| near_cpus(machine, gpu, &request.gpu_numa)).collect();
        let homes = near.iter().map(|near| home(machine, &cores, near.as_ref())).collect();
        let policy = Policy::new(machine, request.binding.mem, request.mems.as_ref());
        Self { machine, request, cores, policy, near, homes }
    }

    fn slices(&self, told: &mut Vec<Notice>) -> Vec<Slice> {
        let counts: Vec<usize> = (0..self.homes.len()).map(|at| self.ranks_on(at)).collect();
        let parts = self.parts(&counts, told);
        let mut short = Vec::new();
        let slices = parts.iter().zip(&counts).enumerate().map(|(at, (part, &count))| {
            let crowded = self.exclusive() && (count > part.len() || self.meets_another(&parts, at));
            if crowded {
                short.push(at);
            }
            // Who shares anyway, by policy or for want of cores, needs no pieces.
            let whole = crowded || !self.exclusive();
            self.slice(at, part, &if whole { vec![part.clone()] } else { share::cut(part, count) })
        });
        let slices: Vec<Slice> = slices.collect();
        told.extend(self.lost_memory(&slices, &parts));
        if !short.is_empty() {
            told.push(notices::overlap(self.machine, &self.gpus(&short)));
        }
        slices
    }

    /// How many ranks drive the GPU at this position (rule 14): one unless there are more tasks than GPUs.
    fn ranks_on(&self, at: usize) -> usize {
        let (tasks, gpus) = (usize::try_from(self.request.tasks).unwrap_or(usize::MAX), self.homes.len());
        if tasks <= gpus { 1 } else { tasks / gpus + usize::from(at < tasks % gpus) }
    }

    /// The cores of each GPU.
    fn parts(&self, counts: &[usize], told: &mut Vec<Notice>) -> Vec<CoreSet> {
        if self.request.binding.prefer_priority && self.request.binding.cpu != CpuPolicy::Off {
            let priority = self.cores.priority();
            match self.priority_parts(&priority, counts) {
                Some(parts) => return parts,
                None if priority.is_empty() => {}
                None => told.push(notices::no_priority(&self.cores.cpus(&priority, self.request.binding.smt))),
            }
        }
        self.parts_of(&self.cores.all())
    }

    /// Priority cores only, the same number for every rank; `None` when some rank would get none near its GPU.
    fn priority_parts(&self, priority: &CoreSet, counts: &[usize]) -> Option<Vec<CoreSet>> {
        let near = |home: &Home| !matches!(home, Home::Near(near) if near.is_disjoint(priority));
        if priority.is_empty() || !self.homes.iter().all(near) {
            return None;
        }
        let parts = self.parts_of(priority);
        if !self.exclusive() {
            return Some(parts);
        }
        let meet = (0..parts.len()).any(|at| self.meets_another(&parts, at));
        let each =
            parts.iter().zip(counts).map(|(part, count)| part.len() / count).min().filter(|each| *each > 0 && !meet)?;
        Some(
            parts.iter().zip(counts).enumerate().map(|(at, (part, count))| self.trim(at, part, each * count)).collect(),
        )
    }

    /// The part with `size` cores left, near ones before others.
    fn trim(&self, at: usize, part: &CoreSet, size: usize) -> CoreSet {
        let near = match self.homes.get(at) {
            Some(Home::Near(near)) => near & part,
            _ => CoreSet::new(),
        };
        near.iter().chain((part - &near).iter()).take(size).collect()
    }

    fn parts_of(&self, from: &CoreSet) -> Vec<CoreSet> {
        let near = settle(&self.cores, from, &self.homes);
        match self.request.binding.cpu {
            CpuPolicy::Exclusive => share::exclusive(&self.cores, from, &near),
            CpuPolicy::Numa => near.iter().map(|near| &self.nodes_of(near) & from).collect(),
            CpuPolicy::Off => near,
            CpuPolicy::Socket => near.iter().map(|near| &self.packages_of(near) & from).collect(),
        }
    }

    /// These cores and all usable ones of their NUMA nodes.
    fn nodes_of(&self, near: &CoreSet) -> CoreSet {
        near | &self.cores.within(&cpus_of_nodes(self.machine, &self.cores.cpus(near, Smt::All)))
    }

    /// All usable cores of the packages that have some of these.
    fn packages_of(&self, near: &CoreSet) -> CoreSet {
        let touched = self.cores.packages().filter(|package| !package.is_disjoint(near));
        touched.fold(CoreSet::new(), |all, package| &all | package)
    }

    fn exclusive(&self) -> bool {
        self.request.binding.cpu == CpuPolicy::Exclusive
    }

    fn meets_another(&self, parts: &[CoreSet], at: usize) -> bool {
        let Some(part) = parts.get(at) else { return false };
        parts.iter().enumerate().any(|(other, set)| other != at && !set.is_disjoint(part))
    }

    fn slice(&self, at: usize, part: &CoreSet, pieces: &[CoreSet]) -> Slice {
        let whole = self.share(at, part);
        let shares = match pieces {
            [_] => vec![whole.clone()],
            pieces => pieces.iter().map(|cores| self.share(at, cores)).collect(),
        };
        let gpu = self.request.gpus.get(at).copied().unwrap_or(usize::MAX);
        Slice { gpu, whole, shares, remote: matches!(self.homes.get(at), Some(Home::Remote(_))) }
    }

    fn share(&self, at: usize, part: &CoreSet) -> Share {
        let cpus = self.cores.cpus(part, self.request.binding.smt);
        let bound = self.request.binding.cpu != CpuPolicy::Off && !cpus.is_empty();
        Share { cpus: bound.then_some(cpus), memory: self.memory(at, part) }
    }

    /// Memory follows the cores. Not where nobody knows what is near; and not far from the GPU when CPUs are not bound,
    /// since then nothing ties the process to those cores.
    fn memory(&self, at: usize, part: &CoreSet) -> Option<super::Memory> {
        let home = self.homes.get(at)?;
        let tied = self.request.binding.cpu != CpuPolicy::Off || matches!(home, Home::Near(_));
        let own = self.machine.nodes_of(self.near.get(at)?.as_ref()?);
        if tied { self.policy.of(&self.cores, part, &own) } else { None }
    }

    /// Ranks without a policy because the memory beside their CPUs is not the step's.
    fn lost_memory(&self, slices: &[Slice], parts: &[CoreSet]) -> Option<Notice> {
        let without = |at: usize| slices.get(at).is_some_and(|slice| slice.whole.memory.is_none());
        let kept_from = |at: usize| self.policy.kept_from(&self.cores, parts.get(at).unwrap_or(&CoreSet::new()));
        let known = |at: usize| !matches!(self.homes.get(at), Some(Home::Unknown));
        let lost = self.select(|at| self.policy.wanted() && without(at) && known(at) && !kept_from(at).is_empty());
        let nodes = lost.iter().map(|at| kept_from(*at)).fold(NodeSet::new(), |all, nodes| &all | &nodes);
        (!lost.is_empty()).then(|| notices::no_memory(self.machine, &self.gpus(&lost), &nodes))
    }

    /// Warnings about GPUs whose near CPUs are unknown or out of reach, unless nothing is bound to them anyway.
    fn tell_localities(&self, told: &mut Vec<Notice>) {
        let (machine, cpu_bound) = (self.machine, self.request.binding.cpu != CpuPolicy::Off);
        let mapped_nowhere = self.select(|at| self.mapped_nowhere(at));
        if !mapped_nowhere.is_empty() {
            told.push(notices::bad_map(machine, &self.gpus(&mapped_nowhere)));
        }
        let unknown = self.select(|at| matches!(self.homes.get(at), Some(Home::Unknown)));
        if !unknown.is_empty() && (cpu_bound || self.policy.wanted()) {
            told.push(notices::no_locality(machine, &self.gpus(&unknown)));
        }
        let remote = self.select(|at| matches!(self.homes.get(at), Some(Home::Remote(_))));
        if !remote.is_empty() && cpu_bound {
            told.push(self.remote_notice(&remote));
        }
    }

    fn remote_notice(&self, remote: &[usize]) -> Notice {
        let near = remote.iter().filter_map(|&at| self.near.get(at)?.as_ref());
        let near = near.fold(CpuSet::new(), |all, near| &all | near);
        let usable = self.cores.cpus(&self.cores.all(), Smt::All);
        let reserved = !near.is_disjoint(&self.request.cpus);
        notices::remote(self.machine, &self.gpus(remote), &near, &usable, reserved)
    }

    fn mapped_nowhere(&self, at: usize) -> bool {
        let gpu = self.request.gpus.get(at).and_then(|&gpu| self.machine.gpus.get(gpu));
        let node = gpu.and_then(|gpu| self.request.gpu_numa.get(&gpu.pci));
        node.is_some_and(|&node| node_cpus(self.machine, node).is_none())
    }

    fn select(&self, wanted: impl Fn(usize) -> bool) -> Vec<usize> {
        (0..self.homes.len()).filter(|&at| wanted(at)).collect()
    }

    fn gpus(&self, positions: &[usize]) -> Vec<usize> {
        positions.iter().filter_map(|&at| self.request.gpus.get(at).copied()).collect()
    }
}
