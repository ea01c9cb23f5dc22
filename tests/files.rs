//! The finished files, read as the loader reads them: what they export, what they need, and that all of Slurm's lazily bound
//! functions stay so.
#![cfg(test)]
#![allow(dead_code, reason = "the tests of the finished files need only a part of the harness")]

mod slurm;

use object::Endianness;
use object::elf::{self, FileHeader64};
use object::read::elf::{Dyn, FileHeader, Sym};
use slurm::artifacts;
use std::collections::BTreeSet;

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

struct File {
    exports: BTreeSet<String>,
    wants: BTreeSet<String>,
    needs: Vec<String>,
    flags: u64,
}

fn read(name: &str) -> File {
    let path = artifacts::product(name);
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let header = FileHeader64::<Endianness>::parse(&*bytes).unwrap();
    let endian = header.endian().unwrap();
    let sections = header.sections(endian, &*bytes).unwrap();
    let mut file = File { exports: BTreeSet::new(), wants: BTreeSet::new(), needs: Vec::new(), flags: 0 };
    let symbols = sections.symbols(endian, &*bytes, elf::SHT_DYNSYM).unwrap();
    // Local ones are the linker's own, of its sections.
    for symbol in symbols.iter().filter(|symbol| symbol.st_bind() != elf::STB_LOCAL) {
        let name = String::from_utf8(symbol.name(endian, symbols.strings()).unwrap().to_vec()).unwrap();
        if symbol.is_undefined(endian) {
            file.wants.insert(name)
        } else {
            file.exports.insert(name)
        };
    }
    let (dynamic, strings) = sections.dynamic(endian, &*bytes).unwrap().unwrap();
    let strings = sections.strings(endian, &*bytes, strings).unwrap();
    for entry in dynamic {
        match u32::try_from(entry.d_tag(endian)) {
            Ok(elf::DT_NEEDED) => {
                file.needs.push(String::from_utf8(entry.string(endian, strings).unwrap().to_vec()).unwrap());
            }
            Ok(elf::DT_FLAGS | elf::DT_FLAGS_1) => file.flags |= entry.d_val(endian),
            _ => {}
        }
    }
    file
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
    assert_eq!(plugin.flags & u64::from(elf::DF_BIND_NOW | elf::DF_1_NOW), 0, "bound at load: {:#x}", plugin.flags);
}

#[test]
fn the_shim_needs_nothing_and_exports_nothing() {
    let shim = read("libgpu_tune_preload.so");
    assert!(shim.needs.is_empty() && shim.exports.is_empty() && shim.wants.is_empty(), "{:?}", shim.needs);
}
