//! Which release of Slurm is loading this file. The tests' stand-in for another plugin has this module, too.
#![allow(unsafe_code, reason = "libslurm itself is asked")]

use std::ffi::{c_char, c_long, c_void};

/// A release as Slurm writes it into a plugin: major, minor and micro as decimal digits in one byte each, written in
/// hexadecimal (22.05.8 is `0x160508`).
pub(crate) const fn release(major: u32, minor: u32) -> u32 {
    (major << 16) | (minor << 8)
}

/// The release that is loading us; `None` for one that we do not know.
pub(crate) fn of_loader() -> Option<u32> {
    // SAFETY: the name is a C string. libslurm is loaded already: it is what opens us.
    let symbol = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"slurm_api_version".as_ptr().cast::<c_char>()) };
    if symbol.is_null() {
        return None;
    }
    // SAFETY: `long slurm_api_version(void)` in slurm.h of every release.
    let api_version = unsafe { std::mem::transmute::<*mut c_void, extern "C" fn() -> c_long>(symbol) };
    of_api(api_version())
}

/// The release whose libslurm has this API version (`SLURM_API_CURRENT` of META, in the upper 16 bits).
fn of_api(api_version: c_long) -> Option<u32> {
    let (major, minor) = match api_version >> 16 {
        38 => (22, 5),
        39 => (23, 2),
        40 => (23, 11),
        41 => (24, 5),
        42 => (24, 11),
        43 => (25, 5),
        44 => (25, 11),
        45 => (26, 5),
        _ => return None,
    };
    Some(release(major, minor))
}
