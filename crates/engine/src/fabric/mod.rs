//! The node's RDMA network, as far as variables depend on it: what runs on the wires, and where the RoCE v2 address stands in
//! the adapters' tables.
//!
//! Read from /sys/class/infiniband below a root that the caller names, at most a few small files per port. The index of an
//! address is a local matter: it may differ between nodes, but on one node a single variable serves all adapters.
#![forbid(unsafe_code)]

mod gid;
mod hca;
mod range;

pub use gid::NoIndex;
pub use hca::HcaFilter;
pub use range::{AddressRange, BadRange};

use crate::machine::{LinkLayer, Nic};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// More devices or ports than any machine has.
const DEVICES_MAX: usize = 256;
const PORTS_MAX: usize = 64;
/// Bytes of one file of /sys.
const FILE_MAX: u64 = 4096;

/// The RDMA ports of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Fabric {
    ports: Vec<Port>,
    /// The root below which the tables of addresses can be read; `None`: they cannot.
    root: Option<PathBuf>,
}

/// One port of one RDMA device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// The device, such as `mlx5_0`; a bond of two ports is one device (`mlx5_bond_0`).
    pub device: String,
    /// Its number, from 1.
    pub number: u32,
    /// Traffic can flow.
    pub active: bool,
    /// What runs on the wire.
    pub link_layer: LinkLayer,
}

impl Fabric {
    /// Reads the ports below `root` (`/` on the host itself). A machine without RDMA has none; what cannot be read is
    /// left out.
    pub fn read(root: &Path) -> Self {
        let class = root.join("sys/class/infiniband");
        let mut ports = Vec::new();
        for device in names(&class, DEVICES_MAX) {
            let dir = class.join(&device).join("ports");
            let mut numbers: Vec<u32> = names(&dir, PORTS_MAX).iter().filter_map(|name| name.parse().ok()).collect();
            numbers.sort_unstable();
            ports.extend(numbers.into_iter().map(|number| port(&device, number, &dir.join(number.to_string()))));
        }
        Self { ports, root: Some(root.to_owned()) }
    }

    /// The ports of a machine read earlier or elsewhere; the tables of addresses are not known.
    pub fn of_machine(nics: &[Nic]) -> Self {
        let of_nic = |nic: &Nic| {
            let device = nic.name.clone();
            let port = move |port: &crate::machine::Port| Port {
                device: device.clone(),
                number: port.number,
                active: port.active,
                link_layer: port.link_layer,
            };
            nic.ports.iter().map(port).collect::<Vec<_>>()
        };
        Self { ports: nics.iter().flat_map(of_nic).collect(), root: None }
    }

    /// What runs on the wires of the active ports that NCCL will use.
    pub fn link_layers(&self, filter: &HcaFilter) -> BTreeSet<LinkLayer> {
        self.selected(filter).map(|port| port.link_layer).collect()
    }

    /// The index of the RoCE v2 address, equal for all active Ethernet ports that NCCL will use.
    pub fn rocev2_gid_index(&self, filter: &HcaFilter, range: Option<&AddressRange>) -> Result<u32, NoIndex> {
        let root = self.root.as_deref().ok_or(NoIndex::NotRead)?;
        let ports: Vec<&Port> = self.selected(filter).filter(|port| port.link_layer == LinkLayer::Ethernet).collect();
        gid::common_index(root, &ports, range)
    }

    fn selected<'a>(&'a self, filter: &'a HcaFilter) -> impl Iterator<Item = &'a Port> {
        self.ports.iter().filter(|port| port.active && filter.takes(&port.device, port.number))
    }
}

fn port(device: &str, number: u32, dir: &Path) -> Port {
    let link_layer = match text(&dir.join("link_layer")).as_deref() {
        // Very old kernels have no such file and know nothing but InfiniBand.
        Some("InfiniBand") | None => LinkLayer::Infiniband,
        Some("Ethernet") => LinkLayer::Ethernet,
        Some(_) => LinkLayer::Other,
    };
    let active = text(&dir.join("state")).is_some_and(|state| state.starts_with("4:"));
    Port { device: device.to_owned(), number, active, link_layer }
}

/// The names in a directory, sorted; none if it is not there.
fn names(dir: &Path, most: usize) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten().take(most);
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}

/// The first line of a small file, without blanks around it. `None`: it cannot be read; the kernel answers EINVAL for
/// slots of a table that are empty.
fn text(path: &Path) -> Option<String> {
    let mut text = String::new();
    File::open(path).ok()?.take(FILE_MAX).read_to_string(&mut text).ok()?;
    Some(text.lines().next().unwrap_or_default().trim().to_owned())
}

#[cfg(test)]
mod tests;
