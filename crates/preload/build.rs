//! Link settings of the shim: no C library, no start files.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for arg in ["-nostartfiles", "-nostdlib", "-Wl,-z,lazy", "-Wl,--build-id=none"] {
        println!("cargo:rustc-cdylib-link-arg={arg}");
    }
}
