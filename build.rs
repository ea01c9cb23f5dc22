//! Link settings of `gpu_tune.so`.

use std::path::PathBuf;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // Slurm opens plugins with RTLD_LAZY, because some SPANK symbols exist only in some of its programs or releases. Rust
    // links with `-z now` by default, which would make such a load fail.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,lazy");
    unwind_without_libgcc_s();
}

/// The plugin needs no library but libc. The standard library asks for libgcc_s, which unwinds panics, as a shared
/// library; a linker script of that name, found first, gives the linker the same code from gcc's archives.
fn unwind_without_libgcc_s() {
    let Some(dir) = std::env::var_os("OUT_DIR").map(PathBuf::from) else { return };
    match std::fs::write(dir.join("libgcc_s.so"), "INPUT(-lgcc_eh -lgcc)\n") {
        Ok(()) => println!("cargo:rustc-link-search=native={}", dir.display()),
        Err(error) => println!("cargo:warning=the plugin will need libgcc_s: {error}"),
    }
}
