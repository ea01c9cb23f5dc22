//! Link settings of the shim: no C library, no start files, and no symbol left undefined.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // `-z defs` turns a forgotten call of `memcpy`, or a path that can panic (see `lib.rs`), into a link error: without it
    // the program that loads the shim would have to supply the symbol.
    // `-z norelro` saves every program one `mprotect` at its start, and 60 KB of padding for aarch64's largest pages.
    // `-z initfirst` has glibc call it before the constructors of all other libraries: those of libgomp and libnuma count the
    // CPUs, once. (musl does not know it.)
    let options = ["defs", "lazy", "norelro", "initfirst"];
    for arg in options.map(|option| format!("-Wl,-z,{option}")) {
        println!("cargo:rustc-cdylib-link-arg={arg}");
    }
    for arg in ["-nostartfiles", "-nostdlib", "-Wl,--build-id=none"] {
        println!("cargo:rustc-cdylib-link-arg={arg}");
    }
}
