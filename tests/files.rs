//! The finished files, read as the loader reads them: what they export, what they need, and that all of Slurm's lazily bound
//! functions stay so.
#![cfg(test)]
#![allow(dead_code, reason = "the tests of the finished files need only a part of the harness")]

mod slurm;

use object::elf::{DF_1_NOW, DF_BIND_NOW};
use slurm::{artifacts, elf};

/// What Slurm looks up, and one symbol that the `slurm-spank` crate exports for its own macro; nobody calls it.
const EXPORTS: [&str; 10] = [
    "plugin_name",
    "plugin_type",
    "plugin_version",
    "slurm_spank_init",
    "slurm_spank_init_failure_mode",
    "slurm_spank_init_post_opt",
    "slurm_spank_task_init",
    "slurm_spank_task_init_privileged",
    "slurm_spank_user_init",
    "spank_option_callback",
];

/// libc, and the loader that comes with it (thread-local storage).
fn is_libc(library: &str) -> bool {
    library == "libc.so.6" || library.starts_with("ld-linux-")
}

fn read(name: &str) -> elf::File {
    elf::read(&artifacts::product(name))
}

#[test]
fn the_plugin_exports_what_slurm_looks_up_and_nothing_else() {
    let plugin = read("gpu_tune.so");
    assert_eq!(plugin.exports, EXPORTS.map(str::to_owned).into());
}

#[test]
fn the_plugin_needs_no_library_but_libc() {
    let plugin = read("gpu_tune.so");
    assert!(plugin.needs.contains(&"libc.so.6".to_owned()), "{:?}", plugin.needs);
    let more: Vec<_> = plugin.needs.iter().filter(|library| !is_libc(library)).collect();
    assert!(more.is_empty(), "{more:?}");
}

#[test]
fn the_plugin_can_be_loaded_where_some_of_slurms_functions_do_not_exist() {
    let plugin = read("gpu_tune.so");
    let of_slurm: Vec<_> =
        plugin.wants.iter().filter(|name| name.starts_with("spank_") || name.starts_with("slurm_")).collect();
    assert!(of_slurm.contains(&&"spank_setenv".to_owned()), "{of_slurm:?}");
    // `-z now` would be DF_BIND_NOW or DF_1_NOW.
    assert_eq!(plugin.flags & u64::from(DF_BIND_NOW | DF_1_NOW), 0, "bound at load: {:#x}", plugin.flags);
}

#[test]
fn the_shim_needs_nothing_and_exports_nothing() {
    let shim = read("libgpu_tune_preload.so");
    assert!(shim.needs.is_empty() && shim.exports.is_empty() && shim.wants.is_empty(), "{:?}", shim.needs);
}
