//! Which GPU instance and compute instance a MIG device is: the one thing asked of NVML that nvml-wrapper has no call for.
#![allow(unsafe_code, reason = "nvml-wrapper 0.13 gives the C functions, but no safe call around them")]

use nvml_wrapper::Device;
use std::ffi::c_uint;

/// GPU instance and compute instance of a MIG device; `None` each where this NVML cannot tell.
pub(super) fn of(device: &Device<'_>) -> (Option<u32>, Option<u32>) {
    let library = device.nvml().lib();
    // SAFETY: `device` borrows the initialised NVML that made its handle, so the handle is valid while we use it here.
    let handle = unsafe { device.handle() };
    let gi = library.nvmlDeviceGetGpuInstanceId.as_ref().ok();
    let ci = library.nvmlDeviceGetComputeInstanceId.as_ref().ok();
    (gi.and_then(|call| ask(handle, *call)), ci.and_then(|call| ask(handle, *call)))
}

/// Calls one of NVML's functions that write a number about a device and return 0 when they did.
fn ask<Handle>(handle: Handle, call: unsafe extern "C" fn(Handle, *mut c_uint) -> c_uint) -> Option<u32> {
    let mut id: c_uint = 0;
    // SAFETY: `of`, the only caller, passes NVML's own function, from a library that stays loaded, and a valid handle.
    let code = unsafe { call(handle, &raw mut id) };
    (code == 0).then_some(id)
}
