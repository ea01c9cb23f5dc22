//! Puts together what hwloc, the kernel's files and NVML tell of one machine.

use crate::nvml::{self, GpuFacts};
use crate::shape::{Place, Shape};
use crate::sysfs::{AmdGpu, DriverGpu, RdmaDevice, Tree};
use crate::{Found, ladder};
use gpu_tune_engine::machine::{Gpu, Locality, Nic, NumaNode, Vendor};
use gpu_tune_engine::{Code, Machine, Notice, PciAddress, snapshot};
use std::collections::BTreeMap;

/// The machine whose shape, files and NVML these are.
pub(crate) fn machine(shape: Shape, tree: &Tree, told: nvml::Facts) -> Found {
    let Shape { mut machine, functions, .. } = shape;
    let driver = tree.driver_gpus();
    kernels_nodes(&mut machine.numa, tree, &driver);
    cpu_facts(&mut machine, tree);
    let near = Near { tree, functions: &functions };
    let mut notices = gpus(&mut machine, &driver, &told.gpus, &near);
    nics(&mut machine, &near);
    machine.driver = snapshot::driver(tree.root()).or(told.driver);
    let nvidia = machine.gpus.iter().any(|gpu| gpu.vendor == Vendor::Nvidia);
    if nvidia || !told.absent {
        notices.extend(told.troubles.into_iter().map(trouble));
    }
    (machine, notices)
}

fn trouble(text: String) -> Notice {
    let help =
        "GPUs are described from the driver's files and /sys; MIG devices need NVML (`nvml=PATH` names another one)";
    Notice::new(Code::Discovery, text).help(help)
}

/// NUMA nodes as the kernel has them, where its files are there: they say which CPUs it counts to a node, and they show the
/// GPU-memory nodes that hwloc before 2.11 leaves out.
fn kernels_nodes(numa: &mut Vec<NumaNode>, tree: &Tree, driver: &BTreeMap<PciAddress, DriverGpu>) {
    let mut nodes: BTreeMap<u32, NumaNode> = numa.drain(..).map(|node| (node.id, node)).collect();
    for (id, facts) in tree.nodes() {
        let node = nodes.entry(id).or_insert_with(|| NumaNode { id, ..NumaNode::default() });
        node.cpus = facts.cpus;
        node.memory_bytes = node.memory_bytes.or(facts.memory_bytes);
    }
    for id in driver.values().filter_map(|gpu| gpu.memory_node) {
        nodes.entry(id).and_modify(|node| node.gpu_memory = true);
    }
    numa.extend(nodes.into_values());
}

fn cpu_facts(machine: &mut Machine, tree: &Tree) {
    machine.isolated = tree.isolated();
    for core in &mut machine.cores {
        core.highest_perf = core.pus.iter().filter_map(|cpu| tree.highest_perf(cpu)).max();
    }
}

/// Where PCI functions are.
struct Near<'a> {
    tree: &'a Tree,
    functions: &'a BTreeMap<PciAddress, Place>,
}

impl Near<'_> {
    /// What is known of a function's place: locality, bridges, host bridge.
    fn place(&self, address: PciAddress, told: Option<&GpuFacts>, machine: &Machine) -> Spot {
        let function = self.tree.function(address);
        let place = self.functions.get(&address);
        let rungs = [
            place.and_then(|place| ladder::hwloc(place, machine)),
            function.as_ref().and_then(|function| ladder::sysfs(function, machine)),
            told.and_then(|gpu| ladder::nvml(gpu, machine)),
        ];
        let way = place.map(|place| (place.bridges.clone(), place.root.clone()));
        let (bridges, root) = way.or_else(|| function.map(|f| (f.bridges, f.root))).unwrap_or_default();
        Spot { locality: ladder::climb(rungs, machine), bridges, root }
    }
}

/// A device's place, as [`Gpu`] and [`Nic`] keep it.
#[derive(Default)]
struct Spot {
    locality: Option<Locality>,
    bridges: Vec<PciAddress>,
    root: Option<String>,
}

/// GPUs: those that hwloc shows, those that the driver holds and those that NVML lists. An NVIDIA GPU that the loaded driver
/// does not hold (passed through to a guest, or excluded by its options) is none: CUDA and Slurm do not count it.
fn gpus(
    machine: &mut Machine,
    driver: &BTreeMap<PciAddress, DriverGpu>,
    told: &[GpuFacts],
    near: &Near<'_>,
) -> Vec<Notice> {
    let told: BTreeMap<PciAddress, &GpuFacts> = told.iter().map(|gpu| (gpu.pci, gpu)).collect();
    let mut gpus: BTreeMap<PciAddress, Gpu> = machine.gpus.drain(..).map(|gpu| (gpu.pci, gpu)).collect();
    for pci in driver.keys().chain(told.keys()) {
        gpus.entry(*pci).or_insert_with(|| Gpu::new(*pci, Vendor::Nvidia));
    }
    let used = |gpu: &Gpu| gpu.vendor != Vendor::Nvidia || driver.contains_key(&gpu.pci) || told.contains_key(&gpu.pci);
    let (kept, left): (Vec<Gpu>, Vec<Gpu>) = gpus.into_values().partition(|gpu| driver.is_empty() || used(gpu));
    machine.gpus = kept.into_iter().map(|gpu| describe(gpu, driver, &told, near, machine)).collect();
    left.iter().map(|gpu| not_held(gpu.pci)).collect()
}

fn not_held(pci: PciAddress) -> Notice {
    Notice::new(Code::Discovery, format!("GPU {pci} is left out: the NVIDIA driver does not hold it"))
}

fn describe(
    gpu: Gpu,
    driver: &BTreeMap<PciAddress, DriverGpu>,
    told: &BTreeMap<PciAddress, &GpuFacts>,
    near: &Near<'_>,
    machine: &Machine,
) -> Gpu {
    let (files, told) = (driver.get(&gpu.pci), told.get(&gpu.pci).copied());
    let amd = if gpu.vendor == Vendor::Amd { near.tree.amd_gpu(gpu.pci) } else { AmdGpu::default() };
    let Spot { locality, bridges, root } = near.place(gpu.pci, told, machine);
    Gpu {
        uuid: told
            .and_then(|t| t.uuid.clone())
            .or_else(|| files.and_then(|f| f.uuid.clone()))
            .or(amd.uuid)
            .or(gpu.uuid),
        model: told
            .and_then(|t| t.model.clone())
            .or_else(|| files.and_then(|f| f.model.clone()))
            .or(amd.model)
            .or(gpu.model),
        minor: told.and_then(|t| t.minor).or_else(|| files.and_then(|f| f.minor)),
        mig: told.map(|t| t.mig.clone()).unwrap_or_default(),
        locality,
        bridges,
        root,
        ..gpu
    }
}

/// RDMA devices from /sys, which knows link layer and rate; hwloc's where /sys has none.
fn nics(machine: &mut Machine, near: &Near<'_>) {
    let Some(devices) = near.tree.rdma_devices() else { return };
    machine.nics = devices.into_iter().map(|(name, device)| nic(name, device, near, machine)).collect();
}

fn nic(name: String, device: RdmaDevice, near: &Near<'_>, machine: &Machine) -> Nic {
    let spot = device.pci.map(|address| near.place(address, None, machine));
    let Spot { locality, bridges, root } = spot.unwrap_or_default();
    Nic { name, pci: device.pci, locality, ports: device.ports, bridges, root }
}

#[cfg(test)]
mod tests;
