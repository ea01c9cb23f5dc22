//! A stand-in for pyxis: a SPANK plugin that gives a task an image's environment and another view of the files. See README.md
//! beside Cargo.toml.
#![allow(unsafe_code, reason = "SPANK is a C interface")]

#[path = "../../../src/release.rs"]
mod release;

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::atomic::{AtomicU32, Ordering};

/// The name in Slurm's messages.
#[unsafe(no_mangle)]
pub static plugin_name: [u8; 11] = *b"fake_pyxis\0";

/// The kind of plugin.
#[unsafe(no_mangle)]
pub static plugin_type: [u8; 6] = *b"spank\0";

/// The release that loads the file.
#[unsafe(no_mangle)]
pub static plugin_version: AtomicU32 = AtomicU32::new(0);

#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = stamp;

extern "C" fn stamp() {
    if let Some(release) = release::of_loader() {
        plugin_version.store(release, Ordering::Relaxed);
    }
}

unsafe extern "C" {
    fn spank_setenv(spank: *mut c_void, name: *const c_char, value: *const c_char, overwrite: c_int) -> c_int;
}

/// Called by Slurm in each task, just before its command.
///
/// # Safety
/// `spank` is Slurm's handle, `argv` its `argc` words of plugstack.conf.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn slurm_spank_task_init(spank: *mut c_void, argc: c_int, argv: *const *const c_char) -> c_int {
    let words = (0..usize::try_from(argc).unwrap_or(0)).map(|at| {
        // SAFETY: Slurm passes `argc` pointers.
        let word = unsafe { argv.add(at) };
        // SAFETY: as above; the pointer leads to the pointer of one word.
        let word = unsafe { *word };
        // SAFETY: each is a C string that lives while the hook runs.
        unsafe { CStr::from_ptr(word) }.to_string_lossy().into_owned()
    });
    for word in words {
        match word.split_once('=') {
            // The image is read first: pyxis has it before it moves the task.
            Some(("image", file)) => image(spank, file),
            Some(("hide", dirs)) => hide(dirs),
            _ => {}
        }
    }
    0
}

fn image(spank: *mut c_void, file: &str) {
    for line in std::fs::read_to_string(file).unwrap_or_default().lines() {
        let Some((name, value)) = line.split_once('=') else { continue };
        let (Ok(name), Ok(value)) = (CString::new(name), CString::new(value)) else { continue };
        // SAFETY: Slurm's own handle, and two C strings that it copies.
        unsafe { spank_setenv(spank, name.as_ptr(), value.as_ptr(), 1) };
    }
}

fn hide(dirs: &str) {
    // SAFETY: no argument is a pointer.
    unsafe { libc::unshare(libc::CLONE_NEWNS) };
    mount(c"none", c"/", std::ptr::null(), libc::MS_REC | libc::MS_PRIVATE);
    for dir in dirs.split(',').filter_map(|dir| CString::new(dir).ok()) {
        mount(c"fake-image", &dir, c"tmpfs".as_ptr(), 0);
    }
}

fn mount(source: &CStr, target: &CStr, kind: *const c_char, flags: libc::c_ulong) {
    // SAFETY: C strings, or no string where the kernel looks at none.
    unsafe { libc::mount(source.as_ptr(), target.as_ptr(), kind, flags, std::ptr::null()) };
}
