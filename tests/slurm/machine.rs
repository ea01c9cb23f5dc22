//! The machine that the tests describe: this host's CPUs, one NUMA node, and GPUs each of which is near a single core, not the
//! one that Slurm gives to the task of that number.

use gpu_tune_engine::machine::{Core, Gpu, Locality, LocalitySource, Machine, NumaNode, Package, Vendor};
use gpu_tune_engine::snapshot::{self, Key};
use gpu_tune_engine::{CpuSet, NodeSet};
use std::path::Path;

/// CPUs that are online here.
pub fn online() -> CpuSet {
    std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap().parse().unwrap()
}

/// How many.
pub fn online_cpus() -> u32 {
    u32::try_from(online().len()).unwrap()
}

/// GPU n has the PCI address 0000:1n:00.0, the UUID GPU-0000000n-… and the device node /dev/nvidiaN.
pub fn described(gpus: u32) -> Machine {
    let cpus = online();
    let numbers: Vec<u32> = cpus.iter().collect();
    let near = |gpu: u32| Locality {
        cpus: CpuSet::from_iter([numbers[(gpu as usize + 1) % numbers.len()]]),
        nodes: NodeSet::from_iter([0]),
        source: LocalitySource::Hwloc,
    };
    let gpu = |number: u32| Gpu {
        pci: format!("0000:{:02x}:00.0", 0x10 + number).parse().unwrap(),
        vendor: Vendor::Nvidia,
        uuid: Some(format!("GPU-{number:08x}-1111-2222-3333-444444444444")),
        model: Some("NVIDIA H200".to_owned()),
        minor: Some(number),
        mig: Vec::new(),
        locality: Some(near(number)),
        bridges: Vec::new(),
        root: None,
    };
    Machine {
        packages: vec![Package { cpus: cpus.clone() }],
        numa: vec![NumaNode { id: 0, cpus: cpus.clone(), memory_bytes: Some(1 << 32), gpu_memory: false }],
        cores: cpus.iter().map(|cpu| Core { pus: CpuSet::from_iter([cpu]), highest_perf: None }).collect(),
        gpus: (0..gpus).map(gpu).collect(),
        cpus,
        ..Machine::default()
    }
}

/// The same as a snapshot file's text, for `topology=`.
pub fn snapshot(gpus: u32) -> String {
    snapshot::encode(&described(gpus), &Key::of_this_host(Path::new("/")))
}
