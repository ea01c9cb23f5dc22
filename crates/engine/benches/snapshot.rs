//! How long a step waits for its snapshot: the key that says whether it is this machine's, and reading it.
//!
//! `cargo bench -p gpu-tune-engine --bench snapshot`

use criterion::{BenchmarkId, Criterion};
use gpu_tune_engine::machine::{Core, Gpu, Locality, LocalitySource, NumaNode, Package, Vendor};
use gpu_tune_engine::snapshot::{self, Key};
use gpu_tune_engine::{CpuSet, Machine, PciAddress};
use std::hint::black_box;
use std::path::Path;

/// A machine of two packages with four NUMA nodes each and two threads per core.
fn machine(cpus: u32, gpus: u32) -> Machine {
    let cores = cpus / 2;
    let threads = |first: u32, last: u32| -> CpuSet { (first..last).flat_map(|core| [core, core + cores]).collect() };
    let part = |number: u32, parts: u32| threads(cores * number / parts, cores * (number + 1) / parts);
    let address =
        |number: u32| PciAddress { domain: 0, bus: u8::try_from(number * 8).unwrap_or(0), device: 0, function: 0 };
    let gpu = |number: u32| Gpu {
        uuid: Some(format!("GPU-00000000-0000-0000-0000-{number:012}")),
        model: Some("NVIDIA H200".into()),
        minor: Some(number),
        locality: Some(Locality {
            cpus: part(number % 8, 8),
            nodes: [number % 8].into_iter().collect(),
            source: LocalitySource::Hwloc,
        }),
        root: Some(format!("pci0000:{:02x}", number * 8)),
        ..Gpu::new(address(number), Vendor::Nvidia)
    };
    let node = |id| NumaNode { id, cpus: part(id, 8), memory_bytes: Some(96 << 30), gpu_memory: false };
    Machine {
        cpus: (0..cpus).collect(),
        packages: (0..2).map(|number| Package { cpus: part(number, 2) }).collect(),
        numa: (0..8).map(node).collect(),
        cores: (0..cores).map(|core| Core { pus: threads(core, core + 1), highest_perf: Some(200) }).collect(),
        gpus: (0..gpus).map(gpu).collect(),
        ..Machine::default()
    }
}

fn reading(criterion: &mut Criterion) {
    let directory = std::env::temp_dir().join(format!("gpu-tune-bench-{}", std::process::id()));
    let key = Key::of_this_host(Path::new("/"));
    let mut group = criterion.benchmark_group("snapshot");
    for (cpus, gpus) in [(64, 4), (256, 8), (1024, 16)] {
        let machine = machine(cpus, gpus);
        let text = snapshot::encode(&machine, &key);
        let name = |what| BenchmarkId::new(what, format!("{cpus} CPUs, {} KiB", text.len() / 1024));
        group.bench_function(name("encode"), |bench| bench.iter(|| snapshot::encode(black_box(&machine), &key)));
        group.bench_function(name("decode"), |bench| bench.iter(|| snapshot::decode(black_box(text.as_bytes()))));
        if snapshot::store(&directory, &machine, &key).is_ok() {
            group.bench_function(name("load"), |bench| bench.iter(|| snapshot::load(&directory, &key)));
        }
    }
    group.finish();
    let _ = std::fs::remove_dir_all(&directory);
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    criterion.bench_function("key of this host", |bench| bench.iter(|| Key::of_this_host(Path::new("/"))));
    reading(&mut criterion);
    criterion.final_summary();
}
