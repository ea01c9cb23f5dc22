//! How long a plan takes, and how that grows with CPUs and GPUs. `cargo bench -p gpu-tune-engine --features testing`.
//!
//! The budget is 1 ms for 8 GPUs on 256 CPUs and 5 ms for 16 GPUs on 1024 CPUs, all tasks included.
#![expect(missing_docs, reason = "criterion's macros write public functions")]

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use gpu_tune_engine::Machine;
use gpu_tune_engine::machine::testing::{Shape, with_gpus};
use gpu_tune_engine::plan::{Layout, Own, Request, TaskPlan};
use std::hint::black_box;

/// Packages of four NUMA nodes with 32 or, for small machines, 8 cores of two threads; GPUs on the odd nodes.
fn machine(cpus: u32, gpus: u32) -> Machine {
    let cores = if cpus < 256 { 8 } else { 16 };
    let shape = Shape { packages: (cpus / (cores * 8)).max(1), nodes: 4, cores, smt: 2 };
    let nodes: Vec<[u32; 1]> = (0..gpus).map(|gpu| [(2 * gpu + 1) % (4 * shape.packages)]).collect();
    with_gpus(shape.machine(), &nodes.iter().map(<[u32; 1]>::as_slice).collect::<Vec<_>>())
}

fn request(machine: &Machine) -> Request {
    let gpus: Vec<usize> = (0..machine.gpus.len()).collect();
    Request { tasks: u32::try_from(gpus.len()).unwrap_or(1), gpus, cpus: machine.cpus.clone(), ..Request::default() }
}

/// What a step costs: the layout once, and every task's selection.
fn plan(machine: &Machine, request: &Request) -> Vec<TaskPlan> {
    let layout = Layout::new(machine, request);
    (0..request.tasks).map(|id| layout.task(id, Own::All)).collect()
}

fn grid(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("plan");
    for cpus in [64, 256, 1024, 4096] {
        for gpus in [1, 4, 8, 16] {
            let machine = machine(cpus, gpus);
            assert_eq!(machine.cpus.len(), usize::try_from(cpus).unwrap_or(0), "the machine has the size of its name");
            let request = request(&machine);
            let id = BenchmarkId::from_parameter(format!("{gpus} GPUs, {cpus} CPUs"));
            group.bench_function(id, |bencher| bencher.iter(|| plan(black_box(&machine), black_box(&request))));
        }
    }
}

/// A task's own part, made after the fork.
fn task(criterion: &mut Criterion) {
    let machine = machine(256, 8);
    let layout = Layout::new(&machine, &request(&machine));
    criterion.bench_function("one task of 8 GPUs, 256 CPUs", |bencher| {
        bencher.iter(|| black_box(&layout).task(black_box(5), Own::All));
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(50).measurement_time(std::time::Duration::from_secs(2));
    targets = grid, task
}
criterion_main!(benches);
