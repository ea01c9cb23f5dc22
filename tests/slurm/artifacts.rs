//! The files under test: taken from `GPU_TUNE_DIST` (as `make build` leaves them), or built as the tests themselves are.

use super::place::Place;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Puts the plugin, the shim, the command and the probe into the place.
pub fn install(place: &Place) {
    let built = built();
    for (from, to) in &built.files {
        std::fs::copy(from, place.outside(to)).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
    }
}

struct Built {
    files: Vec<(PathBuf, &'static str)>,
}

fn built() -> &'static Built {
    static BUILT: OnceLock<Built> = OnceLock::new();
    BUILT.get_or_init(|| {
        // The virtual node has no cargo: `tests/vm/test` builds before it boots.
        if std::env::var_os("GPU_TUNE_BUILT").is_none() {
            build();
        }
        let target = target_dir();
        let files = vec![
            (dist("gpu_tune.so"), "lib/gpu_tune.so"),
            (dist("gpu-tune"), "bin/gpu-tune"),
            (dist("libgpu_tune_preload.so"), "lib/libgpu_tune_preload.so"),
            (target.join("debug/examples/probe"), "bin/probe"),
            (target.join("debug/examples/refuse"), "bin/refuse"),
            (target.join("debug/libfake_nvml.so"), "lib/libnvidia-ml.so.1"),
            (target.join("debug/libfake_pyxis.so"), "lib/fake_pyxis.so"),
        ];
        Built { files }
    })
}

fn build() {
    let plugin_and_command = ["-p", "gpu-tune-plugin", "--lib", "-p", "gpu-tune", "--bin", "gpu-tune"];
    cargo(&[&["build"], &plugin_and_command[..], &["-p", "fake-nvml", "-p", "fake-pyxis"]].concat());
    cargo(&["build", "-p", "gpu-tune-plugin", "--example", "probe", "--example", "refuse"]);
    cargo(&["build", "-p", "gpu-tune-preload", "--profile", "shim"]);
}

/// One of the files that `make build` leaves, by its name there.
pub fn product(name: &str) -> PathBuf {
    built();
    dist(name)
}

fn dist(name: &str) -> PathBuf {
    match std::env::var_os("GPU_TUNE_DIST") {
        Some(dist) => PathBuf::from(dist).join(name),
        None if name.ends_with("preload.so") => target_dir().join("shim").join(name),
        None if name == "gpu_tune.so" => target_dir().join("debug/libgpu_tune.so"),
        None => target_dir().join("debug").join(name),
    }
}

/// Whether the plugin under test can be told to panic (see `src/guard.rs`).
pub fn panics_on_demand() -> bool {
    std::env::var_os("GPU_TUNE_DIST").is_none()
}

fn cargo(args: &[&str]) {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo).args(args).arg("--quiet").current_dir(env!("CARGO_MANIFEST_DIR")).status();
    assert!(status.unwrap().success(), "cargo {args:?}");
}

/// The test's own path is TARGET/PROFILE/deps/NAME.
fn target_dir() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.ancestors().nth(3).map(Path::to_path_buf).unwrap()
}
