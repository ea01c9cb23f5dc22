//! A stand-in for `libnvidia-ml.so.1`: NVML's functions, answering from a JSON file. See README.md beside Cargo.toml.
//!
//! A device handle is a number: the GPU's index plus one in the upper bits, the MIG slot plus one in the lowest byte.
#![allow(unsafe_code, reason = "it is a C library, called with the caller's buffers")]

mod install;
mod node;

pub use install::install;

use node::{Code, Gpu, Mig, Node};
use std::ffi::{CStr, c_char, c_uint, c_ulong, c_void};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The node that `nvmlInit_v2` read.
static NODE: Mutex<Option<Arc<Node>>> = Mutex::new(None);

type Handle = usize;
type Answer = Result<(), Code>;

/// `nvmlPciInfo_t` of nvml.h.
#[repr(C)]
#[derive(Debug)]
pub struct PciInfo {
    legacy: [c_char; 16],
    domain: c_uint,
    bus: c_uint,
    device: c_uint,
    device_id: c_uint,
    subsystem_id: c_uint,
    id: [c_char; 32],
}

/// Answers a call, unless the file wants it to fail or to hang.
fn answer(function: &str, handle: Option<Handle>, work: impl FnOnce(&Node) -> Answer) -> c_uint {
    let node = NODE.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let Some(node) = node else { return Code::Uninitialized as c_uint };
    let gpu = handle.and_then(|handle| gpu_of(&node, handle).ok());
    let hang = |name: &Option<String>| name.as_deref() == Some(function);
    while hang(&node.hang) || gpu.is_some_and(|gpu| hang(&gpu.hang)) {
        std::thread::sleep(Duration::from_secs(3600));
    }
    let error = gpu.and_then(|gpu| gpu.errors.get(function)).or_else(|| node.errors.get(function));
    let outcome = error.map_or_else(|| work(&node), |code| Err(*code));
    outcome.err().map_or(0, |code| code as c_uint)
}

fn gpu_of(node: &Node, handle: Handle) -> Result<&Gpu, Code> {
    (handle >> 8).checked_sub(1).and_then(|index| node.gpus.get(index)).ok_or(Code::InvalidArgument)
}

fn mig_of(node: &Node, handle: Handle) -> Result<&Mig, Code> {
    let slot = (handle & 0xff).checked_sub(1).ok_or(Code::InvalidArgument)?;
    gpu_of(node, handle)?.mig.get(slot).and_then(Option::as_ref).ok_or(Code::InvalidArgument)
}

/// Writes through a caller's pointer.
fn put<T>(to: *mut T, value: T) -> Answer {
    if to.is_null() {
        return Err(Code::InvalidArgument);
    }
    // SAFETY: not null; NVML's callers pass a pointer to a value of this type that they own.
    unsafe { to.write(value) };
    Ok(())
}

fn put_text(to: *mut c_char, size: c_uint, text: &str) -> Answer {
    if text.len() >= size as usize {
        return Err(Code::InsufficientSize);
    }
    text.bytes().chain([0]).enumerate().try_for_each(|(at, byte)| put(to.wrapping_add(at), byte as c_char))
}

/// Writes a mask of `size` words; ids beyond it are cut off, as NVML does.
fn put_mask(to: *mut c_ulong, size: c_uint, set: Option<&gpu_tune_engine::IdSet>) -> Answer {
    let set = set.ok_or(Code::NotSupported)?;
    (0..size).try_for_each(|word| {
        let first = word * c_ulong::BITS;
        let bits = (0..c_ulong::BITS).filter(|bit| set.contains(first + bit));
        put(to.wrapping_add(word as usize), bits.fold(0, |mask, bit| mask | 1 << bit))
    })
}

/// The file that describes the node.
fn description() -> Option<PathBuf> {
    let beside = || {
        let mut path = own_path()?.into_os_string();
        path.push(".json");
        Some(path.into())
    };
    std::env::var_os("FAKE_NVML").map(PathBuf::from).or_else(beside)
}

/// Where this library was loaded from.
fn own_path() -> Option<PathBuf> {
    // SAFETY: Dl_info is plain data, for which zeroes are valid.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    let here = nvmlShutdown as extern "C" fn() -> c_uint as *const c_void;
    // SAFETY: `here` is an address in this library, `info` a place for the answer.
    let found = unsafe { libc::dladdr(here, &raw mut info) };
    if found == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: dladdr gave a string that lives as long as the library is loaded.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    name.to_str().ok().map(PathBuf::from)
}

fn load() -> Result<Node, Code> {
    let path = description().filter(|path| path.exists()).ok_or(Code::DriverNotLoaded)?;
    let text = std::fs::read(&path).map_err(|_| Code::Unknown)?;
    serde_json::from_slice(&text).map_err(|error| {
        #[expect(clippy::print_stderr, reason = "whoever wrote the file must learn where it is wrong")]
        {
            eprintln!("fake-nvml: {}: {error}", path.display());
        }
        Code::Unknown
    })
}

/// Starts NVML: reads the file.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlInit_v2() -> c_uint {
    match load() {
        Ok(node) => {
            *NODE.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(node));
            answer("nvmlInit_v2", None, |_| Ok(()))
        }
        Err(code) => code as c_uint,
    }
}

/// Ends NVML.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlShutdown() -> c_uint {
    answer("nvmlShutdown", None, |_| Ok(()))
}

/// Version of the driver.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlSystemGetDriverVersion(to: *mut c_char, size: c_uint) -> c_uint {
    answer("nvmlSystemGetDriverVersion", None, |node| {
        put_text(to, size, node.driver.as_deref().ok_or(Code::NotSupported)?)
    })
}

/// Number of GPUs.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetCount_v2(to: *mut c_uint) -> c_uint {
    answer("nvmlDeviceGetCount_v2", None, |node| put(to, c_uint::try_from(node.gpus.len()).unwrap_or(0)))
}

/// A GPU's handle.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: c_uint, to: *mut Handle) -> c_uint {
    let handle = (index as usize + 1) << 8;
    answer("nvmlDeviceGetHandleByIndex_v2", Some(handle), |node| gpu_of(node, handle).and_then(|_| put(to, handle)))
}

/// A GPU's PCI address.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetPciInfo_v3(handle: Handle, to: *mut PciInfo) -> c_uint {
    answer("nvmlDeviceGetPciInfo_v3", Some(handle), |node| {
        let text = &gpu_of(node, handle)?.pci;
        let mut info =
            PciInfo { legacy: [0; 16], domain: 0, bus: 0, device: 0, device_id: 0, subsystem_id: 0, id: [0; 32] };
        put_text(info.id.as_mut_ptr(), 32, text)?;
        put(to, info)
    })
}

/// UUID of a GPU or of a MIG device.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetUUID(handle: Handle, to: *mut c_char, size: c_uint) -> c_uint {
    answer("nvmlDeviceGetUUID", Some(handle), |node| match mig_of(node, handle) {
        Ok(mig) => put_text(to, size, &mig.uuid),
        Err(_) => put_text(to, size, &gpu_of(node, handle)?.uuid),
    })
}

/// A GPU's product name.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetName(handle: Handle, to: *mut c_char, size: c_uint) -> c_uint {
    answer("nvmlDeviceGetName", Some(handle), |node| {
        put_text(to, size, gpu_of(node, handle)?.model.as_deref().ok_or(Code::NotSupported)?)
    })
}

/// N of /dev/nvidiaN.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetMinorNumber(handle: Handle, to: *mut c_uint) -> c_uint {
    answer("nvmlDeviceGetMinorNumber", Some(handle), |node| {
        let index = c_uint::try_from((handle >> 8) - 1).map_err(|_| Code::InvalidArgument);
        put(to, gpu_of(node, handle)?.minor.map_or(index, Ok)?)
    })
}

/// CPU affinity, the call of older drivers.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetCpuAffinity(handle: Handle, size: c_uint, to: *mut c_ulong) -> c_uint {
    answer("nvmlDeviceGetCpuAffinity", Some(handle), |node| put_mask(to, size, gpu_of(node, handle)?.cpus.as_ref()))
}

/// CPU affinity within a NUMA node or a package: here the same.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetCpuAffinityWithinScope(
    handle: Handle,
    size: c_uint,
    to: *mut c_ulong,
    _scope: c_uint,
) -> c_uint {
    let name = "nvmlDeviceGetCpuAffinityWithinScope";
    answer(name, Some(handle), |node| put_mask(to, size, gpu_of(node, handle)?.cpus.as_ref()))
}

/// Memory affinity.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetMemoryAffinity(
    handle: Handle,
    size: c_uint,
    to: *mut c_ulong,
    _scope: c_uint,
) -> c_uint {
    answer("nvmlDeviceGetMemoryAffinity", Some(handle), |node| put_mask(to, size, gpu_of(node, handle)?.nodes.as_ref()))
}

/// Whether MIG is on, now and after the next reset.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetMigMode(handle: Handle, current: *mut c_uint, pending: *mut c_uint) -> c_uint {
    answer("nvmlDeviceGetMigMode", Some(handle), |node| {
        let on = c_uint::from(!gpu_of(node, handle)?.mig.is_empty());
        put(current, on)?;
        put(pending, on)
    })
}

/// Number of MIG slots.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetMaxMigDeviceCount(handle: Handle, to: *mut c_uint) -> c_uint {
    answer("nvmlDeviceGetMaxMigDeviceCount", Some(handle), |node| {
        put(to, c_uint::try_from(gpu_of(node, handle)?.mig.len()).unwrap_or(0))
    })
}

/// The MIG device in a slot.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetMigDeviceHandleByIndex(handle: Handle, slot: c_uint, to: *mut Handle) -> c_uint {
    answer("nvmlDeviceGetMigDeviceHandleByIndex", Some(handle), |node| {
        let device = handle | (slot as usize + 1);
        mig_of(node, device).map_err(|_| Code::NotFound).and_then(|_| put(to, device))
    })
}

/// A MIG device's GPU instance.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetGpuInstanceId(handle: Handle, to: *mut c_uint) -> c_uint {
    answer("nvmlDeviceGetGpuInstanceId", Some(handle), |node| put(to, mig_of(node, handle)?.gi))
}

/// A MIG device's compute instance.
#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetComputeInstanceId(handle: Handle, to: *mut c_uint) -> c_uint {
    answer("nvmlDeviceGetComputeInstanceId", Some(handle), |node| put(to, mig_of(node, handle)?.ci))
}
