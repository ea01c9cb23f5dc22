//! What discovery makes of the machines in `tests/machines`, which describe one trap each.
#![cfg(test)]

use gpu_tune_discover::read_xml;
use gpu_tune_engine::Machine;
use gpu_tune_engine::machine::{LinkLayer, LocalitySource, Vendor};
use std::path::{Path, PathBuf};

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/machines").join(name)
}

fn load(name: &str) -> Machine {
    let (machine, notices) = read_xml(&path(name)).unwrap();
    assert_eq!(notices, [], "{name}");
    machine
}

/// Each GPU with the CPUs and nodes near it.
fn near(machine: &Machine) -> Vec<String> {
    let near = |gpu: &gpu_tune_engine::machine::Gpu| match &gpu.locality {
        Some(locality) => format!("{} cpus {} nodes {}", gpu.pci, locality.cpus, locality.nodes),
        None => format!("{} unknown", gpu.pci),
    };
    machine.gpus.iter().map(near).collect()
}

/// Each NUMA node with its CPUs, and whether a memory policy may name it.
fn nodes(machine: &Machine) -> Vec<String> {
    let node = |node: &gpu_tune_engine::machine::NumaNode| {
        format!("{}: `{}` {}", node.id, node.cpus, if machine.has_host_memory(node.id) { "memory" } else { "-" })
    };
    machine.numa.iter().map(node).collect()
}

#[test]
fn a_bmc_is_no_gpu_and_five_os_devices_on_one_function_are_one_gpu() {
    let machine = load("bmc-and-many-os-devices.xml");
    assert_eq!(near(&machine), ["0000:13:00.0 cpus 0-1,4-5 nodes 0", "0000:81:00.0 cpus 2-3,6-7 nodes 8"]);
    let gpu = &machine.gpus[0];
    assert_eq!((gpu.vendor, gpu.model.as_deref()), (Vendor::Nvidia, Some("NVIDIA H200")));
    assert_eq!(gpu.uuid.as_deref(), Some("GPU-11111111-2222-3333-4444-555555555555"));
    assert_eq!(gpu.locality.as_ref().unwrap().source, LocalitySource::Hwloc);
    assert_eq!((machine.gpus[1].uuid.as_deref(), machine.gpus[1].model.as_deref()), (None, None));
}

#[test]
fn siblings_are_read_and_node_numbers_may_have_gaps() {
    let machine = load("bmc-and-many-os-devices.xml");
    let cores: Vec<String> = machine.cores.iter().map(|core| core.pus.to_string()).collect();
    assert_eq!(cores, ["0,4", "1,5", "2,6", "3,7"]);
    assert_eq!(nodes(&machine), ["0: `0-1,4-5` memory", "8: `2-3,6-7` memory"]);
    assert_eq!(machine.cpus.to_string(), "0-7");
}

#[test]
fn a_nic_under_the_same_switch_shares_the_gpus_bridges() {
    let machine = load("bmc-and-many-os-devices.xml");
    let (gpu, nic) = (&machine.gpus[0], &machine.nics[0]);
    let bridge = "0000:10:00.0".parse().unwrap();
    assert_eq!((nic.name.as_str(), &nic.bridges, nic.root.as_deref()), ("mlx5_0", &vec![bridge], Some("pci0000:10")));
    assert_eq!((&gpu.bridges, gpu.root.as_deref()), (&vec![bridge], Some("pci0000:10")));
    assert_eq!((nic.link_layer(), nic.active(), nic.ports.len()), (Some(LinkLayer::Infiniband), true, 2));
    assert_eq!(nic.ports.iter().map(|port| port.active).collect::<Vec<_>>(), [true, false]);
    let other = &machine.nics[1];
    assert_eq!((other.link_layer(), other.root.as_deref()), (Some(LinkLayer::Ethernet), Some("pci0000:80")));
    assert_eq!(other.locality.as_ref().unwrap().nodes.to_string(), "8");
}

#[test]
fn below_the_whole_machine_is_no_knowledge_where_cpus_are_on_several_nodes() {
    assert_eq!(near(&load("gpus-below-the-machine.xml")), ["0000:05:00.0 unknown", "0000:06:00.0 unknown"]);
    assert_eq!(near(&load("one-node-no-locality.xml")), ["0000:05:00.0 cpus 0-3 nodes 0"]);
}

#[test]
fn below_a_package_of_several_nodes_is_knowledge_of_the_package() {
    let expected = ["0000:11:00.0 cpus 0-3 nodes 0-1", "0000:81:00.0 cpus 4-7 nodes 2-3"];
    assert_eq!(near(&load("gpus-below-packages.xml")), expected);
}

#[test]
fn memory_without_cpus_gets_no_cpus_and_a_gpus_memory_is_marked() {
    let machine = load("gpu-memory.xml");
    assert_eq!(nodes(&machine), ["0: `0-3` memory", "1: `` -", "2: `` -", "10: `` memory"]);
    assert_eq!(machine.numa.iter().map(|node| node.gpu_memory).collect::<Vec<_>>(), [false, true, false, false]);
    assert_eq!(near(&machine), ["0009:01:00.0 cpus 0-3 nodes 0-2,10"]);
}

#[test]
fn a_file_that_names_no_memory_at_all_leaves_it_unknown() {
    let text = std::fs::read_to_string(path("gpus-below-packages.xml")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("node.xml");
    std::fs::write(&file, text.replace(" local_memory=\"17179869184\"", "")).unwrap();
    let (machine, _) = read_xml(&file).unwrap();
    assert!(machine.numa.iter().all(|node| node.memory_bytes.is_none() && machine.has_host_memory(node.id)));
}

#[test]
fn amd_instinct_is_a_gpu_under_each_of_its_classes_and_a_desktop_card_is_not() {
    let machine = load("amd-instinct.xml");
    let addresses: Vec<String> = machine.gpus.iter().map(|gpu| gpu.pci.to_string()).collect();
    assert_eq!(addresses, ["0000:c1:00.0", "0000:c6:00.0", "0000:c9:00.0"]);
    assert!(machine.gpus.iter().all(|gpu| gpu.vendor == Vendor::Amd));
    assert_eq!(machine.gpus[0].model.as_deref(), Some("AMD Instinct MI250X"));
}

/// What is said of a file with this text, without the folder's name.
fn said(text: &[u8]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("node.xml");
    std::fs::write(&file, text).unwrap();
    let error = read_xml(&file).unwrap_err();
    assert!(error.help().is_some());
    error.to_string().replace(&folder.path().display().to_string(), "")
}

#[test]
fn a_file_that_is_not_hwlocs_is_one_line_with_file_and_line() {
    assert_eq!(said(b"<html>\n</html>"), "/node.xml:1: expected hwloc's `<topology>`, found `<html>`");
    assert_eq!(said(b"a,b\n"), "/node.xml:1: expected hwloc's `<topology>`, found no XML element");
    assert_eq!(said(b"ok\n\xff\xfe"), "/node.xml:2: expected an hwloc XML file, found bytes that are not text");
    let whole = std::fs::read(path("gpu-memory.xml")).unwrap();
    let cut = said(&whole[..whole.len() - 100]);
    assert!(cut.starts_with("/node.xml:") && cut.ends_with("the file is cut off"), "{cut}");
}

#[test]
fn what_hwloc_itself_refuses_is_an_error_and_no_panic() {
    for text in [
        "<topology version=\"2.0\"></topology>",
        "<topology version=\"9.0\"><object type=\"Machine\"/></topology>",
        "<topology version=\"2.0\"><object type=\"Machine\" os_index=\"0\" cpuset=\"0x0\" complete_cpuset=\"0x0\"/></topology>",
        "<topology version=\"2.0\"><object type=\"Machine\" os_index=\"0\"><object type=\"Nonsense\"/></object></topology>",
    ] {
        let message = said(text.as_bytes());
        assert!(message.starts_with("hwloc cannot read `/node.xml`: "), "{message}");
        assert_eq!(message.lines().count(), 1, "{message}");
    }
}

#[test]
fn a_missing_file_is_named() {
    let error = read_xml(Path::new("/nonexistent/node.xml")).unwrap_err();
    assert_eq!(error.to_string(), "cannot read `/nonexistent/node.xml`");
}
