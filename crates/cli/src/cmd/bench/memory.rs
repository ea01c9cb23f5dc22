//! Copies within memory: what a NUMA node's cores get from near and from far memory.

use super::measure::{in_turns, possible};
use super::places::around;
use super::{Row, share};
use gpu_tune_engine::machine::NumaNode;
use gpu_tune_engine::{CpuSet, Machine};
use std::hint::black_box;
use std::io;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

/// More threads than this do not get more out of a memory controller.
const THREADS: usize = 16;
/// How often the block is copied in a sample.
const COPIES: u32 = 4;

/// One row for each node that has memory and an allowed CPU.
pub(super) fn measure(machine: &Machine, allowed: &CpuSet, bytes: usize, total: Duration) -> io::Result<Vec<Row>> {
    let mut refused = Vec::new();
    let work = |node: &NumaNode| {
        let places = possible(around(machine, &node.cpus, allowed)?, &mut refused);
        Some((node.id, places, cores(machine, &(&node.cpus & allowed))))
    };
    let nodes: Vec<_> = machine.numa.iter().filter_map(work).collect();
    let budget = share(total, nodes.len());
    let row = |(node, places, cores): &(u32, _, usize)| {
        let threads = (*cores).clamp(1, THREADS);
        let [bandwidth] = in_turns(places, budget, || copy(threads, bytes / threads).map(|rate| [rate]))?;
        Ok(Row { name: format!("NUMA {node}, {threads} threads"), bandwidth, latency: None })
    };
    nodes.iter().map(row).collect()
}

fn cores(machine: &Machine, cpus: &CpuSet) -> usize {
    machine.cores.iter().filter(|core| !core.pus.is_disjoint(cpus)).count()
}

/// Bytes read and written per second by threads that inherit the caller's mask and policy.
fn copy(threads: usize, bytes: usize) -> io::Result<f64> {
    let barrier = Barrier::new(threads + 1);
    thread::scope(|scope| {
        let work = || {
            // Written, so that the pages are there, under this thread's policy.
            let from = vec![1_u8; bytes.max(1)];
            let mut to = vec![2_u8; bytes.max(1)];
            barrier.wait();
            for _ in 0..COPIES {
                to.copy_from_slice(black_box(&from));
                black_box(&mut to);
            }
            barrier.wait();
        };
        for _ in 0..threads {
            thread::Builder::new().spawn_scoped(scope, work)?;
        }
        barrier.wait();
        let start = Instant::now();
        barrier.wait();
        let seconds = start.elapsed().as_secs_f64();
        Ok(2.0 * real(bytes) * real(threads) * f64::from(COPIES) / seconds)
    })
}

/// Sizes here are far below the 2^53 up to which this is exact.
#[expect(clippy::cast_precision_loss, reason = "a size as a factor of a rate")]
fn real(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copying_has_a_rate() {
        let rate = copy(2, 1 << 20).unwrap();
        assert!(rate > 1e6 && rate.is_finite(), "{rate}");
    }
}
