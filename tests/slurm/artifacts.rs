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
        let dist = std::env::var_os("GPU_TUNE_DIST").map(PathBuf::from);
        let product = |name: &str, debug: &str| match &dist {
            Some(dist) => dist.join(name),
            None => target.join(debug),
        };
        let files = vec![
            (product("gpu_tune.so", "debug/libgpu_tune.so"), "lib/gpu_tune.so"),
            (product("gpu-tune", "debug/gpu-tune"), "bin/gpu-tune"),
            (product("libgpu_tune_preload.so", "shim/libgpu_tune_preload.so"), "lib/libgpu_tune_preload.so"),
            (target.join("debug/examples/probe"), "bin/probe"),
            (target.join("debug/libfake_nvml.so"), "lib/libnvidia-ml.so.1"),
        ];
        Built { files }
    })
}

fn build() {
    cargo(&["build", "-p", "gpu-tune-plugin", "--lib", "-p", "gpu-tune", "--bin", "gpu-tune", "-p", "fake-nvml"]);
    cargo(&["build", "-p", "gpu-tune-plugin", "--example", "probe"]);
    cargo(&["build", "-p", "gpu-tune-preload", "--profile", "shim"]);
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
