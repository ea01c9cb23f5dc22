//! Slurm has the functions that are called; they are found when the plugin is loaded.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,lazy");
}
