//! How parts of a machine are named to people: one wording for `topo`, `plan` and the picture.

use crate::json::Place;
use crate::tree::{Node, alike};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use gpu_tune_engine::machine::{Gpu, LinkLayer, Nic, NumaNode, Vendor};
use gpu_tune_engine::spec::Word;
use gpu_tune_engine::text::shown;
use gpu_tune_engine::{IdSet, Machine, report};

const GIB: u64 = 1 << 30;

/// `2 packages, 8 NUMA nodes, 128 cores, 256 CPUs, 4 GPUs, 0 NICs, driver 550.54.15`.
pub fn summary(machine: &Machine) -> String {
    let counts = [
        count(machine.packages.len(), "package"),
        count(machine.numa.len(), "NUMA node"),
        count(machine.cores.len(), "core"),
        count(machine.cpus.len(), "CPU"),
        count(machine.gpus.len(), "GPU"),
        count(machine.nics.len(), "NIC"),
    ];
    let driver = machine.driver.as_ref().map(|version| format!(", driver {version}")).unwrap_or_default();
    counts.join(", ") + &driver
}

/// `1 core`, `2 cores`.
pub fn count(number: usize, word: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {word}{plural}")
}

/// A NUMA node's name and what it has: `NUMA 1`, `16 cores, 188 GiB`.
pub fn node(node: &Node<'_>) -> (String, String) {
    let cores = count(node.cores.len(), "core");
    match node.numa {
        Some(numa) => (format!("NUMA {}", numa.id), format!("{cores}, {}", memory(numa))),
        None => ("no NUMA node".to_owned(), cores),
    }
}

/// `188 GiB`, `no memory`, `memory unknown`.
pub fn memory(node: &NumaNode) -> String {
    match node.memory_bytes {
        None => "memory unknown".to_owned(),
        Some(0) => "no memory".to_owned(),
        Some(bytes) if bytes < GIB => format!("{} MiB", bytes >> 20),
        Some(bytes) => format!("{} GiB", (bytes + GIB / 2) / GIB),
    }
}

/// Memory-only nodes, those that are alike together: `NUMA 2: 186 GiB, a GPU's`, `NUMA 3-9: no memory`.
pub fn memory_nodes(nodes: &[&NumaNode]) -> Vec<String> {
    let text = |(ids, node): (IdSet, &NumaNode)| {
        let each = if ids.len() > 1 && node.memory_bytes != Some(0) { " each" } else { "" };
        let whose = if node.gpu_memory { ", a GPU's" } else { "" };
        format!("NUMA {ids}: {}{each}{whose}", memory(node))
    };
    alike(nodes).into_iter().map(text).collect()
}

/// The model without the maker's name, at most 24 letters of it.
pub fn model(gpu: &Gpu) -> String {
    let name = match (&gpu.model, gpu.vendor) {
        (Some(model), _) => model.strip_prefix("NVIDIA ").unwrap_or(model),
        (None, Vendor::Nvidia) => "NVIDIA",
        (None, Vendor::Amd) => "AMD",
    };
    shown(name.chars().take(24).collect::<String>().trim_end())
}

/// A GPU in one line.
pub fn gpu(index: usize, gpu: &Gpu) -> String {
    let uuid = gpu.uuid.as_ref().map(|uuid| format!(" {uuid}")).unwrap_or_default();
    let near = gpu.locality.as_ref().map_or("place unknown".to_owned(), |near| format!("near NUMA {}", near.nodes));
    format!("GPU {index}: {} {}{uuid}, {near}", gpu.pci, model(gpu))
}

/// A NIC in one line.
pub fn nic(nic: &Nic) -> String {
    let pci = nic.pci.map(|pci| format!(" {pci}")).unwrap_or_default();
    format!("{}{pci}: {}", nic.name, link(nic))
}

/// A NIC's link and state: `InfiniBand 400G active`, `Ethernet down`.
pub fn link(nic: &Nic) -> String {
    if nic.active() { format!("{} active", wire(nic)) } else { wire(nic) }
}

/// A NIC's link where the state is shown otherwise: `InfiniBand 400G`, `Ethernet down`.
pub fn wire(nic: &Nic) -> String {
    let layer = match nic.link_layer() {
        Some(LinkLayer::Infiniband) => "InfiniBand",
        Some(LinkLayer::Ethernet) => "Ethernet",
        Some(LinkLayer::Other) => "other link",
        None if nic.ports.is_empty() => return "link unknown".to_owned(),
        None => "mixed links",
    };
    match rate(nic) {
        _ if !nic.active() => format!("{layer} down"),
        Some(rate) => format!("{layer} {rate}"),
        None => layer.to_owned(),
    }
}

/// `400G`, from the `400 Gb/sec (4X NDR)` of its first active port.
fn rate(nic: &Nic) -> Option<String> {
    let port = nic.ports.iter().find(|port| port.active)?;
    let (number, rest) = port.rate.as_deref()?.split_once(' ')?;
    rest.starts_with("Gb/sec").then(|| format!("{number}G"))
}

/// A cpulist, with a word for the empty one.
pub fn list(set: &IdSet) -> String {
    if set.is_empty() { "none".to_owned() } else { set.to_string() }
}

/// A memory policy with its nodes: `preferred 1`, `off`.
pub fn policy(place: &Place) -> String {
    if place.mems.is_empty() { place.policy.to_owned() } else { format!("{} {}", place.policy, place.mems) }
}

/// Rows as left-aligned columns, each with its end of line.
pub fn columns<const N: usize>(rows: &[[String; N]]) -> String {
    report::columns(rows).into_iter().map(|line| line + "\n").collect()
}

/// Reads one of a fixed list of words on the command line; `--help` lists them.
pub fn parser<T: Word + Send + Sync>() -> impl TypedValueParser<Value = T> {
    let words: Vec<&'static str> = T::WORDS.iter().map(|(word, _)| *word).collect();
    PossibleValuesParser::new(words).try_map(|word| T::from_word(&word).ok_or("not one of the words"))
}

/// A cpulist that fits into so many columns, with a word for the empty one.
pub fn shortened(cpus: &IdSet, room: usize) -> String {
    if cpus.is_empty() { list(cpus) } else { report::shortened(cpus, room) }
}
