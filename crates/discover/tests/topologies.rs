//! Replays every machine of the shared collection, when it is there, and the tests' own always.
#![cfg(test)]

mod shared;

use gpu_tune_discover::read_xml;
use gpu_tune_engine::Machine;
use std::path::Path;

fn load(path: &Path) -> Machine {
    read_xml(path).map_err(|error| format!("{}: {error}", path.display())).unwrap().0
}

/// A machine as the collection's table writes it: packages/NUMA/cores/PUs, and GPU address → nodes.
fn row(machine: &Machine) -> (String, String) {
    let counts = [machine.packages.len(), machine.numa.len(), machine.cores.len(), machine.cpus.len()];
    let nodes = |gpu: &gpu_tune_engine::machine::Gpu| gpu.locality.as_ref().map(|near| near.nodes.to_string());
    let gpus = machine.gpus.iter().map(|gpu| format!("{}→{}", gpu.pci, nodes(gpu).unwrap_or_else(|| "?".into())));
    (counts.map(|n| n.to_string()).join("/"), gpus.collect::<Vec<_>>().join("; "))
}

#[test]
fn every_file_of_the_collection_gives_its_row_of_the_table() {
    let Some(folder) = shared::file("topologies") else { return };
    let readme = std::fs::read_to_string(folder.join("README.md")).unwrap();
    let rows: Vec<[&str; 3]> = readme
        .lines()
        .filter_map(|line| {
            line.strip_prefix('|')?.split('|').map(str::trim).take(3).collect::<Vec<_>>().try_into().ok()
        })
        .filter(|row: &[&str; 3]| row[0].ends_with(".xml"))
        .collect();
    assert!(rows.len() >= 13, "the table has {} rows", rows.len());
    for [file, counts, gpus] in rows {
        let found = row(&load(&folder.join(file)));
        assert_eq!((found.0.as_str(), found.1.as_str()), (counts, gpus), "{file}");
    }
}

#[test]
fn every_cpu_of_the_collection_is_in_one_core_one_package_and_one_numa_node() {
    let Some(folder) = shared::file("topologies") else { return };
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "xml") {
            continue;
        }
        let machine = load(&path);
        for cpu in machine.cpus.iter() {
            let homes = |sets: Vec<&gpu_tune_engine::CpuSet>| sets.iter().filter(|set| set.contains(cpu)).count();
            assert_eq!(homes(machine.cores.iter().map(|core| &core.pus).collect()), 1, "{} {cpu}", path.display());
            assert_eq!(homes(machine.packages.iter().map(|p| &p.cpus).collect()), 1, "{} {cpu}", path.display());
            assert_eq!(homes(machine.numa.iter().map(|node| &node.cpus).collect()), 1, "{} {cpu}", path.display());
        }
    }
}
