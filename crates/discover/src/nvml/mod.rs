//! What NVML tells of the GPUs, within a deadline.
//!
//! NVML can hang: on a GPU that fell off the bus, on a driver that is being replaced. It therefore runs in a thread that is
//! left behind when time is up, and each GPU is handed over as soon as it is read, so that one bad GPU does not cost the
//! others. The thread ends with the process, which is `gpu-tune`'s own and short. Every failure is a sentence, not an
//! error: the driver's files and /sys tell most of it too.

mod instance;

use gpu_tune_engine::machine::MigDevice;
use gpu_tune_engine::{CpuSet, IdSet, NodeSet, PciAddress};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};
use std::ffi::c_ulong;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// `NVML_AFFINITY_SCOPE_NODE`: the NUMA node rather than the package.
const SCOPE_NODE: u32 = 0;

/// What NVML told.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) driver: Option<String>,
    pub(crate) gpus: Vec<GpuFacts>,
    /// What went wrong, a sentence each.
    pub(crate) troubles: Vec<String>,
    /// The library could not be loaded: normal on a node without GPUs.
    pub(crate) absent: bool,
}

/// One GPU as NVML knows it.
#[derive(Debug)]
pub(crate) struct GpuFacts {
    pub(crate) pci: PciAddress,
    pub(crate) uuid: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) minor: Option<u32>,
    pub(crate) mig: Vec<MigDevice>,
    /// CPU affinity; `None` when NVML does not know.
    pub(crate) cpus: Option<CpuSet>,
    /// Memory affinity: NUMA nodes near the GPU, not the GPU's own memory.
    pub(crate) nodes: Option<NodeSet>,
}

/// What the dynamic loader is asked for when nobody names a library.
pub(crate) const LIBRARY: &str = "libnvidia-ml.so.1";

/// What the reading thread sends.
enum Told {
    Driver(String),
    Gpu(GpuFacts),
    Trouble(String),
    Absent(String),
    End,
}

/// Asks the NVML at `library` (a path, or a name for the dynamic loader), for at most `deadline`. `cpus` is one more than
/// the highest CPU number: affinity masks must be long enough for it.
pub(crate) fn read(library: &Path, deadline: Duration, cpus: u32) -> Facts {
    let (sender, receiver) = channel();
    let name = library.to_path_buf();
    // Not joined: a thread that hangs inside NVML cannot be ended.
    let reader = std::thread::Builder::new().name("nvml".into()).spawn(move || report(&name, cpus, &sender));
    match reader {
        Ok(_) => collect(&receiver, library, deadline),
        Err(error) => Facts { troubles: vec![format!("no thread for NVML: {error}")], ..Facts::default() },
    }
}

fn collect(receiver: &Receiver<Told>, library: &Path, deadline: Duration) -> Facts {
    let mut facts = Facts::default();
    let end = Instant::now() + deadline;
    loop {
        match receiver.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(Told::Driver(version)) => facts.driver = Some(version),
            Ok(Told::Gpu(gpu)) => facts.gpus.push(gpu),
            Ok(Told::Trouble(text)) => facts.troubles.push(text),
            Ok(Told::Absent(text)) => {
                facts.troubles.push(text);
                facts.absent = true;
            }
            Ok(Told::End) => return facts,
            Err(RecvTimeoutError::Timeout) => {
                let seconds = deadline.as_secs_f32();
                facts.troubles.push(format!("NVML (`{}`) did not answer within {seconds} s", library.display()));
                return facts;
            }
            Err(RecvTimeoutError::Disconnected) => {
                facts.troubles.push(format!("reading NVML (`{}`) ended unexpectedly", library.display()));
                return facts;
            }
        }
    }
}

/// Runs in the thread. The receiver may be gone by the time something is sent: then nobody wants it any more.
fn report(library: &Path, cpus: u32, to: &Sender<Told>) {
    // nvml-wrapper panics where a library lacks a function that it thinks every NVML has.
    let outcome = catch_unwind(AssertUnwindSafe(|| ask(library, cpus, to)));
    let trouble = match outcome {
        Ok(Ok(())) => None,
        Ok(Err(error @ (NvmlError::LibloadingError(_) | NvmlError::LibraryNotFound))) => {
            let text = format!("NVML cannot be loaded: {error}");
            // One that somebody named should be there.
            let usual = library == Path::new(LIBRARY);
            Some(if usual { Told::Absent(text) } else { Told::Trouble(text) })
        }
        Ok(Err(error)) => Some(Told::Trouble(format!("NVML (`{}`): {error}", library.display()))),
        Err(_) => Some(Told::Trouble(format!("`{}` is not a complete NVML", library.display()))),
    };
    for told in trouble.into_iter().chain([Told::End]) {
        let _ = to.send(told);
    }
}

fn ask(library: &Path, cpus: u32, to: &Sender<Told>) -> Result<(), NvmlError> {
    let nvml = Nvml::builder().lib_path(library.as_os_str()).init()?;
    if let Ok(version) = nvml.sys_driver_version() {
        let _ = to.send(Told::Driver(version));
    }
    for index in 0..nvml.device_count()? {
        let told = match nvml.device_by_index(index).and_then(|device| gpu(&device, cpus)) {
            Ok(gpu) => Told::Gpu(gpu),
            Err(error) => Told::Trouble(format!("NVML device {index}: {error}")),
        };
        let _ = to.send(told);
    }
    Ok(())
}

/// A GPU without an address cannot be told from others: that is an error. All else may be unknown.
fn gpu(device: &Device<'_>, cpus: u32) -> Result<GpuFacts, NvmlError> {
    let pci = device.pci_info()?.bus_id.parse().map_err(|_| NvmlError::GetPciInfoFailed)?;
    Ok(GpuFacts {
        pci,
        uuid: device.uuid().ok().filter(|uuid| !uuid.is_empty() && !uuid.contains('?')),
        model: device.name().ok().filter(|name| !name.is_empty()),
        minor: device.minor_number().ok(),
        mig: mig_devices(device),
        cpus: near_cpus(device, words(cpus)),
        nodes: device
            .memory_affinity(words(cpus), SCOPE_NODE)
            .ok()
            .map(|mask| ids(&mask))
            .filter(|set| !set.is_empty()),
    })
}

/// The CPUs of the GPU's NUMA node; drivers before 450 only know the older call.
fn near_cpus(device: &Device<'_>, words: usize) -> Option<CpuSet> {
    let mask = device.cpu_affinity_within_scope(words, SCOPE_NODE).or_else(|_| device.cpu_affinity(words)).ok()?;
    Some(ids(&mask)).filter(|set| !set.is_empty())
}

/// The MIG devices of a GPU. Their numbers have gaps: NVML says "not found" for those.
fn mig_devices(device: &Device<'_>) -> Vec<MigDevice> {
    let enabled = device.mig_mode().is_ok_and(|mode| mode.current == 1);
    let slots = if enabled { device.mig_device_count().unwrap_or(0) } else { 0 };
    (0..slots).filter_map(|index| mig_device(&device.mig_device_by_index(index).ok()?)).collect()
}

fn mig_device(device: &Device<'_>) -> Option<MigDevice> {
    let (gi, ci) = instance::of(device);
    Some(MigDevice { uuid: device.uuid().ok()?, gi, ci })
}

/// How many words a mask of that many bits takes; at least 1024 bits, since NVML may cut what does not fit.
fn words(bits: u32) -> usize {
    (bits.max(1024) as usize).div_ceil(c_ulong::BITS as usize)
}

/// The bits that are set, counted from the first word's lowest.
fn ids(mask: &[c_ulong]) -> IdSet {
    let bits = (0..).zip(mask).flat_map(|(word, bits)| (0..c_ulong::BITS).map(move |bit| (word, bits, bit)));
    bits.filter(|(_, bits, bit)| *bits >> bit & 1 == 1).map(|(word, _, bit)| word * c_ulong::BITS + bit).collect()
}

#[cfg(test)]
mod tests;
