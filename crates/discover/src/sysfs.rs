//! Reads /sys and /proc/driver/nvidia, below a root that a replayed tree can take the place of.
//!
//! A file that is not there, or does not hold what it should, is `None`: which files exist depends on kernel, driver and
//! firmware. The formats were checked on captured nodes.

use gpu_tune_engine::machine::{LinkLayer, Port};
use gpu_tune_engine::{CpuSet, NodeSet, PciAddress};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// /sys and /proc of some machine.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    root: PathBuf,
}

/// What the kernel knows of a NUMA node.
#[derive(Debug)]
pub(crate) struct NodeFacts {
    pub(crate) cpus: CpuSet,
    pub(crate) memory_bytes: Option<u64>,
}

/// What the kernel knows of a PCI function.
#[derive(Debug, Default)]
pub(crate) struct Function {
    /// `None` for -1 and where the file is missing (POWER9).
    pub(crate) node: Option<u32>,
    /// Every online CPU where firmware does not say.
    pub(crate) cpus: Option<CpuSet>,
    pub(crate) bridges: Vec<PciAddress>,
    pub(crate) root: Option<String>,
}

/// What the NVIDIA driver's files tell of a GPU without waking it.
#[derive(Debug, Default)]
pub(crate) struct DriverGpu {
    /// `None` until the GPU was initialised once: the file has question marks then.
    pub(crate) uuid: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) minor: Option<u32>,
    /// The NUMA node that is this GPU's memory, on coherent platforms.
    pub(crate) memory_node: Option<u32>,
}

/// What the amdgpu driver's files tell of a GPU.
#[derive(Debug, Default)]
pub(crate) struct AmdGpu {
    /// As ROCm names it in `ROCR_VISIBLE_DEVICES`: `GPU-` and the driver's `unique_id`.
    pub(crate) uuid: Option<String>,
    pub(crate) model: Option<String>,
}

/// An RDMA device.
#[derive(Debug)]
pub(crate) struct RdmaDevice {
    /// `None` for virtual ones (rxe, siw).
    pub(crate) pci: Option<PciAddress>,
    pub(crate) ports: Vec<Port>,
}

impl Tree {
    pub(crate) fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// CPUs that the kernel keeps from its scheduler.
    pub(crate) fn isolated(&self) -> CpuSet {
        self.value("sys/devices/system/cpu/isolated").unwrap_or_default()
    }

    /// `highest_perf` of a CPU.
    pub(crate) fn highest_perf(&self, cpu: u32) -> Option<u32> {
        self.value(format!("sys/devices/system/cpu/cpu{cpu}/acpi_cppc/highest_perf"))
    }

    /// The NUMA nodes that are online.
    pub(crate) fn nodes(&self) -> BTreeMap<u32, NodeFacts> {
        let online: NodeSet = self.value("sys/devices/system/node/online").unwrap_or_default();
        online.iter().filter_map(|id| Some((id, self.node(id)?))).collect()
    }

    fn node(&self, id: u32) -> Option<NodeFacts> {
        let directory = format!("sys/devices/system/node/node{id}");
        let cpus = self.value(format!("{directory}/cpulist"))?;
        let memory = self.text(format!("{directory}/meminfo")).and_then(|text| total(&text));
        Some(NodeFacts { cpus, memory_bytes: memory })
    }

    /// A PCI function; `None` where the kernel shows none at this address.
    pub(crate) fn function(&self, address: PciAddress) -> Option<Function> {
        let directory = self.root.join("sys/bus/pci/devices").join(address.to_string());
        let real = fs::canonicalize(&directory).ok()?;
        let (root, bridges) = way(&real, address);
        let node: Option<i64> = self.value(directory.join("numa_node"));
        Some(Function {
            node: node.and_then(|node| u32::try_from(node).ok()),
            cpus: self.value(directory.join("local_cpulist")),
            bridges,
            root,
        })
    }

    /// An AMD GPU; nothing is known without its driver.
    pub(crate) fn amd_gpu(&self, address: PciAddress) -> AmdGpu {
        let read = |file: &str| {
            let text = self.text(format!("sys/bus/pci/devices/{address}/{file}"))?;
            Some(text.trim().to_owned()).filter(|text| !text.is_empty())
        };
        AmdGpu { uuid: read("unique_id").map(|id| format!("GPU-{id}")), model: read("product_name") }
    }

    /// The GPUs that the NVIDIA driver holds, without those that its options exclude; empty without the driver.
    pub(crate) fn driver_gpus(&self) -> BTreeMap<PciAddress, DriverGpu> {
        let top = "proc/driver/nvidia/gpus";
        let gpus = self.names(top).into_iter().filter_map(|name| {
            let address = name.parse().ok()?;
            let text = self.text(format!("{top}/{name}/information")).unwrap_or_default();
            let excluded =
                ["GPU Excluded", "Blacklisted"].iter().any(|key| field(&text, key).as_deref() == Some("Yes"));
            if excluded {
                return None;
            }
            let status = self.text(format!("{top}/{name}/numa_status")).unwrap_or_default();
            Some((
                address,
                DriverGpu { memory_node: field(&status, "Node").and_then(|n| n.parse().ok()), ..information(&text) },
            ))
        });
        gpus.collect()
    }

    /// The RDMA devices by name; `None` on a kernel without them.
    pub(crate) fn rdma_devices(&self) -> Option<BTreeMap<String, RdmaDevice>> {
        let top = "sys/class/infiniband";
        self.root.join(top).is_dir().then(|| {
            self.names(top).into_iter().map(|name| (name.clone(), self.rdma_device(&format!("{top}/{name}")))).collect()
        })
    }

    fn rdma_device(&self, directory: &str) -> RdmaDevice {
        let function = fs::canonicalize(self.root.join(directory).join("device")).ok();
        let pci = function.as_deref().and_then(Path::file_name).and_then(|name| name.to_str()?.parse().ok());
        let ports = format!("{directory}/ports");
        let mut numbers: Vec<u32> = self.names(&ports).iter().filter_map(|name| name.parse().ok()).collect();
        numbers.sort_unstable();
        RdmaDevice { pci, ports: numbers.into_iter().map(|number| self.port(&ports, number)).collect() }
    }

    fn port(&self, ports: &str, number: u32) -> Port {
        let read = |file: &str| self.text(format!("{ports}/{number}/{file}")).map(|text| text.trim().to_owned());
        let link_layer = match read("link_layer").as_deref() {
            Some("InfiniBand") => LinkLayer::Infiniband,
            Some("Ethernet") => LinkLayer::Ethernet,
            _ => LinkLayer::Other,
        };
        let active = read("state").is_some_and(|state| state.starts_with("4:"));
        Port { number, active, link_layer, rate: read("rate").filter(|rate| !rate.is_empty()) }
    }

    /// A whole file that is one value.
    fn value<T: FromStr>(&self, path: impl AsRef<Path>) -> Option<T> {
        self.text(path)?.trim().parse().ok()
    }

    fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        let mut text = String::new();
        File::open(self.root.join(path)).ok()?.take(64 * 1024).read_to_string(&mut text).ok()?;
        Some(text)
    }

    fn names(&self, directory: &str) -> Vec<String> {
        let entries = fs::read_dir(self.root.join(directory)).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }
}

/// Host bridge and bridges above a function, from where its link leads: `…/pci0000:00/0000:00:01.5/0000:06:00.0`.
fn way(real: &Path, address: PciAddress) -> (Option<String>, Vec<PciAddress>) {
    let names: Vec<&str> = real.iter().filter_map(|name| name.to_str()).collect();
    let root = names.iter().find(|name| name.starts_with("pci") && name.contains(':')).map(|name| (*name).to_owned());
    let bridges = names.iter().filter_map(|name| name.parse().ok()).filter(|bridge| *bridge != address).collect();
    (root, bridges)
}

/// `/proc/driver/nvidia/gpus/*/information`.
fn information(text: &str) -> DriverGpu {
    DriverGpu {
        uuid: field(text, "GPU UUID").filter(|uuid| !uuid.contains('?')),
        model: field(text, "Model"),
        minor: field(text, "Device Minor").and_then(|minor| minor.parse().ok()),
        memory_node: None,
    }
}

/// The value of a `Key: value` line; `None` when it is empty.
fn field(text: &str, key: &str) -> Option<String> {
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?.trim();
    (!value.is_empty()).then(|| value.to_owned())
}

/// `Node 255 MemTotal:       15728640 kB` in bytes.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find(|line| line.contains(" MemTotal:"))?;
    let kib: u64 = line.split_ascii_whitespace().nth(3)?.parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree with these files.
    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Tree) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let tree = Tree::new(folder.path());
        (folder, tree)
    }

    #[test]
    fn the_drivers_file_is_read_as_the_driver_writes_it() {
        let text = "Model: \t\t NVIDIA L4\nIRQ:   \t\t 16\nGPU UUID: \t GPU-3291dfa4-fcc4-0110-615b-c894a0d7c689\n\
                    Bus Location: \t 0000:70:00.0\nDevice Minor: \t 2\nGPU Excluded:\t No\n";
        let gpu = information(text);
        assert_eq!((gpu.model.as_deref(), gpu.minor), (Some("NVIDIA L4"), Some(2)));
        assert_eq!(gpu.uuid.as_deref(), Some("GPU-3291dfa4-fcc4-0110-615b-c894a0d7c689"));
    }

    #[test]
    fn question_marks_are_no_uuid() {
        assert_eq!(information("GPU UUID: \t GPU-????????-????-????-????-????????????\n").uuid, None);
        assert_eq!(information("").model, None);
    }

    #[test]
    fn a_gpus_memory_node_is_in_its_numa_status() {
        let (_folder, tree) = tree(&[
            ("proc/driver/nvidia/gpus/0009:01:00.0/information", "Model: \t\t NVIDIA GH200 480GB\n"),
            ("proc/driver/nvidia/gpus/0009:01:00.0/numa_status", "Node:      1\nStatus:    online\n"),
        ]);
        let gpus = tree.driver_gpus();
        assert_eq!(gpus.values().map(|gpu| gpu.memory_node).collect::<Vec<_>>(), [Some(1)]);
    }

    #[test]
    fn an_empty_cpulist_is_an_empty_set_and_memory_is_in_bytes() {
        let (_folder, tree) = tree(&[
            ("sys/devices/system/node/online", "0,255\n"),
            ("sys/devices/system/node/node0/cpulist", "0-87\n"),
            ("sys/devices/system/node/node255/cpulist", "\n"),
            (
                "sys/devices/system/node/node255/meminfo",
                "Node 255 MemTotal:       15728640 kB\nNode 255 MemFree: 1 kB\n",
            ),
        ]);
        let nodes = tree.nodes();
        assert_eq!((nodes[&0].cpus.to_string().as_str(), nodes[&0].memory_bytes), ("0-87", None));
        assert_eq!((nodes[&255].cpus.to_string().as_str(), nodes[&255].memory_bytes), ("", Some(15_728_640 * 1024)));
    }

    #[test]
    fn minus_one_is_no_node_and_the_link_tells_the_bridges() {
        let real = "sys/devices/pci0000:00/0000:00:01.5/0000:06:00.0";
        let files = [(format!("{real}/numa_node"), "-1\n"), (format!("{real}/local_cpulist"), "0-7\n")];
        let (folder, tree) = tree(&files.each_ref().map(|(name, text)| (name.as_str(), *text)));
        let devices = folder.path().join("sys/bus/pci/devices");
        fs::create_dir_all(&devices).unwrap();
        std::os::unix::fs::symlink(folder.path().join(real), devices.join("0000:06:00.0")).unwrap();
        let function = tree.function("0000:06:00.0".parse().unwrap()).unwrap();
        assert_eq!((function.node, function.cpus.unwrap().to_string().as_str()), (None, "0-7"));
        assert_eq!(function.root.as_deref(), Some("pci0000:00"));
        assert_eq!(function.bridges, ["0000:00:01.5".parse().unwrap()]);
        assert!(tree.function("0000:07:00.0".parse().unwrap()).is_none());
    }

    #[test]
    fn an_rdma_device_is_read_port_by_port() {
        let (_folder, tree) = tree(&[
            ("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n"),
            ("sys/class/infiniband/mlx5_0/ports/1/link_layer", "Ethernet\n\n"),
            ("sys/class/infiniband/mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)\n"),
            ("sys/class/infiniband/mlx5_0/ports/2/state", "1: DOWN\n"),
        ]);
        let devices = tree.rdma_devices().unwrap();
        let ports = &devices["mlx5_0"].ports;
        assert_eq!((ports[0].active, ports[0].link_layer), (true, LinkLayer::Ethernet));
        assert_eq!(ports[0].rate.as_deref(), Some("400 Gb/sec (4X NDR)"));
        assert_eq!((ports[1].number, ports[1].active, ports[1].link_layer), (2, false, LinkLayer::Other));
        assert_eq!(devices["mlx5_0"].pci, None);
    }

    #[test]
    fn a_kernel_without_rdma_is_told_from_one_without_devices() {
        assert!(tree(&[]).1.rdma_devices().is_none());
        assert!(tree(&[("sys/class/infiniband/x/y", "")]).1.rdma_devices().is_some());
    }
}
