//! Writes what the fuzzers begin with: the engine's test machines as snapshots, and the XML files of `tests/machines`.

use gpu_tune_engine::machine::testing::{Shape, dgx_a100, gh200_x4, hgx, turin, with_gpus};
use gpu_tune_engine::snapshot::{Key, encode};
use std::fs;
use std::path::Path;

const STEPS: [&str; 4] =
    ["AAAAAAAA\n0-255\n0,1\n", "DBACBAAB\n0-7,56\nGPU-00000001\n", "HACAABBC\n3\nMIG-1/2/3,-1\n", "BBDBBBAA\n\n\n"];

fn main() -> std::io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let small = with_gpus(Shape { packages: 2, nodes: 2, cores: 2, smt: 2 }.machine(), &[&[0], &[3], &[]]);
    let machines = [small, turin(), hgx(), dgx_a100(), gh200_x4()];
    let bodies = machines.iter().map(|machine| encode(machine, &Key::default()));
    let bodies: Vec<String> = bodies.filter_map(|text| Some(text.split_once('\n')?.1.to_owned())).collect();
    write(&root.join("corpus/snapshot"), &bodies)?;
    let files = fs::read_dir(root.join("../tests/machines"))?.map(|entry| fs::read_to_string(entry?.path()));
    write(&root.join("corpus/xml"), &files.collect::<Result<Vec<_>, _>>()?)
}

fn write(folder: &Path, files: &[String]) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    for (number, file) in files.iter().enumerate() {
        for (turn, step) in STEPS.iter().enumerate() {
            fs::write(folder.join(format!("seed-{number}-{turn}")), format!("{step}{file}"))?;
        }
    }
    Ok(())
}
