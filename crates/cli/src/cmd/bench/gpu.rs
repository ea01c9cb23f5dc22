//! Copies from pinned memory to each GPU.

use super::cuda::{CudaError, Driver};
use super::measure::{in_turns, possible};
use super::places::around;
use super::{Row, share};
use crate::{output, words};
use gpu_tune_engine::text::chain;
use gpu_tune_engine::{Code, CpuSet, Machine, Notice};
use std::path::Path;
use std::time::{Duration, Instant};

/// How often the block is copied in a sample.
const COPIES: u32 = 4;
/// How often eight bytes are copied in a sample.
const SMALL: u32 = 200;

/// One row for each GPU that CUDA shows and that has an allowed CPU near.
pub(super) fn measure(
    library: &Path,
    machine: &Machine,
    allowed: &CpuSet,
    bytes: usize,
    total: Duration,
) -> Result<Vec<Row>, CudaError> {
    let driver = Driver::open(library)?;
    let (mut work, mut refused) = (Vec::new(), Vec::new());
    for (index, gpu) in machine.gpus.iter().enumerate() {
        let near = gpu.locality.as_ref().map(|near| &near.cpus).unwrap_or(&machine.cpus);
        match (driver.device(gpu.pci), around(machine, near, allowed)) {
            (Ok(device), Some(places)) => {
                let name = format!("GPU {index} {} {}", gpu.pci, words::model(gpu));
                work.push((name, device, possible(places, &mut refused)));
            }
            (Err(error), _) => output::warn(&skipped(index, &error.to_string())),
            (_, None) => output::warn(&skipped(index, "no allowed CPU is near it")),
        }
    }
    let budget = share(total, work.len());
    let row = |(name, device, places): (String, _, _)| {
        let [bandwidth, latency] = in_turns(&places, budget, || sample(&driver, device, bytes))?;
        Ok(Row { name, bandwidth, latency: Some(latency) })
    };
    let rows: Vec<Row> = work.into_iter().map(row).collect::<Result<_, CudaError>>()?;
    if rows.is_empty() { Err(CudaError::NoDevice) } else { Ok(rows) }
}

/// Bytes per second, and seconds for eight bytes.
fn sample(driver: &Driver, device: super::cuda::Device, bytes: usize) -> Result<[f64; 2], CudaError> {
    let copies = driver.buffers(device, bytes)?;
    copies.upload(bytes)?;
    let start = Instant::now();
    for _ in 0..COPIES {
        copies.upload(bytes)?;
    }
    let seconds = start.elapsed().as_secs_f64();
    let start = Instant::now();
    for _ in 0..SMALL {
        copies.upload(8)?;
    }
    let small = start.elapsed().as_secs_f64() / f64::from(SMALL);
    #[expect(clippy::cast_precision_loss, reason = "at most 4 GiB, and 2^53 would still be exact")]
    let total = bytes as f64 * f64::from(COPIES);
    Ok([total / seconds, small])
}

fn skipped(index: usize, why: &str) -> Notice {
    Notice::new(Code::Discovery, format!("GPU {index} is not measured: {why}"))
}

/// Why memory is measured instead.
pub(super) fn not_measured(error: &CudaError) -> Notice {
    Notice::new(Code::Discovery, format!("no GPU can be measured, so memory is: {}", chain(error)))
}
