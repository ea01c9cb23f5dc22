//! How long discovery takes: hwloc XML files, and this machine without NVML.
//!
//! `cargo bench -p gpu-tune-discover --bench discovery`; with the shared collection of machines beside the repository, or
//! where `GPU_TUNE_SHARED` says, its files are read too.

use criterion::{BenchmarkId, Criterion};
use gpu_tune_discover::{Options, read_host, read_xml};
use std::path::{Path, PathBuf};

/// The XML files of a folder by name; none when it is not there.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let xml = entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|ext| ext == "xml"));
    let mut files: Vec<PathBuf> = xml.collect();
    files.sort();
    files
}

fn main() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let shared = std::env::var_os("GPU_TUNE_SHARED").map_or_else(|| repository.join("../shared"), PathBuf::from);
    let mut criterion = Criterion::default().configure_from_args().sample_size(30);
    let mut group = criterion.benchmark_group("hwloc XML");
    for file in [files(&repository.join("tests/machines")), files(&shared.join("topologies"))].concat() {
        let kib = file.metadata().map_or(0, |meta| meta.len() / 1024);
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        group.bench_function(BenchmarkId::new(name, format!("{kib} KiB")), |bench| bench.iter(|| read_xml(&file)));
    }
    group.finish();
    let options = Options { nvml: None, ..Options::default() };
    criterion.bench_function("this machine", |bench| bench.iter(|| read_host(&options)));
    criterion.final_summary();
}
