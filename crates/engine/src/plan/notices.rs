//! The planner's sentences: one notice for each cause and step, which names everything that it concerns.
#![forbid(unsafe_code)]

use crate::{Code, CpuSet, Machine, NodeSet, Notice};

const MORE_CPUS: &str = "give the step more CPUs: `--cpus-per-task` on srun itself (srun takes it over from sbatch only \
                         where `SRUN_CPUS_PER_TASK` is set), or `--exclusive` for the whole node";

const LESS_RESERVED: &str = "allocate more cores, or shorten `reserve` in the profile's `[bind]`";

/// None of the allowed CPUs is one of the machine's.
pub(super) fn foreign_cpus(allowed: &CpuSet) -> Notice {
    let message = match allowed.is_empty() {
        true => "it is not known which CPUs the step may use: nothing is bound".to_owned(),
        false => format!("the step's CPUs {allowed} are not in the description of this machine: nothing is bound"),
    };
    Notice::new(Code::NoMachine, message).help("make a fresh description with `gpu-tune snapshot`")
}

/// Several ranks on one core (rule 11); `reserved`: the profile keeps the step's other CPUs from ranks.
pub(super) fn one_cpu(ranks: usize, cpus: &CpuSet, reserved: &CpuSet) -> Notice {
    let what = if cpus.len() == 1 { "CPU" } else { "core, CPUs" };
    let less = if reserved.is_empty() { String::new() } else { format!(", as CPUs {reserved} are reserved") };
    Notice::new(Code::OneCpu, format!("{ranks} ranks have a single {what} {cpus}{less}: nothing is bound")).help(
        match reserved.is_empty() {
            true => MORE_CPUS,
            false => LESS_RESERVED,
        },
    )
}

/// Memory that would have been named is not the step's.
pub(super) fn no_memory(machine: &Machine, gpus: &[usize], nodes: &NodeSet) -> Notice {
    let message = format!(
        "the step may not have memory of {}, where the CPUs for {} are: that memory is not asked for",
        numa(nodes),
        names(machine, gpus)
    );
    Notice::new(Code::NoMemory, message)
        .help("allocate CPUs and memory of the same nodes: look at `mems` of the cpuset")
}

/// The reservation would leave nothing.
pub(super) fn reserve_ignored(reserved: &CpuSet) -> Notice {
    let message = format!("all CPUs of the step are reserved ({reserved}): the reservation is not kept");
    Notice::new(Code::ReserveIgnored, message).help(LESS_RESERVED)
}

/// Fewer cores than ranks (rule 7).
pub(super) fn overlap(machine: &Machine, gpus: &[usize]) -> Notice {
    let message = format!("fewer cores than ranks for {}: these ranks share cores", names(machine, gpus));
    Notice::new(Code::Overlap, message).help(MORE_CPUS)
}

/// Near CPUs are known, and none may be used (rule 9).
///
/// `near` are those CPUs, `usable` those that ranks have; `reserved`: the step owns some near ones, but the profile
/// keeps them from ranks.
pub(super) fn remote(machine: &Machine, gpus: &[usize], near: &CpuSet, usable: &CpuSet, reserved: bool) -> Notice {
    let message = format!(
        "{} on {} {} far from the step's CPUs {usable} ({}): every host-to-GPU copy crosses a link between nodes",
        names(machine, gpus),
        numa(&machine.nodes_of(near)),
        if gpus.len() == 1 { "is" } else { "are" },
        numa(&machine.nodes_of(usable))
    );
    Notice::new(Code::GpuRemote, message).help(match reserved {
        true => "allocate more CPUs next to the GPUs, or shorten `reserve` in the profile's `[bind]`",
        false => "allocate CPUs next to the GPUs with `--gres-flags=enforce-binding`, or look at `gpu-tune topo`",
    })
}

/// No source knows what is near.
pub(super) fn no_locality(machine: &Machine, gpus: &[usize]) -> Notice {
    let message = format!(
        "nothing tells which CPUs are near {}: CPUs are divided evenly, and memory is left alone",
        names(machine, gpus)
    );
    let help = "tell it in the profile: `[machine] gpu_numa = { \"PCI ADDRESS\" = NUMA NODE }`";
    Notice::new(Code::NoLocality, message).help(help)
}

/// The admin's map names nodes without CPUs, or that do not exist.
pub(super) fn bad_map(machine: &Machine, gpus: &[usize]) -> Notice {
    let message =
        format!("`gpu_numa` gives {} a NUMA node that has no CPUs here: the entry is not used", names(machine, gpus));
    Notice::new(Code::Profile, message).help("correct the profile's `[machine]`; `gpu-tune topo` shows the nodes")
}

/// `prefer = "priority"` cannot be kept.
pub(super) fn no_priority(priority: &CpuSet) -> Notice {
    let message =
        format!("too few priority cores for every rank to have one nearby (CPUs {priority}): all cores are used");
    Notice::new(Code::PriorityCores, message).help("allocate whole nodes with `--exclusive`, or set `prefer = \"\"`")
}

/// `GPU 0000:06:00.0`, or `GPUs 0000:06:00.0,0000:16:00.0`: each once.
fn names(machine: &Machine, gpus: &[usize]) -> String {
    let mut names: Vec<String> = Vec::new();
    for &gpu in gpus {
        let name = machine.gpus.get(gpu).map_or_else(|| format!("number {gpu}"), |gpu| gpu.pci.to_string());
        if !names.contains(&name) {
            names.push(name);
        }
    }
    format!("{} {}", if names.len() == 1 { "GPU" } else { "GPUs" }, names.join(","))
}

fn numa(nodes: &NodeSet) -> String {
    match nodes.len() {
        0 => "no NUMA node".to_owned(),
        1 => format!("NUMA node {nodes}"),
        _ => format!("NUMA nodes {nodes}"),
    }
}
