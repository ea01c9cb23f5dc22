//! The machine that the tests describe: this host's CPUs, one NUMA node, and GPUs each of which is near a single core,
//! not the one that Slurm gives to the task of that number.

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

/// Sockets, cores of each and hardware threads of each core, as the kernel shows them.
pub fn shape() -> (u32, u32, u32) {
    let count = |path: &str| {
        let list = std::fs::read_to_string(format!("/sys/devices/system/cpu/cpu0/topology/{path}")).unwrap();
        u32::try_from(list.parse::<CpuSet>().unwrap().len()).unwrap()
    };
    let (package, threads) = (count("package_cpus_list"), count("thread_siblings_list"));
    (online_cpus() / package, package / threads, threads)
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
        uuid: Some(format!("GPU-{number:08x}-1111-2222-3333-444444444444")),
        model: Some("NVIDIA H200".to_owned()),
        minor: Some(number),
        locality: Some(near(number)),
        ..Gpu::new(format!("0000:{:02x}:00.0", 0x10 + number).parse().unwrap(), Vendor::Nvidia)
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

/// Two sockets with 32 cores of two threads, four GPUs on each.
pub fn eight_gpus() -> Machine {
    two_sockets(32)
}

/// Two sockets with that many cores of two threads, four GPUs on each.
pub fn two_sockets(cores: u32) -> Machine {
    let threads = |core: u32| CpuSet::from_iter([core, core + cores * 2]);
    let socket = |number: u32| -> CpuSet {
        (number * cores..(number + 1) * cores).flat_map(|core| [core, core + cores * 2]).collect()
    };
    let numa = |id: u32| NumaNode { id, cpus: socket(id), memory_bytes: Some(1 << 40), gpu_memory: false };
    let mut machine = described(8);
    for (number, gpu) in (0..).zip(&mut machine.gpus) {
        let cpus = socket(number / 4);
        gpu.locality = Some(Locality { cpus, nodes: NodeSet::from_iter([number / 4]), source: LocalitySource::Hwloc });
    }
    Machine {
        cpus: (0..cores * 4).collect(),
        packages: [0, 1].map(|number| Package { cpus: socket(number) }).to_vec(),
        numa: vec![numa(0), numa(1)],
        cores: (0..cores * 2).map(|core| Core { pus: threads(core), highest_perf: None }).collect(),
        ..machine
    }
}

/// A machine as a snapshot file's text, for `topology=`.
pub fn text(machine: &Machine) -> String {
    snapshot::encode(machine, &Key::of_this_host(Path::new("/")))
}
