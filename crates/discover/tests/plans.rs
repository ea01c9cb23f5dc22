//! Plans for every machine of the shared collection, when it is there: read by discovery, planned by the engine, and compared
//! with the tables in `tests/plans`: whoever changes one must have read it and mean it.
#![cfg(test)]

mod shared;

use gpu_tune_discover::read_xml;
use gpu_tune_engine::plan::testing::disagreement;
use gpu_tune_engine::plan::{Layout, Memory, Own, Request, Share, TaskPlan};
use gpu_tune_engine::{CpuSet, Machine};
use std::fmt::Write;
use std::path::PathBuf;

/// The shared collection of real and constructed machines.
fn topologies() -> Vec<PathBuf> {
    let entries = shared::file("topologies").map(|folder| std::fs::read_dir(folder).unwrap());
    let mut files: Vec<PathBuf> = entries.into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "xml"));
    files.sort();
    files
}

/// The whole machine, a package, a NUMA node, every second core, three CPUs.
fn allowed(machine: &Machine) -> Vec<(&'static str, CpuSet)> {
    let node = machine.numa.iter().rev().find(|node| !node.cpus.is_empty()).unwrap();
    let cores = machine.cores.iter().skip(1).step_by(2);
    vec![
        ("whole machine", machine.cpus.clone()),
        ("first package", machine.packages[0].cpus.clone()),
        ("last NUMA node", node.cpus.clone()),
        ("every second core", cores.flat_map(|core| core.pus.iter()).collect()),
        ("three CPUs", machine.cpus.iter().take(3).collect()),
    ]
}

/// As many tasks as GPUs, one, two, half as many, twice as many.
fn task_counts(gpus: usize) -> Vec<u32> {
    let mut counts = vec![gpus, 1, 2, gpus.div_ceil(2), 2 * gpus];
    let mut seen = Vec::new();
    counts.retain(|count| {
        !seen.contains(count) && {
            seen.push(*count);
            true
        }
    });
    counts.into_iter().map(|count| u32::try_from(count).unwrap()).collect()
}

fn tables(machine: &Machine) -> String {
    let mut text = String::new();
    for (gpu, number) in machine.gpus.iter().zip(0..) {
        let near = gpu.locality.as_ref().map_or("unknown".to_owned(), |near| format!("NUMA {}", near.nodes));
        writeln!(text, "GPU {number} {} {near}", gpu.pci).unwrap();
    }
    for (what, cpus) in allowed(machine) {
        for tasks in task_counts(machine.gpus.len()) {
            writeln!(text, "\n{what}, tasks {tasks}: {cpus}").unwrap();
            table(&mut text, machine, tasks, &cpus);
        }
    }
    text
}

fn table(text: &mut String, machine: &Machine, tasks: u32, cpus: &CpuSet) {
    let layout = Layout::new(machine, &step(machine, tasks, cpus));
    for plan in (0..tasks).map(|id| layout.task(id, Own::All)) {
        task(text, &plan);
    }
    for notice in &layout.notices {
        writeln!(text, "! {}: {}", notice.code, notice.message).unwrap();
    }
}

fn step(machine: &Machine, tasks: u32, cpus: &CpuSet) -> Request {
    let gpus = (0..machine.gpus.len()).collect();
    Request { tasks, gpus, cpus: cpus.clone(), ..Request::default() }
}

fn task(text: &mut String, plan: &TaskPlan) {
    let gpus: Vec<String> = plan.gpus.iter().map(ToString::to_string).collect();
    writeln!(text, "{:>3} GPU {}: {}", plan.local_id, gpus.join(","), place(&plan.share)).unwrap();
    for rank in &plan.ranks {
        writeln!(text, "    rank {} GPU {}: {}", rank.local_rank, rank.gpu, place(&rank.share)).unwrap();
    }
}

/// `CPUS | NODES`, the node to begin with marked, and `-` for what is left alone.
fn place(share: &Share) -> String {
    let cpus = share.cpus.as_ref().map_or("-".to_owned(), ToString::to_string);
    format!("{cpus} | {}", share.memory.as_ref().map_or("-".to_owned(), memory))
}

fn memory(memory: &Memory) -> String {
    if memory.nodes.len() == 1 { memory.nodes.to_string() } else { format!("{} from {}", memory.nodes, memory.first) }
}

#[test]
fn every_machine_of_the_collection_is_planned_as_its_table_says() {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("plans");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    for path in topologies() {
        let (machine, _) = read_xml(&path).unwrap();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        settings.bind(|| insta::assert_snapshot!(name, tables(&machine)));
    }
}

/// Not where ranks have a single core between them: the model knows only sharing.
#[test]
fn a_second_model_comes_to_the_same_plan_on_every_machine_of_the_collection() {
    let mut compared = 0;
    let files = topologies();
    for path in &files {
        let (machine, _) = read_xml(path).unwrap();
        for (what, cpus) in allowed(&machine) {
            let several = machine.cores.iter().filter(|core| !core.pus.is_disjoint(&cpus)).count() > 1;
            for tasks in task_counts(machine.gpus.len()).into_iter().filter(|_| several) {
                let verdict = disagreement(&machine, &step(&machine, tasks, &cpus));
                assert_eq!(verdict, Ok(()), "{}, {what}, tasks {tasks}", path.display());
                compared += 1;
            }
        }
    }
    println!("{compared} plans of {} machines compared", files.len());
    assert!(compared >= 10 * files.len());
}
