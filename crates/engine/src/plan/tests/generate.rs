//! Machines and steps made up by proptest: 1 to 8 packages, 0 to 16 GPUs, SMT 1 to 8, several nodes for each package, gaps in
//! all numbers, offline CPUs, nodes without CPUs or memory, ids beyond 1024.

use super::super::{Binding, Mode, Request, Reserve};
use crate::machine::testing::gpu;
use crate::machine::{Core, Gpu, Locality, LocalitySource, Machine, NumaNode, Package};
use crate::spec::{CpuPolicy, MemPolicy, Smt};
use crate::{CpuSet, IdSet, NodeSet};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// How kernel numbers are spread.
#[derive(Debug, Clone)]
struct Numbers {
    first: u32,
    step: u32,
    /// Siblings next to each other, or far away.
    adjacent: bool,
}

/// Where a GPU hangs; numbers count round.
#[derive(Debug, Clone)]
enum Hangs {
    Node(usize),
    /// Below a cache of its own: the first cores of a node.
    PartOfNode(usize),
    TwoNodes(usize),
    Package(usize),
    Machine,
    MemoryNode,
    Nobody,
}

/// What a step may use; numbers count round.
#[derive(Debug, Clone)]
enum Allowed {
    All,
    Package(usize),
    Node(usize),
    Pattern(Vec<bool>),
    First(usize),
}

/// Packages of nodes of cores; a core is a mask of its online threads.
type Shape = Vec<Vec<Vec<u8>>>;

pub(super) fn machines() -> impl Strategy<Value = Machine> {
    let core = prop_oneof![4 => Just(0xff_u8), 1 => any::<u8>()];
    let shape = vec(vec(vec(core, 1..5), 1..5), 1..9);
    let numbers =
        (0..1500_u32, 1..5_u32, any::<bool>()).prop_map(|(first, step, adjacent)| Numbers { first, step, adjacent });
    let node_numbers = (0..4_u32, 1..9_u32).prop_map(|(first, step)| Numbers { first, step, adjacent: true });
    let extra = vec((any::<bool>(), any::<bool>()), 0..4);
    (shape, 1..9_u32, numbers, node_numbers, extra, vec(hangs(), 0..17), vec(any::<u8>(), 8)).prop_map(
        |(shape, smt, cpus, nodes, extra, gpus, dice)| build(&shape, smt, &cpus, &nodes, &extra, &gpus, &dice),
    )
}

fn hangs() -> impl Strategy<Value = Hangs> {
    prop_oneof![
        8 => (0..8_usize).prop_map(Hangs::Node),
        1 => (0..8_usize).prop_map(Hangs::PartOfNode),
        1 => (0..8_usize).prop_map(Hangs::TwoNodes),
        2 => (0..4_usize).prop_map(Hangs::Package),
        1 => Just(Hangs::Machine),
        1 => Just(Hangs::MemoryNode),
        1 => Just(Hangs::Nobody),
    ]
}

fn build(
    shape: &Shape,
    smt: u32,
    cpus: &Numbers,
    nodes: &Numbers,
    extra: &[(bool, bool)],
    gpus: &[Hangs],
    dice: &[u8],
) -> Machine {
    let mut machine = Machine::default();
    let total = u32::try_from(shape.iter().flatten().flatten().count()).unwrap();
    let (mut core_number, mut node_number) = (0, nodes.first);
    let mut layout: Vec<Vec<u32>> = Vec::new();
    for package in shape {
        let mut of_package = CpuSet::new();
        layout.push(Vec::new());
        for node in package {
            let mut of_node = CpuSet::new();
            for mask in node {
                let id = |thread| if cpus.adjacent { core_number * smt + thread } else { core_number + thread * total };
                let online = (0..smt).filter(|thread| mask & (1 << thread) != 0);
                let pus: CpuSet = online.map(|thread| cpus.first + cpus.step * id(thread)).collect();
                of_node.extend(&pus);
                if !pus.is_empty() {
                    let perf = u32::from(dice[core_number as usize % dice.len()] % 4);
                    machine.cores.push(Core { pus, highest_perf: (dice[0] % 2 == 0).then_some(perf) });
                }
                core_number += 1;
            }
            of_package.extend(&of_node);
            let memory_bytes =
                [Some(1 << 30), None, Some(0), Some(1 << 34)][usize::from(dice[node_number as usize % 8]) % 4];
            machine.numa.push(NumaNode { id: node_number, cpus: of_node, memory_bytes, gpu_memory: false });
            layout.last_mut().unwrap().push(node_number);
            node_number += nodes.step;
        }
        machine.cpus.extend(&of_package);
        machine.packages.push(Package { cpus: of_package });
    }
    for &(gpu_memory, memory) in extra {
        let memory_bytes = memory.then_some(1 << 36);
        machine.numa.push(NumaNode { id: node_number, cpus: CpuSet::new(), memory_bytes, gpu_memory });
        node_number += nodes.step;
    }
    machine.gpus = gpus.iter().zip(0..).map(|(hangs, number)| hung(&machine, &layout, hangs, number)).collect();
    machine
}

fn hung(machine: &Machine, layout: &[Vec<u32>], hangs: &Hangs, number: u32) -> Gpu {
    let all: Vec<u32> = layout.iter().flatten().copied().collect();
    let node = |at: usize| all[at % all.len()];
    let of_package = |at: usize| layout[at % layout.len()].clone();
    let nodes: Option<Vec<u32>> = match *hangs {
        Hangs::Node(at) | Hangs::PartOfNode(at) => Some(vec![node(at)]),
        Hangs::TwoNodes(at) => Some(of_package(at).into_iter().take(2).collect()),
        Hangs::Package(at) => Some(of_package(at)),
        Hangs::Machine => Some(all),
        Hangs::MemoryNode => machine.numa.iter().find(|node| node.cpus.is_empty()).map(|node| vec![node.id]),
        Hangs::Nobody => None,
    };
    let locality = nodes.map(|nodes| {
        let near = machine.numa.iter().filter(|node| nodes.contains(&node.id)).flat_map(|node| node.cpus.iter());
        let mut cpus: CpuSet = near.collect();
        if let Hangs::PartOfNode(_) = hangs {
            let cores: Vec<&Core> = machine.cores.iter().filter(|core| !core.pus.is_disjoint(&cpus)).collect();
            cpus = cores.iter().take(cores.len().div_ceil(2)).flat_map(|core| core.pus.iter()).collect();
        }
        Locality { cpus, nodes: nodes.iter().copied().collect(), source: LocalitySource::Hwloc }
    });
    Gpu { locality, ..gpu(&format!("{number:04x}:01:00.0")) }
}

/// A machine and a step on it.
pub(super) fn steps() -> impl Strategy<Value = (Machine, Request)> {
    (
        machines(),
        allowed(),
        bindings(),
        0..24_u32,
        select(vec![Mode::Auto, Mode::Rank, Mode::Launcher]),
        vec(any::<bool>(), 16),
    )
        .prop_map(|(machine, allowed, binding, tasks, mode, dice)| {
            let gpus = (0..machine.gpus.len()).filter(|&at| dice[at] || dice[15]).collect();
            let cpus = pick(&machine, &allowed);
            let mems =
                dice[0].then(|| machine.numa.iter().zip(&dice).filter(|(_, yes)| **yes).map(|(node, _)| node.id));
            let mems: Option<NodeSet> = mems.map(Iterator::collect);
            let gpu_numa = match machine.gpus.first() {
                Some(gpu) if dice[1] && dice[2] => [(gpu.pci, machine.numa[0].id)].into(),
                _ => [].into(),
            };
            let request =
                Request { tasks, mode, gpus, cpus, mems, binding, gpu_numa, keep_launcher: dice[3] && dice[4] };
            (machine, request)
        })
}

fn allowed() -> impl Strategy<Value = Allowed> {
    prop_oneof![
        3 => Just(Allowed::All),
        1 => (0..8_usize).prop_map(Allowed::Package),
        1 => (0..16_usize).prop_map(Allowed::Node),
        2 => vec(any::<bool>(), 1..40).prop_map(Allowed::Pattern),
        1 => (0..6_usize).prop_map(Allowed::First),
    ]
}

fn pick(machine: &Machine, allowed: &Allowed) -> CpuSet {
    let cpus = &machine.cpus;
    match allowed {
        Allowed::All => cpus.clone(),
        Allowed::Package(at) => machine.packages[at % machine.packages.len()].cpus.clone(),
        Allowed::Node(at) => machine.numa[at % machine.numa.len()].cpus.clone(),
        Allowed::Pattern(pattern) => {
            cpus.iter().zip(pattern.iter().cycle()).filter(|(_, yes)| **yes).map(|(cpu, _)| cpu).collect()
        }
        Allowed::First(count) => cpus.iter().take(*count).collect(),
    }
}

fn bindings() -> impl Strategy<Value = Binding> {
    let cpu = prop_oneof![
        4 => Just(CpuPolicy::Exclusive),
        1 => Just(CpuPolicy::Numa),
        1 => Just(CpuPolicy::Socket),
        1 => Just(CpuPolicy::Off),
    ];
    let reserve = prop_oneof![
        3 => Just(Reserve::Nothing),
        1 => Just(Reserve::FirstCorePerNuma),
        1 => vec(0..2000_u32, 0..60).prop_map(|cpus| Reserve::Cpus(cpus.into_iter().collect::<IdSet>())),
    ];
    let mem = select(vec![MemPolicy::Preferred, MemPolicy::Bind, MemPolicy::Off]);
    let smt = select(vec![Smt::All, Smt::One]);
    (cpu, mem, smt, reserve, proptest::bool::weighted(0.2))
        .prop_map(|(cpu, mem, smt, reserve, prefer_priority)| Binding { cpu, mem, smt, reserve, prefer_priority })
}
