//! hwloc's object tree → [`Machine`]: packages, NUMA nodes, cores, and the PCI devices that matter with what is near.

use crate::ladder;
use gpu_tune_engine::machine::{Core, Gpu, LinkLayer, Nic, NumaNode, Package, Port, Vendor};
use gpu_tune_engine::{CpuSet, Machine, NodeSet, PciAddress, idset::MAX_ID};
use hwlocality::Topology;
use hwlocality::object::attributes::{DownstreamAttributes, ObjectAttributes, PCIDeviceAttributes, UpstreamAttributes};
use hwlocality::object::types::{OSDeviceType, ObjectType};
use hwlocality::object::{TopologyObject, TopologyObjectID};
use std::collections::BTreeMap;

/// What hwloc tells.
#[derive(Debug, Default)]
pub(crate) struct Shape {
    /// The machine by hwloc alone.
    pub(crate) machine: Machine,
    /// Every PCI function of the tree: other sources name GPUs and NICs by address only.
    pub(crate) functions: BTreeMap<PciAddress, Place>,
    /// Whether hwloc looked at this machine, and not at a file or another root that its environment names.
    pub(crate) this_system: bool,
}

/// Where a device is in hwloc's tree.
#[derive(Debug, Default)]
pub(crate) struct Place {
    /// Online PUs of the nearest ancestor that is no I/O object.
    pub(crate) cpus: CpuSet,
    /// NUMA nodes of that ancestor.
    pub(crate) nodes: NodeSet,
    /// The PCI bridges above, from the host bridge down. The host bridge itself has no address.
    pub(crate) bridges: Vec<PciAddress>,
    /// The host bridge above, named as sysfs names it.
    pub(crate) root: Option<String>,
}

/// Everything that the tree tells.
pub(crate) fn read(topology: &Topology) -> Shape {
    let cpus: CpuSet = topology.objects_with_type(ObjectType::PU).filter_map(id).collect();
    let mut machine = Machine { cores: cores(topology), packages: packages(topology, &cpus), ..Machine::default() };
    machine.numa = numa_nodes(topology, &cpus);
    machine.cpus = cpus;
    machine.gpus = gpus(topology, &machine);
    machine.nics = nics(topology, &machine);
    let placed = |object| Some((address(pci(object)?), place(object, &machine.cpus)));
    let functions = topology.objects_with_type(ObjectType::PCIDevice).filter_map(placed).collect();
    Shape { machine, functions, this_system: topology.is_this_system() }
}

fn place(object: &TopologyObject, online: &CpuSet) -> Place {
    let ancestor = object.first_non_io_ancestor();
    Place {
        cpus: ancestor.map(|ancestor| cpus_of(ancestor, online)).unwrap_or_default(),
        nodes: ancestor.map(nodes_of).unwrap_or_default(),
        bridges: bridges(object),
        root: root(object),
    }
}

/// The kernel's number of an object.
fn id(object: &TopologyObject) -> Option<u32> {
    object.os_index().and_then(|index| u32::try_from(index).ok()).filter(|id| *id <= MAX_ID)
}

/// The PUs below an object, of those that are online.
fn cpus_of(object: &TopologyObject, online: &CpuSet) -> CpuSet {
    // Bitmaps of hwloc may be infinite: the bound ends them.
    let ids = object.cpuset().into_iter().flat_map(|set| bounded(set.iter_set().map(usize::from)));
    &ids.collect::<CpuSet>() & online
}

fn nodes_of(object: &TopologyObject) -> NodeSet {
    object.nodeset().into_iter().flat_map(|set| bounded(set.iter_set().map(usize::from))).collect()
}

fn bounded(ids: impl Iterator<Item = usize>) -> Vec<u32> {
    ids.map_while(|id| u32::try_from(id).ok().filter(|id| *id <= MAX_ID)).collect()
}

/// Packages in logical order. Where hwloc knows none, the machine counts as one.
fn packages(topology: &Topology, online: &CpuSet) -> Vec<Package> {
    let all = topology.objects_with_type(ObjectType::Package).map(|object| Package { cpus: cpus_of(object, online) });
    let with_cpus: Vec<_> = all.filter(|package| !package.cpus.is_empty()).collect();
    if with_cpus.is_empty() { vec![Package { cpus: online.clone() }] } else { with_cpus }
}

/// Cores in logical order; a PU that hwloc puts in no core is one by itself.
fn cores(topology: &Topology) -> Vec<Core> {
    let mut cores: Vec<Core> = Vec::new();
    let mut seen: BTreeMap<TopologyObjectID, usize> = BTreeMap::new();
    for pu in topology.objects_with_type(ObjectType::PU) {
        let core = pu.first_ancestor_with_type(ObjectType::Core).unwrap_or(pu).global_persistent_index();
        let at = *seen.entry(core).or_insert_with(|| {
            cores.push(Core::default());
            cores.len() - 1
        });
        if let (Some(core), Some(id)) = (cores.get_mut(at), id(pu)) {
            core.pus.insert(id);
        }
    }
    cores.retain(|core| !core.pus.is_empty());
    cores
}

/// NUMA nodes with the CPUs that the kernel counts to them.
///
/// The kernel counts a CPU to one node. hwloc also shows nodes without CPUs (CXL, HBM, GPU memory), with the cpuset of what
/// they are near, so a CPU goes to the node whose cpuset is the smallest; of equals, to the one with the lowest id, since
/// firmware lists nodes with CPUs first. It never goes to a GPU's memory.
fn numa_nodes(topology: &Topology, online: &CpuSet) -> Vec<NumaNode> {
    let mut nodes: Vec<NumaNode> =
        topology.objects_with_type(ObjectType::NUMANode).filter_map(|n| node(n, online)).collect();
    nodes.sort_by_key(|node| (node.gpu_memory, node.cpus.len(), node.id));
    let mut taken = CpuSet::new();
    for node in &mut nodes {
        node.cpus = if node.gpu_memory { CpuSet::new() } else { &node.cpus - &taken };
        taken.extend(&node.cpus);
    }
    // hwloc has one word for "none" and "unknown": a machine without any memory is one whose memory nobody wrote down.
    if nodes.iter().all(|node| node.memory_bytes == Some(0)) {
        nodes.iter_mut().for_each(|node| node.memory_bytes = None);
    }
    nodes.sort_by_key(|node| node.id);
    nodes
}

/// A node with hwloc's cpuset.
fn node(object: &TopologyObject, online: &CpuSet) -> Option<NumaNode> {
    let memory = match object.attributes() {
        Some(ObjectAttributes::NUMANode(attributes)) => attributes.local_memory().map_or(0, u64::from),
        _ => 0,
    };
    Some(NumaNode {
        id: id(object)?,
        cpus: cpus_of(object, online),
        memory_bytes: Some(memory),
        gpu_memory: object.subtype().is_some_and(|subtype| subtype.to_bytes() == b"GPUMemory"),
    })
}

/// GPUs, ascending by address. One PCI function is one GPU, however many OS devices (card0, nvml0, cuda0) hang from it.
fn gpus(topology: &Topology, machine: &Machine) -> Vec<Gpu> {
    let found = topology.objects_with_type(ObjectType::PCIDevice).filter_map(|object| gpu(object, machine));
    let by_address: BTreeMap<PciAddress, Gpu> = found.map(|gpu| (gpu.pci, gpu)).collect();
    by_address.into_values().collect()
}

fn gpu(object: &TopologyObject, machine: &Machine) -> Option<Gpu> {
    let function = pci(object)?;
    let vendor = Vendor::of_function(function.vendor_id(), function.class_id())?;
    let told = |key| object.io_children().find_map(|device| info(device, key));
    let place = place(object, &machine.cpus);
    Some(Gpu {
        uuid: told("NVIDIAUUID").or_else(|| told("AMDUUID").map(|id| format!("GPU-{id}"))),
        model: told("GPUModel"),
        locality: ladder::hwloc(&place, machine),
        bridges: place.bridges,
        root: place.root,
        ..Gpu::new(address(function), vendor)
    })
}

/// RDMA devices, ascending by name.
fn nics(topology: &Topology, machine: &Machine) -> Vec<Nic> {
    let found = topology.objects_with_type(ObjectType::OSDevice).filter_map(|object| nic(object, machine));
    let by_name: BTreeMap<String, Nic> = found.map(|nic| (nic.name.clone(), nic)).collect();
    by_name.into_values().collect()
}

fn nic(object: &TopologyObject, machine: &Machine) -> Option<Nic> {
    let Some(ObjectAttributes::OSDevice(device)) = object.attributes() else { return None };
    if device.device_type() != OSDeviceType::OpenFabrics {
        return None;
    }
    let function = object.parent().and_then(pci);
    let place = place(object, &machine.cpus);
    Some(Nic {
        name: object.name()?.to_str().ok()?.to_owned(),
        pci: function.map(address),
        locality: function.and_then(|_| ladder::hwloc(&place, machine)),
        ports: ports(object, function.map_or(0, PCIDeviceAttributes::class_id)),
        bridges: place.bridges,
        root: place.root,
    })
}

/// Ports as hwloc's `PortNState` tells them. The link layer is not in hwloc's XML: an InfiniBand port's PCI class is 0207, an
/// Ethernet port's 0200; cards that do both on one function (0280) have a LID only on InfiniBand.
fn ports(object: &TopologyObject, class: u16) -> Vec<Port> {
    let port = |number: u32| {
        let state = info(object, &format!("Port{number}State"))?;
        let lid = info(object, &format!("Port{number}LID")).unwrap_or_default();
        let link_layer = match class {
            0x0207 => LinkLayer::Infiniband,
            0x0200 => LinkLayer::Ethernet,
            _ if !matches!(lid.as_str(), "" | "0x0" | "0xffff") => LinkLayer::Infiniband,
            _ => LinkLayer::Other,
        };
        Some(Port { number, active: state == "4", link_layer, rate: None })
    };
    (1..).map_while(port).collect()
}

fn bridges(object: &TopologyObject) -> Vec<PciAddress> {
    let mut above: Vec<PciAddress> =
        object.ancestors().filter_map(upstream).map(|function| address(&function)).collect();
    above.reverse();
    above
}

fn upstream(object: &TopologyObject) -> Option<PCIDeviceAttributes> {
    let Some(ObjectAttributes::Bridge(bridge)) = object.attributes() else { return None };
    bridge.upstream_attributes().map(|UpstreamAttributes::PCI(function)| *function)
}

fn root(object: &TopologyObject) -> Option<String> {
    object.ancestors().find_map(|above| {
        let Some(ObjectAttributes::Bridge(bridge)) = above.attributes() else { return None };
        let None = bridge.upstream_attributes() else { return None };
        let DownstreamAttributes::PCI(bus) = bridge.downstream_attributes()?;
        Some(format!("pci{:04x}:{:02x}", bus.domain(), bus.secondary_bus()))
    })
}

fn pci(object: &TopologyObject) -> Option<&PCIDeviceAttributes> {
    match object.attributes() {
        Some(ObjectAttributes::PCIDevice(function)) => Some(function),
        _ => None,
    }
}

fn address(function: &PCIDeviceAttributes) -> PciAddress {
    PciAddress {
        domain: u32::from(function.domain()),
        bus: function.bus_id(),
        device: function.bus_device(),
        function: function.function(),
    }
}

fn info(object: &TopologyObject, key: &str) -> Option<String> {
    let text = object.info(key)?.to_str().ok()?.trim();
    (!text.is_empty()).then(|| text.to_owned())
}
