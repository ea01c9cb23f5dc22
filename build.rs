//! Link settings of `gpu_tune.so`.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // Slurm opens plugins with RTLD_LAZY, because some SPANK symbols exist only in some of its programs or releases. Rust
    // links with `-z now` by default, which would make such a load fail.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,lazy");
}
