//! Link settings of the shim: no C library, no start files, and no symbol left undefined.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // `-z defs` turns a forgotten call of `memcpy`, or a path that can panic (see `lib.rs`), into a link error: without it
    // the program that loads the shim would have to supply the symbol.
    // `-z norelro` saves every program one `mprotect` at its start, and 60 KB of padding for aarch64's largest pages.
    for arg in ["-nostartfiles", "-nostdlib", "-Wl,-z,defs", "-Wl,-z,lazy", "-Wl,-z,norelro", "-Wl,--build-id=none"] {
        println!("cargo:rustc-cdylib-link-arg={arg}");
    }
}
