//! How long a step takes to read its profile, with few and with many files in the admin's directory; and to write the
//! plan that the shim reads.
//!
//! `cargo bench -p gpu-tune-engine --bench profile`

use criterion::{BenchmarkId, Criterion};
use gpu_tune_engine::launch::plan_text;
use gpu_tune_engine::plan::{MemKind, Memory, RankPlan, Share};
use gpu_tune_engine::profile::{Catalog, Facts};
use gpu_tune_engine::spec::{SiteConfig, Spec};
use std::hint::black_box;
use std::path::{Path, PathBuf};

/// A directory with that many profiles, each of which changes a little of `h200`.
fn directory(files: usize) -> PathBuf {
    let directory = std::env::temp_dir().join(format!("gpu-tune-bench-profiles-{}-{files}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    let made = std::fs::create_dir_all(&directory);
    let write = |number: usize| {
        let text = format!(
            "description = \"site profile {number}\"\ninherits = \"h200\"\n\n[env]\n\
             NCCL_BUFFSIZE = {{ value = \"8388608\", when = {{ nodes = \">1\" }} }}\nNCCL_DEBUG = \"INFO\"\n\n[bind]\nmem = \"bind\"\n"
        );
        std::fs::write(directory.join(format!("site{number}.toml")), text)
    };
    let written = made.and_then(|()| (0..files).try_for_each(write));
    assert!(written.is_ok(), "{written:?}");
    directory
}

/// What a step does: every file is read, the named ones are parsed.
fn resolve(directory: &Path, spec: &Spec, site: &SiteConfig, facts: &Facts) -> bool {
    let (catalog, notices) = Catalog::load(directory);
    notices.is_empty() && matches!(catalog.resolve(spec, site, facts), Ok(Some(_)))
}

fn profiles(criterion: &mut Criterion) {
    let facts = Facts { gpus: vec!["NVIDIA H200".into(); 8], nodes: Some(2), ..Facts::default() };
    let site = SiteConfig::default();
    let mut group = criterion.benchmark_group("profile");
    for files in [1, 20, 500] {
        let directory = directory(files);
        group.bench_function(BenchmarkId::new("load", format!("{files} files")), |bench| {
            bench.iter(|| Catalog::load(black_box(&directory)));
        });
        let spec = Spec::named("site0");
        assert!(resolve(&directory, &spec, &site, &facts), "a profile that cannot be used takes no time");
        group.bench_function(BenchmarkId::new("load and resolve", format!("{files} files")), |bench| {
            bench.iter(|| resolve(&directory, &spec, &site, &facts));
        });
        let _ = std::fs::remove_dir_all(&directory);
    }
    group.finish();
}

/// The plan of a launcher whose ranks have the cores of one of two sockets, every other one.
fn ranks(count: u32) -> Vec<RankPlan> {
    let rank = |local_rank| {
        let cpus = (0..16).map(|core| (local_rank % 2) * 128 + (local_rank / 2) * 16 + core).collect();
        let node = local_rank % 2;
        let memory = Memory { policy: MemKind::Preferred, nodes: [node].into_iter().collect(), first: node };
        RankPlan { local_rank, gpu: 0, share: Share { cpus: Some(cpus), memory: Some(memory) } }
    };
    (0..count).map(rank).collect()
}

fn plan_for_the_shim(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("plan for the shim");
    for count in [1, 8, 16] {
        let (launcher, ranks) = ((0..256).collect(), ranks(count));
        group.bench_function(BenchmarkId::from_parameter(format!("{count} ranks")), |bench| {
            bench.iter(|| plan_text::encode(&launcher, |_| None, black_box(&ranks)));
        });
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    profiles(&mut criterion);
    plan_for_the_shim(&mut criterion);
    criterion.final_summary();
}
