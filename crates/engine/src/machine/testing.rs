//! Small machines written in code, for tests: shapes that people really have, by their published layout.
//!
//! CPUs are numbered as Linux numbers them on x86: first one thread of every core, then the second threads
//! (`core + thread * cores`). Every node has a GiB of memory for each core.
#![forbid(unsafe_code)]

use super::{Core, Gpu, Locality, LocalitySource, Machine, NumaNode, Package, Vendor};
use crate::{CpuSet, NodeSet};

const GIB: u64 = 1 << 30;

/// How many of each a machine has.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Packages.
    pub packages: u32,
    /// NUMA nodes in each package.
    pub nodes: u32,
    /// Cores in each NUMA node.
    pub cores: u32,
    /// Threads of each core.
    pub smt: u32,
}

impl Shape {
    /// A machine of this shape without GPUs.
    pub fn machine(self) -> Machine {
        let nodes: Vec<NumaNode> = (0..self.packages * self.nodes).map(|id| self.node(id)).collect();
        let packages = (0..self.packages).map(|package| Package {
            cpus: nodes
                .iter()
                .filter(|node| node.id / self.nodes == package)
                .flat_map(|node| node.cpus.iter())
                .collect(),
        });
        let all = self.total_cores();
        Machine {
            cpus: (0..all * self.smt).collect(),
            packages: packages.collect(),
            cores: (0..all).map(|core| Core { pus: self.threads(core), highest_perf: None }).collect(),
            numa: nodes,
            ..Machine::default()
        }
    }

    fn total_cores(self) -> u32 {
        self.packages * self.nodes * self.cores
    }

    fn threads(self, core: u32) -> CpuSet {
        (0..self.smt).map(|thread| core + thread * self.total_cores()).collect()
    }

    fn node(self, id: u32) -> NumaNode {
        let cores = id * self.cores..(id + 1) * self.cores;
        NumaNode {
            id,
            cpus: cores.flat_map(|core| self.threads(core).iter().collect::<Vec<_>>()).collect(),
            memory_bytes: Some(u64::from(self.cores) * GIB),
            gpu_memory: false,
        }
    }
}

/// An NVIDIA GPU about which nothing but its address is known.
///
/// # Panics
///
/// When the text is no PCI address.
#[expect(clippy::expect_used, reason = "only tests come here, and a wrong address is their mistake")]
pub fn gpu(pci: &str) -> Gpu {
    Gpu::new(pci.parse().expect("tests write addresses as sysfs does"), Vendor::Nvidia)
}

/// What is near a device that hangs at these nodes.
pub fn near(machine: &Machine, nodes: &[u32]) -> Locality {
    let cpus = machine.numa.iter().filter(|node| nodes.contains(&node.id)).flat_map(|node| node.cpus.iter());
    Locality { cpus: cpus.collect(), nodes: nodes.iter().copied().collect::<NodeSet>(), source: LocalitySource::Hwloc }
}

/// The machine with one more GPU for each entry, near those nodes; an empty entry is a GPU of unknown locality. Addresses
/// are `0000:10:00.0`, `0000:11:00.0` and so on; UUIDs are `GPU-000000NN-…` with NN the GPU's number in hex.
#[must_use]
pub fn with_gpus(mut machine: Machine, nodes: &[&[u32]]) -> Machine {
    for near_nodes in nodes {
        let number = machine.gpus.len();
        let locality = (!near_nodes.is_empty()).then(|| near(&machine, near_nodes));
        let mut gpu = gpu(&format!("0000:{:02x}:00.0", 0x10 + number));
        gpu.uuid = Some(format!("GPU-{number:08x}-1111-2222-3333-444444444444"));
        machine.gpus.push(Gpu { locality, ..gpu });
    }
    machine
}

/// 2 × EPYC in NPS4 (8 nodes of 16 cores, siblings +128), 4 H200 on nodes 1, 2, 6, 7.
pub fn turin() -> Machine {
    with_gpus(Shape { packages: 2, nodes: 4, cores: 16, smt: 2 }.machine(), &[&[1], &[2], &[6], &[7]])
}

/// 2 × 56 cores, siblings +112, 4 H100 at each package.
pub fn hgx() -> Machine {
    let near: [&[u32]; 8] = [&[0], &[0], &[0], &[0], &[1], &[1], &[1], &[1]];
    with_gpus(Shape { packages: 2, nodes: 1, cores: 56, smt: 2 }.machine(), &near)
}

/// DGX A100: NPS4, the 8 GPUs in pairs on nodes 3, 1, 7, 5.
pub fn dgx_a100() -> Machine {
    let near: [&[u32]; 8] = [&[3], &[3], &[1], &[1], &[7], &[7], &[5], &[5]];
    with_gpus(Shape { packages: 2, nodes: 4, cores: 16, smt: 2 }.machine(), &near)
}

/// 4 × GH200: four packages of 72 cores, and 8 nodes of GPU memory (MIG's share of numbers) for each GPU, from id 4.
pub fn gh200_x4() -> Machine {
    let base = Shape { packages: 4, nodes: 1, cores: 72, smt: 1 }.machine();
    let mut machine = with_gpus(base, &[&[0], &[1], &[2], &[3]]);
    for (id, gpu) in (4..36).zip((0..4).flat_map(|gpu| [gpu; 8])) {
        let memory_bytes = Some(if id % 8 == 4 { 96 * GIB } else { 0 });
        machine.numa.push(NumaNode { id, cpus: CpuSet::new(), memory_bytes, gpu_memory: true });
        if let Some(locality) = machine.gpus.get_mut(gpu).and_then(|gpu| gpu.locality.as_mut()) {
            locality.nodes.insert(id);
        }
    }
    machine
}
