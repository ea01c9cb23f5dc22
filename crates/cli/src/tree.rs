//! The machine as a person draws it: packages, in them NUMA nodes with their cores, and devices where they hang.
//!
//! `topo` prints this tree and the picture draws it, so both show a device at the same place. A device is drawn at the
//! NUMA node it is nearest to; at the package when several nodes of one package are equally near (SNC, GPUs below the
//! socket's own bridge); else beside the packages, which is also where everything goes whose place nobody knows.

use gpu_tune_engine::machine::{Core, Gpu, Locality, Nic, NumaNode};
use gpu_tune_engine::plan::nics::{self, Nearness};
use gpu_tune_engine::{CpuSet, Machine, NodeSet};

/// A whole machine.
#[derive(Debug)]
pub struct Tree<'m> {
    /// In hwloc's logical order.
    pub packages: Vec<Package<'m>>,
    /// What hangs at no single package, or nobody knows where.
    pub loose: Hanging<'m>,
}

/// A package with what belongs to it.
#[derive(Debug)]
pub struct Package<'m> {
    /// Its CPUs.
    pub cpus: CpuSet,
    /// Its NUMA nodes, ascending by id.
    pub nodes: Vec<Node<'m>>,
    /// What hangs at the package, but at none of its nodes alone.
    pub hanging: Hanging<'m>,
}

/// The part of a NUMA node that lies in one package: on almost every machine the whole node.
#[derive(Debug)]
pub struct Node<'m> {
    /// The node; `None` for cores that no node counts as its own.
    pub numa: Option<&'m NumaNode>,
    /// Its cores with their logical number.
    pub cores: Vec<(usize, &'m Core)>,
    /// What hangs here.
    pub hanging: Hanging<'m>,
}

/// Devices, and NUMA nodes that are only memory.
#[derive(Debug, Default)]
pub struct Hanging<'m> {
    /// GPUs, by PCI address.
    pub gpus: Vec<GpuHere<'m>>,
    /// NICs that share a PCI bridge with no GPU of this place.
    pub nics: Vec<&'m Nic>,
    /// Memory without CPUs: CXL, HBM, a GPU's own.
    pub memory: Vec<&'m NumaNode>,
}

/// A GPU with the NICs that share a PCI bridge with it.
#[derive(Debug)]
pub struct GpuHere<'m> {
    /// Its number.
    pub index: usize,
    /// The GPU.
    pub gpu: &'m Gpu,
    /// Its NICs, and how they share.
    pub nics: Vec<(&'m Nic, Sharing)>,
}

/// How near a NIC is to a GPU below the host bridge, in the words of `nvidia-smi topo`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sharing {
    /// One PCI switch between them.
    Pix,
    /// Several PCI switches.
    Pxb,
}

/// Where something hangs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spot {
    Node(usize, usize),
    Package(usize),
    Loose,
}

impl<'m> Tree<'m> {
    /// Sorts a machine's parts.
    pub fn of(machine: &'m Machine) -> Self {
        let mut tree = Self { packages: packages(machine), loose: Hanging::default() };
        for (index, gpu) in machine.gpus.iter().enumerate() {
            let spot = tree.spot(gpu.locality.as_ref());
            tree.at(spot).gpus.push(GpuHere { index, gpu, nics: Vec::new() });
        }
        for nic in &machine.nics {
            let spot = tree.spot(nic.locality.as_ref());
            tree.at(spot).take(machine, nic);
        }
        for node in machine.numa.iter().filter(|node| node.cpus.is_empty()) {
            let spot = tree.memory_spot(machine, node.id);
            tree.at(spot).memory.push(node);
        }
        tree
    }

    fn spot(&self, locality: Option<&Locality>) -> Spot {
        let Some(near) = locality else { return Spot::Loose };
        let Some(package) = self.packages.iter().position(|package| holds(&package.cpus, &near.cpus)) else {
            return Spot::Loose;
        };
        let nodes = self.packages.get(package).map(|package| package.nodes.as_slice()).unwrap_or_default();
        match nodes.iter().position(|node| node.numa.is_some_and(|numa| holds(&numa.cpus, &near.cpus))) {
            Some(node) => Spot::Node(package, node),
            None => Spot::Package(package),
        }
    }

    /// Memory that is near to a GPU, such as its own, belongs to the GPU's package.
    fn memory_spot(&self, machine: &Machine, id: u32) -> Spot {
        let near = machine.gpus.iter().filter_map(|gpu| gpu.locality.as_ref()).find(|near| near.nodes.contains(id));
        match self.spot(near) {
            Spot::Node(package, _) | Spot::Package(package) => Spot::Package(package),
            Spot::Loose => Spot::Loose,
        }
    }

    fn at(&mut self, spot: Spot) -> &mut Hanging<'m> {
        match spot {
            Spot::Loose => &mut self.loose,
            Spot::Package(package) => match self.packages.get_mut(package) {
                Some(package) => &mut package.hanging,
                None => &mut self.loose,
            },
            Spot::Node(package, node) => match self.packages.get_mut(package).and_then(|p| p.nodes.get_mut(node)) {
                Some(node) => &mut node.hanging,
                None => &mut self.loose,
            },
        }
    }
}

impl<'m> Hanging<'m> {
    /// Whether nothing hangs here.
    pub fn is_empty(&self) -> bool {
        self.gpus.is_empty() && self.nics.is_empty() && self.memory.is_empty()
    }

    /// Puts a NIC beside the GPU that shares most with it.
    fn take(&mut self, machine: &Machine, nic: &'m Nic) {
        let shares = self.gpus.iter_mut().filter_map(|here| Some((sharing(machine, here.gpu, nic)?, here)));
        match shares.min_by_key(|(sharing, here)| (*sharing, here.nics.len(), here.index)) {
            Some((sharing, here)) => here.nics.push((nic, sharing)),
            None => self.nics.push(nic),
        }
    }
}

/// Whether a device with these near CPUs lies within `outer`. One without near CPUs lies nowhere.
fn holds(outer: &CpuSet, near: &CpuSet) -> bool {
    !near.is_empty() && near.is_subset(outer)
}

/// How a GPU and a NIC share bridges; `None` when the host bridge, or less, is all they share.
fn sharing(machine: &Machine, gpu: &Gpu, nic: &Nic) -> Option<Sharing> {
    let seen = nics::see(machine, gpu, nic);
    match seen.nearness {
        Nearness::Switch if seen.single_switch() => Some(Sharing::Pix),
        Nearness::Switch => Some(Sharing::Pxb),
        Nearness::Root | Nearness::Numa | Nearness::Other => None,
    }
}

fn packages(machine: &Machine) -> Vec<Package<'_>> {
    let sets: Vec<CpuSet> = match machine.packages.as_slice() {
        [] => vec![machine.cpus.clone()],
        packages => packages.iter().map(|package| package.cpus.clone()).collect(),
    };
    sets.into_iter().map(|cpus| Package { nodes: nodes(machine, &cpus), cpus, hanging: Hanging::default() }).collect()
}

/// The nodes of a package, and last the cores that belong to none.
fn nodes<'m>(machine: &'m Machine, package: &CpuSet) -> Vec<Node<'m>> {
    let here = machine.numa.iter().filter(|node| !node.cpus.is_disjoint(package));
    let mut nodes: Vec<Node<'m>> = here.map(|node| part(machine, Some(node), &(&node.cpus & package))).collect();
    let counted = machine.numa.iter().fold(CpuSet::new(), |all, node| &all | &node.cpus);
    let rest = package - &counted;
    if !rest.is_empty() {
        nodes.push(part(machine, None, &rest));
    }
    nodes
}

fn part<'m>(machine: &'m Machine, numa: Option<&'m NumaNode>, cpus: &CpuSet) -> Node<'m> {
    let cores = machine.cores.iter().enumerate();
    let cores = cores.filter(|(_, core)| core.pus.first().is_some_and(|cpu| cpus.contains(cpu))).collect();
    Node { numa, cores, hanging: Hanging::default() }
}

/// Memory-only nodes that differ in nothing but their number, together: their ids and the memory of each.
pub fn alike<'m>(nodes: &[&'m NumaNode]) -> Vec<(NodeSet, &'m NumaNode)> {
    let mut groups: Vec<(NodeSet, &'m NumaNode)> = Vec::new();
    for node in nodes {
        match groups
            .iter_mut()
            .find(|(_, like)| (like.memory_bytes, like.gpu_memory) == (node.memory_bytes, node.gpu_memory))
        {
            Some((ids, _)) => {
                ids.insert(node.id);
            }
            None => groups.push(([node.id].into_iter().collect(), node)),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpu_tune_engine::machine::testing::{gh200_x4, near, turin};

    fn nic(name: &str, bridges: &[&str], locality: Option<Locality>) -> Nic {
        let bridges = bridges.iter().map(|address| address.parse().unwrap()).collect();
        Nic { name: name.to_owned(), pci: None, locality, ports: Vec::new(), bridges, root: None }
    }

    fn gpus(hanging: &Hanging<'_>) -> Vec<usize> {
        hanging.gpus.iter().map(|here| here.index).collect()
    }

    #[test]
    fn a_gpu_hangs_at_the_node_that_is_nearest() {
        let machine = turin();
        let tree = Tree::of(&machine);
        let at: Vec<Vec<usize>> =
            tree.packages.iter().flat_map(|package| &package.nodes).map(|node| gpus(&node.hanging)).collect();
        assert_eq!(at, [vec![], vec![0], vec![1], vec![], vec![], vec![], vec![2], vec![3]]);
        assert!(tree.loose.is_empty());
    }

    #[test]
    fn a_gpu_of_a_whole_package_hangs_at_the_package_and_one_of_all_beside_them() {
        let mut machine = turin();
        machine.gpus[0].locality = Some(near(&machine, &[0, 1, 2, 3]));
        machine.gpus[1].locality = Some(near(&machine, &[0, 4]));
        machine.gpus[2].locality = None;
        let tree = Tree::of(&machine);
        assert_eq!((gpus(&tree.packages[0].hanging), gpus(&tree.loose)), (vec![0], vec![1, 2]));
    }

    #[test]
    fn a_nic_stands_beside_the_gpu_that_shares_its_switch() {
        let mut machine = turin();
        let switch = ["0000:00:01.1", "0000:01:00.0"];
        let bridge = |end: &'static str| [&switch[..], &[end]].concat();
        machine.gpus[0].bridges = bridge("0000:02:01.0").iter().map(|address| address.parse().unwrap()).collect();
        let here = Some(near(&machine, &[1]));
        machine.nics = vec![
            nic("far", &["0000:00:03.1"], here.clone()),
            nic("pix", &bridge("0000:02:02.0"), here.clone()),
            nic("pxb", &[&bridge("0000:02:03.0")[..], &["0000:05:00.0"]].concat(), here),
            nic("virtual", &[], None),
        ];
        let tree = Tree::of(&machine);
        let node = &tree.packages[0].nodes[1].hanging;
        let beside: Vec<(&str, Sharing)> =
            node.gpus[0].nics.iter().map(|(nic, sharing)| (nic.name.as_str(), *sharing)).collect();
        assert_eq!(beside, [("pix", Sharing::Pix), ("pxb", Sharing::Pxb)]);
        assert_eq!((node.nics[0].name.as_str(), tree.loose.nics[0].name.as_str()), ("far", "virtual"));
    }

    #[test]
    fn memory_of_a_gpu_hangs_at_the_gpus_package() {
        let machine = gh200_x4();
        let tree = Tree::of(&machine);
        assert_eq!(tree.packages.len(), 4);
        for package in &tree.packages {
            assert_eq!((package.nodes.len(), package.hanging.memory.len()), (1, 8));
        }
        let ids: Vec<String> = alike(&tree.packages[1].hanging.memory).iter().map(|(ids, _)| ids.to_string()).collect();
        assert_eq!(ids, ["12", "13-19"]);
    }

    #[test]
    fn every_core_is_in_the_tree_once() {
        for machine in [turin(), gh200_x4(), Machine { packages: Vec::new(), numa: Vec::new(), ..turin() }] {
            let tree = Tree::of(&machine);
            let nodes = tree.packages.iter().flat_map(|package| &package.nodes);
            let mut cores: Vec<usize> = nodes.flat_map(|node| node.cores.iter().map(|(number, _)| *number)).collect();
            cores.sort_unstable();
            assert_eq!(cores, (0..machine.cores.len()).collect::<Vec<_>>());
        }
    }
}
