//! `make bench`: what gpu-tune costs, measured side by side on a real Slurm, and written to docs/performance.md.
//!
//! [`steps`] times steps of several kinds in turn, [`whole`] jobs of their own, [`own`] reads what the plugin's hooks
//! took, [`scale`] does both for more tasks, nodes and CPUs, [`functions`] collects what criterion measured before, and
//! [`files`] looks at what was built. [`page`] and [`plot`] write it down. `GPU_TUNE_BENCH_ROUNDS` sets how often
//! everything is repeated.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a part of the tests: whatever goes wrong ends it"
)]

mod files;
mod functions;
mod here;
mod own;
mod page;
mod plot;
mod scale;
#[path = "../tests/slurm/mod.rs"]
mod slurm;
mod stats;
mod steps;
mod whole;

use std::path::Path;

/// How often a whole command is timed.
const ROUNDS: usize = 40;

fn main() {
    let rounds = std::env::var("GPU_TUNE_BENCH_ROUNDS").map_or(ROUNDS, |text| text.parse().unwrap());
    let before = here::load();
    let Some(steps) = steps::run(rounds) else { return };
    let Some(scale) = scale::run(rounds.div_ceil(8)) else { return };
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let results = page::Results {
        here: here::describe(root, before, rounds),
        steps,
        scale,
        functions: functions::read(&root.join("target/criterion")),
        files: files::read(root),
    };
    results.keep(&root.join("target/bench"));
    let section = results.markdown();
    println!("{section}");
    page::write(&root.join("docs/performance.md"), &section);
    std::fs::write(root.join("docs/performance.svg"), plot::draw(&results.steps, &results.scale)).unwrap();
}
