//! How near each RDMA device is to a GPU, by what the two share on the way to memory.
//!
//! The classes are those of `nvidia-smi topo -m`: PIX and PXB are [`Nearness::Switch`], PHB is [`Nearness::Root`], NODE is
//! [`Nearness::Numa`], SYS is [`Nearness::Other`].
#![forbid(unsafe_code)]

use super::locality::device_cpus;
use crate::Machine;
use crate::machine::{Gpu, Nic};

/// What a GPU and a NIC share, nearest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Nearness {
    /// A PCI bridge below the host bridge: traffic between them need not pass the CPU.
    Switch,
    /// The host bridge.
    Root,
    /// The nearest CPUs, by other host bridges.
    Numa,
    /// Nothing, or nobody knows.
    Other,
}

impl Nearness {
    /// The stable text: `switch`, `root`, `numa` or `other`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Switch => "switch",
            Self::Root => "root",
            Self::Numa => "numa",
            Self::Other => "other",
        }
    }
}

/// An RDMA device as seen from a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeenNic<'a> {
    /// The device.
    pub nic: &'a Nic,
    /// What it shares with the GPU.
    pub nearness: Nearness,
    /// Bridges above the GPU and above the NIC that the two do not share; 0 where they share none.
    pub apart: [usize; 2],
}

impl SeenNic<'_> {
    /// Bridges between the two that they do not share.
    pub fn hops(&self) -> usize {
        self.apart.iter().sum()
    }

    /// Whether one PCI switch is all that is between them: `PIX`, while other switches are `PXB`.
    pub fn single_switch(&self) -> bool {
        self.nearness == Nearness::Switch && self.apart.iter().all(|bridges| *bridges <= 1)
    }
}

/// The RDMA devices with an active port, nearest first, those of equal distance by name. `gpu` is an index into
/// [`Machine::gpus`]; for one that is not there the answer is empty.
pub fn by_distance(machine: &Machine, gpu: usize) -> Vec<SeenNic<'_>> {
    let Some(gpu) = machine.gpus.get(gpu) else { return Vec::new() };
    let active = machine.nics.iter().filter(|nic| nic.active());
    let mut seen: Vec<SeenNic<'_>> = active.map(|nic| see(machine, gpu, nic)).collect();
    seen.sort_by_key(|seen| (seen.nearness, seen.hops()));
    seen
}

/// The nearest of them, for `{near_nics}`: all of the best class and distance. Empty when none is near at all.
pub fn nearest(machine: &Machine, gpu: usize) -> Vec<&Nic> {
    let seen = by_distance(machine, gpu);
    let Some(best) = seen.first().map(|first| (first.nearness, first.hops())) else { return Vec::new() };
    let near = seen.iter().filter(|seen| best.0 != Nearness::Other && (seen.nearness, seen.hops()) == best);
    near.map(|seen| seen.nic).collect()
}

/// One of them, whether its ports are active or not, as seen from one GPU of the same machine.
pub fn see<'a>(machine: &Machine, gpu: &Gpu, nic: &'a Nic) -> SeenNic<'a> {
    let same_root = gpu.root.is_some() && gpu.root == nic.root;
    let shared = if same_root || gpu.root.is_none() || nic.root.is_none() { shared_bridges(gpu, nic) } else { 0 };
    let nearness = match shared {
        1.. => Nearness::Switch,
        0 if same_root => Nearness::Root,
        0 if same_cpus(machine, gpu, nic) => Nearness::Numa,
        0 => Nearness::Other,
    };
    let apart = |bridges: usize| if nearness == Nearness::Switch { bridges - shared } else { 0 };
    SeenNic { nic, nearness, apart: [&gpu.bridges, &nic.bridges].map(|bridges| apart(bridges.len())) }
}

fn shared_bridges(gpu: &Gpu, nic: &Nic) -> usize {
    gpu.bridges.iter().zip(&nic.bridges).take_while(|(mine, its)| mine == its).count()
}

fn same_cpus(machine: &Machine, gpu: &Gpu, nic: &Nic) -> bool {
    let of_gpu = device_cpus(machine, gpu.locality.as_ref());
    // A device without a PCI function (rxe, siw) is software: it is nowhere.
    let of_nic = nic.pci.and_then(|_| device_cpus(machine, nic.locality.as_ref()));
    of_gpu.zip(of_nic).is_some_and(|(mine, its)| !mine.is_disjoint(&its))
}
