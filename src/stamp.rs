//! What Slurm reads from a plugin file before it runs anything of it: name, type, and the release it was made for.
//!
//! Slurm takes a SPANK plugin only if the major and minor part of `plugin_version` equal its own. It reads the symbol with
//! `dlsym` after `dlopen`, so after the file's constructors ran: one of them finds out which release is loading us and
//! stores it. That makes one file serve every release, and an upgrade of Slurm needs no rebuild. Under a release that we do
//! not know the stamp stays that of none, and Slurm refuses the plugin in its usual words.
#![allow(unsafe_code, reason = "symbols that Slurm looks up by name")]
#![allow(non_upper_case_globals, reason = "Slurm gives these names")]

use crate::release;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, Ordering};

/// The name in Slurm's messages, and a part of the variable that stands for the option.
#[unsafe(no_mangle)]
pub static plugin_name: [u8; 9] = *b"gpu_tune\0";

/// The kind of plugin.
#[unsafe(no_mangle)]
pub static plugin_type: [u8; 6] = *b"spank\0";

/// The release, see [`release`]; 0, which no Slurm is, until the file is loaded.
#[unsafe(no_mangle)]
pub static plugin_version: AtomicU32 = AtomicU32::new(0);

/// On a `required` line a failing `init` shall end the job, not drain the node (Slurm 25.05 and later read this symbol;
/// `ESPANK_JOB_FAILURE` of slurm_errno.h). Our `init` does not fail; Slurm's own handling of our file may.
#[unsafe(no_mangle)]
pub static slurm_spank_init_failure_mode: c_int = 3012;

#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = stamp;

extern "C" fn stamp() {
    if let Some(known) = release::of_loader() {
        plugin_version.store(known, Ordering::Relaxed);
    }
}

/// The release that was found at load, as (major, minor).
pub(crate) fn found() -> (u16, u16) {
    let [_, major, minor, _] = plugin_version.load(Ordering::Relaxed).to_be_bytes();
    (major.into(), minor.into())
}
