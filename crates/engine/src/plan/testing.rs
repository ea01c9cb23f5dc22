//! A second model of the planner, for tests: rules 3, 5, 6, 7, 9 and 10 once more, for `exclusive`, written apart from the
//! planner, with lists and loops, slow and plain. Whoever changes one has to convince the other.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    reason = "a test's oracle may panic: its machines are whole"
)]

use super::{Layout, Request, Share, Slice};
use crate::machine::Machine;
use crate::{Code, CpuSet, NodeSet};

/// What the model says of one GPU.
#[derive(Debug, Clone, Default)]
struct Gpu {
    /// Positions of its near cores; of all cores of the package that took it in; of all cores.
    near: Vec<usize>,
    /// Positions of the cores that it gets.
    cores: Vec<usize>,
    /// How many it should get.
    size: usize,
}

/// Cores that may be used: their package and their CPUs.
fn usable(machine: &Machine, allowed: &CpuSet) -> Vec<(usize, CpuSet)> {
    let mut cores = Vec::new();
    for core in &machine.cores {
        let cpus: CpuSet = core.pus.iter().filter(|cpu| allowed.contains(*cpu)).collect();
        let package = machine.packages.iter().position(|package| package.cpus.contains(core.pus.first().unwrap()));
        if !cpus.is_empty() {
            cores.push((package.unwrap(), cpus));
        }
    }
    cores
}

/// The CPUs near a GPU of the machine, if anybody knows.
fn near_cpus(machine: &Machine, request: &Request, gpu: usize) -> Option<Vec<u32>> {
    let cpus_of = |id: u32| machine.numa.iter().find(|node| node.id == id).unwrap().cpus.iter().collect::<Vec<_>>();
    let with_cpus = machine.numa.iter().filter(|node| !node.cpus.is_empty()).count();
    let (gpu, all) = (&machine.gpus[gpu], machine.cpus.len());
    if let Some(&node) = request.gpu_numa.get(&gpu.pci) {
        if !cpus_of(node).is_empty() {
            return Some(cpus_of(node));
        }
    }
    let told: Vec<u32> = gpu.locality.iter().flat_map(|locality| locality.cpus.iter()).collect();
    match told.len() {
        0 if with_cpus == 1 => Some(machine.cpus.iter().collect()),
        0 => None,
        near if near == all && with_cpus > 1 => None,
        _ => Some(told),
    }
}

fn homes(machine: &Machine, request: &Request, cores: &[(usize, CpuSet)]) -> Vec<Gpu> {
    let told: Vec<_> = request.gpus.iter().map(|&gpu| near_cpus(machine, request, gpu)).collect();
    let all: Vec<usize> = (0..cores.len()).collect();
    if told.iter().all(Option::is_none) {
        return told.iter().map(|_| Gpu { near: all.clone(), ..Gpu::default() }).collect();
    }
    let mut homes = Vec::new();
    for near in &told {
        let near = near.clone().unwrap_or_default();
        let those_of = |cpus: &[u32]| -> Vec<usize> {
            all.iter().copied().filter(|&at| cores[at].1.iter().any(|cpu| cpus.contains(&cpu))).collect()
        };
        let mut own = those_of(&near);
        if own.is_empty() {
            let nodes = machine.numa.iter().filter(|node| near.iter().any(|&cpu| node.cpus.contains(cpu)));
            own = those_of(&nodes.flat_map(|node| node.cpus.iter()).collect::<Vec<_>>());
        }
        if own.is_empty() {
            let touches = |package: usize| machine.packages[package].cpus.iter().any(|cpu| near.contains(&cpu));
            own = all.iter().copied().filter(|&at| touches(cores[at].0)).collect();
        }
        homes.push(Gpu { near: own, ..Gpu::default() });
    }
    for at in 0..homes.len() {
        if homes[at].near.is_empty() {
            homes[at].near = host(cores, machine.packages.len(), &homes);
        }
    }
    homes
}

/// The package with the most cores for each GPU, the new one counted.
fn host(cores: &[(usize, CpuSet)], packages: usize, homes: &[Gpu]) -> Vec<usize> {
    let of = |package: usize| (0..cores.len()).filter(|&at| cores[at].0 == package).collect::<Vec<_>>();
    let gpus = |package: usize| homes.iter().filter(|gpu| gpu.near.iter().any(|&at| cores[at].0 == package)).count();
    let mut best = Vec::new();
    let mut most = 0.0;
    for package in 0..packages {
        let each = of(package).len() as f64 / (gpus(package) + 1) as f64;
        if each > most + 1e-9 {
            (best, most) = (of(package), each);
        }
    }
    best
}

/// Which GPUs stand in one locality with each GPU: everybody to whom a chain of shared near cores leads.
fn locality(gpus: &[Gpu], start: usize) -> Vec<usize> {
    let mut found = vec![start];
    loop {
        let next = (0..gpus.len()).find(|at| {
            !found.contains(at)
                && found.iter().any(|&other| gpus[other].near.iter().any(|core| gpus[*at].near.contains(core)))
        });
        match next {
            Some(at) => found.push(at),
            None => break,
        }
    }
    found.sort_unstable();
    found
}

/// Gives one more core to whoever of these has least.
fn feed(gpus: &mut [Gpu], candidates: &[usize]) {
    if let Some(&poorest) = candidates.iter().min_by_key(|&&at| (gpus[at].size, at)) {
        gpus[poorest].size += 1;
    }
}

fn sizes(gpus: &mut [Gpu], cores: &[(usize, CpuSet)]) {
    for core in 0..cores.len() {
        if let Some(owner) = gpus.iter().position(|gpu| gpu.near.contains(&core)) {
            let together = locality(gpus, owner);
            feed(gpus, &together);
        }
    }
    for core in spare(gpus, cores) {
        let package = cores[core].0;
        let there = neighbours(gpus, cores, package);
        feed(gpus, &there);
    }
}

fn spare(gpus: &[Gpu], cores: &[(usize, CpuSet)]) -> Vec<usize> {
    (0..cores.len()).filter(|core| !gpus.iter().any(|gpu| gpu.near.contains(core))).collect()
}

fn neighbours(gpus: &[Gpu], cores: &[(usize, CpuSet)], package: usize) -> Vec<usize> {
    (0..gpus.len()).filter(|&at| gpus[at].near.iter().any(|&core| cores[core].0 == package)).collect()
}

/// Places cores, where near sets are equal or apart: each locality in order, then spare cores by the middle of what is near.
fn place(gpus: &mut [Gpu], cores: &[(usize, CpuSet)]) {
    for at in 0..gpus.len() {
        let together = locality(gpus, at);
        let (count, turn) = (together.len(), together.iter().position(|&other| other == at).unwrap());
        let own = gpus[at].near.len();
        let begin = (0..turn).map(|before| own / count + usize::from(before < own % count)).sum::<usize>();
        let size = own / count + usize::from(turn < own % count);
        gpus[at].cores = gpus[at].near[begin..begin + size].to_vec();
    }
    for package in 0..=cores.iter().map(|core| core.0).max().unwrap_or(0) {
        let mut there = neighbours(gpus, cores, package);
        there.sort_by_key(|&at| gpus[at].near[0] + gpus[at].near.last().unwrap());
        let mut left: Vec<usize> = spare(gpus, cores).into_iter().filter(|&core| cores[core].0 == package).collect();
        for at in there {
            let missing = gpus[at].size - gpus[at].cores.len();
            gpus[at].cores.extend(left.drain(..missing));
        }
    }
}

/// Whether no two near sets overlap without being equal.
fn simple(gpus: &[Gpu]) -> bool {
    gpus.iter().all(|one| {
        gpus.iter().all(|other| one.near == other.near || !one.near.iter().any(|core| other.near.contains(core)))
    })
}

/// What the planner and the model do not agree on, if anything, about a step with the default binding that has two cores or
/// a single rank.
pub fn disagreement(machine: &Machine, request: &Request) -> Result<(), String> {
    let cores = usable(machine, &request.cpus);
    let mut gpus = homes(machine, request, &cores);
    sizes(&mut gpus, &cores);
    let layout = Layout::new(machine, request);
    let short: Vec<bool> =
        (0..gpus.len()).map(|at| locality(&gpus, at).iter().any(|&other| gpus[other].size == 0)).collect();
    how_many(&gpus, &short, &cores, &layout)?;
    if simple(&gpus) && !short.contains(&true) {
        place(&mut gpus, &cores);
        which(&gpus, &cores, &layout)?;
    }
    let mut crowded = false;
    for (at, slice) in layout.slices.iter().enumerate() {
        let ranks = (at..request.tasks as usize).step_by(gpus.len()).count().max(1);
        let near = near_cpus(machine, request, request.gpus[at]);
        let shared = short[at] || ranks > gpus[at].size;
        crowded |= shared;
        split(slice, if shared { 1 } else { ranks }, &cores)?;
        for share in slice.shares.iter().chain([&slice.whole]) {
            memory(machine, request, near.as_deref(), share)?;
        }
    }
    agree("the warning about overlap", &layout.notices.iter().any(|notice| notice.code == Code::Overlap), &crowded)
}

fn agree<T: PartialEq + std::fmt::Debug>(what: &str, planner: &T, model: &T) -> Result<(), String> {
    if planner == model { Ok(()) } else { Err(format!("{what}: planner {planner:?}, model {model:?}")) }
}

fn count(cores: &[(usize, CpuSet)], cpus: &CpuSet) -> usize {
    cores.iter().filter(|core| core.1.iter().any(|cpu| cpus.contains(cpu))).count()
}

fn cpus_of(slice: &Share) -> CpuSet {
    slice.cpus.clone().unwrap_or_default()
}

/// Where there are too few cores, each GPU has all that its locality has.
fn how_many(gpus: &[Gpu], short: &[bool], cores: &[(usize, CpuSet)], layout: &Layout) -> Result<(), String> {
    for (at, slice) in layout.slices.iter().enumerate() {
        let all = || locality(gpus, at).iter().map(|&other| gpus[other].size).sum();
        let size: usize = if short[at] { all() } else { gpus[at].size };
        agree(&format!("cores of GPU {at} of {gpus:?}"), &count(cores, &cpus_of(&slice.whole)), &size)?;
    }
    Ok(())
}

fn which(gpus: &[Gpu], cores: &[(usize, CpuSet)], layout: &Layout) -> Result<(), String> {
    for (slice, gpu) in layout.slices.iter().zip(gpus) {
        let expect: CpuSet = gpu.cores.iter().flat_map(|&core| cores[core].1.iter()).collect();
        agree(&format!("CPUs of GPU {}", slice.gpu), &cpus_of(&slice.whole), &expect)?;
    }
    Ok(())
}

/// The ranks of one GPU divide its cores, in order and evenly.
fn split(slice: &Slice, ranks: usize, cores: &[(usize, CpuSet)]) -> Result<(), String> {
    let whole = cpus_of(&slice.whole);
    let mine: Vec<&CpuSet> = cores.iter().map(|core| &core.1).filter(|core| !core.is_disjoint(&whole)).collect();
    let mut expect = vec![CpuSet::new(); ranks];
    let mut next = 0;
    for (rank, cpus) in expect.iter_mut().enumerate() {
        for _ in 0..mine.len() / ranks + usize::from(rank < mine.len() % ranks) {
            cpus.extend(mine[next]);
            next += 1;
        }
    }
    agree(&format!("ranks of GPU {}", slice.gpu), &slice.shares.iter().map(cpus_of).collect(), &expect)
}

/// Memory is that of the cores given, of the GPU's own node first; nobody knows which that is where nobody knows what
/// is near.
fn memory(machine: &Machine, request: &Request, near: Option<&[u32]>, share: &Share) -> Result<(), String> {
    let mut may = NodeSet::new();
    let mut own = NodeSet::new();
    for node in &machine.numa {
        let host = node.memory_bytes != Some(0) && !node.gpu_memory;
        let allowed = request.mems.as_ref().is_none_or(|mems| mems.contains(node.id));
        if near.is_some() && host && allowed && !node.cpus.is_disjoint(&cpus_of(share)) {
            may.insert(node.id);
            if near.is_some_and(|near| near.iter().any(|&cpu| node.cpus.contains(cpu))) {
                own.insert(node.id);
            }
        }
    }
    let (nodes, first) = share.memory.as_ref().map(|memory| (memory.nodes.clone(), memory.first)).unzip();
    agree("memory nodes", &nodes.unwrap_or_default(), &may)?;
    let own_comes_first = first.is_none_or(|first| own.is_empty() || own.contains(first));
    agree("that the GPU's own node comes first", &own_comes_first, &true)
}
