//! A machine as plain data: what a node is made of, and how near things are.
//!
//! Everything here is a fact somebody read (hwloc, NVML, /sys) or a test wrote down; nothing is decided. Unknown is `None`,
//! never 0. CPUs and NUMA nodes go by the kernel's numbers, GPUs by PCI address. The same types are the snapshot's format
//! (see [`crate::snapshot`]): a field may be added with a default, not renamed.
#![forbid(unsafe_code)]

#[cfg(any(test, feature = "testing"))]
pub mod testing;

use crate::{CpuSet, IdSet, NodeSet, PciAddress};
use serde::{Deserialize, Serialize};

/// One node of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Every online PU, also those that this process may not use (reserved by CoreSpec, outside the cgroup).
    pub cpus: CpuSet,
    /// Packages in hwloc's logical order.
    pub packages: Vec<Package>,
    /// NUMA nodes, ascending by id. Ids may have gaps (0, 8 on POWER9) and may lack 0.
    pub numa: Vec<NumaNode>,
    /// Cores in hwloc's logical order, which keeps cores that share caches together and goes package by package, as Slurm's
    /// abstract core numbers do. Only cores with at least one online PU.
    pub cores: Vec<Core>,
    /// GPUs, ascending by PCI address; an index into this list is the GPU number of the JSON and of every message.
    pub gpus: Vec<Gpu>,
    /// RDMA devices, ascending by name.
    #[serde(default)]
    pub nics: Vec<Nic>,
    /// CPUs that the kernel keeps from its scheduler (`isolcpus`), from /sys/devices/system/cpu/isolated.
    #[serde(default)]
    pub isolated: CpuSet,
    /// Version of the NVIDIA driver (`550.54.15`), from /proc/driver/nvidia/version or NVML.
    #[serde(default)]
    pub driver: Option<String>,
}

/// A processor package (socket).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Package {
    /// Its online PUs.
    pub cpus: CpuSet,
}

/// A NUMA node: memory, and the CPUs nearest to it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumaNode {
    /// The kernel's number.
    pub id: u32,
    /// The CPUs that the kernel counts to this node. Empty for nodes that are only memory (CXL, HBM, GPU memory), also where
    /// hwloc shows those with their socket's cpuset.
    pub cpus: CpuSet,
    /// Local memory in bytes; `None` when unknown, `Some(0)` for a node without memory.
    pub memory_bytes: Option<u64>,
    /// The memory is a GPU's (hwloc's subtype `GPUMemory`: GH200, GB200, POWER9 with V100). No rank's policy names it.
    #[serde(default)]
    pub gpu_memory: bool,
}

/// A physical core.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Core {
    /// Its online PUs (hardware threads).
    pub pus: CpuSet,
    /// The highest `highest_perf` that firmware names for its PUs (CPPC, /sys/devices/system/cpu/cpu*/acpi_cppc): larger is
    /// faster. `None` without CPPC.
    #[serde(default)]
    pub highest_perf: Option<u32>,
}

/// Who made a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Vendor {
    /// PCI vendor 10de.
    Nvidia,
    /// PCI vendor 1002.
    Amd,
}

/// One physical GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gpu {
    /// Its PCI function.
    pub pci: PciAddress,
    /// Who made it.
    pub vendor: Vendor,
    /// NVML's UUID (`GPU-8932f937-…`). `None` when unknown, also where the driver still shows question marks.
    #[serde(default)]
    pub uuid: Option<String>,
    /// Product name as the driver writes it (`NVIDIA H200`).
    #[serde(default)]
    pub model: Option<String>,
    /// N of /dev/nvidiaN. Need not follow the PCI order.
    #[serde(default)]
    pub minor: Option<u32>,
    /// MIG devices made of this GPU; empty without MIG.
    #[serde(default)]
    pub mig: Vec<MigDevice>,
    /// What is near, or `None` when no source knew (`numa_node` -1, hung below the whole machine).
    #[serde(default)]
    pub locality: Option<Locality>,
    /// The bridges above it, from the host bridge down: what it shares with a NIC tells how near that is.
    #[serde(default)]
    pub bridges: Vec<PciAddress>,
    /// PCI domain and bus of the host bridge (root complex) it hangs under, as sysfs names it (`pci0000:00`).
    #[serde(default)]
    pub root: Option<String>,
}

/// A slice of a GPU that CUDA treats as a device. It has its parent's PCI function, so its parent's locality.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigDevice {
    /// `MIG-xxxxxxxx-…` (driver 470 and later).
    pub uuid: String,
    /// GPU instance, the second part of the old name `MIG-GPU-<uuid>/<gi>/<ci>`.
    #[serde(default)]
    pub gi: Option<u32>,
    /// Compute instance, the third part of the old name.
    #[serde(default)]
    pub ci: Option<u32>,
}

/// The CPUs and NUMA nodes nearest to a device, and who said so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Locality {
    /// Nearest online PUs. Empty when the device hangs at a node without CPUs.
    pub cpus: CpuSet,
    /// Nearest NUMA nodes.
    pub nodes: NodeSet,
    /// The source, a rung of the locality ladder.
    pub source: LocalitySource,
}

/// The rungs of the locality ladder that discovery can climb, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LocalitySource {
    /// The device's place in hwloc's tree.
    Hwloc,
    /// `numa_node` and `local_cpulist` of /sys.
    Sysfs,
    /// NVML's CPU and memory affinity.
    Nvml,
}

/// An RDMA device (/sys/class/infiniband/NAME).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nic {
    /// `mlx5_0`.
    pub name: String,
    /// Its PCI function; virtual devices (rxe, siw) have none.
    #[serde(default)]
    pub pci: Option<PciAddress>,
    /// What is near.
    #[serde(default)]
    pub locality: Option<Locality>,
    /// Its ports.
    #[serde(default)]
    pub ports: Vec<Port>,
    /// As [`Gpu::bridges`].
    #[serde(default)]
    pub bridges: Vec<PciAddress>,
    /// As [`Gpu::root`].
    #[serde(default)]
    pub root: Option<String>,
}

/// One port of an RDMA device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    /// Its number, from 1.
    pub number: u32,
    /// `state` is `4: ACTIVE`.
    pub active: bool,
    /// What runs on the wire.
    pub link_layer: LinkLayer,
    /// `rate` as the kernel writes it (`400 Gb/sec (4X NDR)`).
    #[serde(default)]
    pub rate: Option<String>,
}

/// What runs on an RDMA port's wire (`link_layer` of /sys).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LinkLayer {
    /// `InfiniBand`.
    Infiniband,
    /// `Ethernet`: RoCE.
    Ethernet,
    /// Anything else, such as EFA's `Unspecified`.
    Other,
}

impl Vendor {
    /// Whose GPU a PCI function is, by its vendor and its class (class and subclass: the upper 16 of the 24 bits that sysfs
    /// shows). `None` for everything that cannot run a rank, such as the VGA of a BMC.
    ///
    /// NVIDIA: display class 03xx. AMD Instinct: 0380, 0302 or 1200; AMD's 0300 is a desktop card or an APU.
    pub fn of_function(vendor: u16, class: u16) -> Option<Self> {
        let vendor = Self::of_id(vendor)?;
        let runs_ranks = match vendor {
            Self::Nvidia => (0x0300..=0x03ff).contains(&class),
            Self::Amd => matches!(class, 0x0302 | 0x0380 | 0x1200),
        };
        runs_ranks.then_some(vendor)
    }

    /// The vendor with that PCI number, if it makes GPUs that ranks run on.
    pub fn of_id(vendor: u16) -> Option<Self> {
        match vendor {
            0x10de => Some(Self::Nvidia),
            0x1002 => Some(Self::Amd),
            _ => None,
        }
    }
}

impl Gpu {
    /// A GPU of which nothing else is known.
    pub fn new(pci: PciAddress, vendor: Vendor) -> Self {
        Self {
            pci,
            vendor,
            uuid: None,
            model: None,
            minor: None,
            mig: Vec::new(),
            locality: None,
            bridges: Vec::new(),
            root: None,
        }
    }
}

impl Nic {
    /// The link layer of its active ports, or of all ports when none is active; `None` when they differ or there is none.
    pub fn link_layer(&self) -> Option<LinkLayer> {
        let any_active = self.ports.iter().any(|port| port.active);
        let mut layers = self.ports.iter().filter(|port| port.active || !any_active).map(|port| port.link_layer);
        let first = layers.next()?;
        layers.all(|layer| layer == first).then_some(first)
    }

    /// Whether traffic can flow: some port is active.
    pub fn active(&self) -> bool {
        self.ports.iter().any(|port| port.active)
    }
}

impl Machine {
    /// The product names of these GPUs; an empty one where it is unknown.
    pub fn models(&self, gpus: &[usize]) -> Vec<String> {
        let model = |&gpu: &usize| self.gpus.get(gpu).and_then(|gpu| gpu.model.clone()).unwrap_or_default();
        gpus.iter().map(model).collect()
    }

    /// The NUMA nodes that the kernel counts any of `cpus` to.
    pub fn nodes_of(&self, cpus: &CpuSet) -> NodeSet {
        self.numa.iter().filter(|node| !node.cpus.is_disjoint(cpus)).map(|node| node.id).collect()
    }

    /// The CPUs of cores that Slurm numbers `numbers` (`S_STEP_ALLOC_CORES`): Slurm counts cores package by package, as
    /// [`Machine::cores`] does. Numbers beyond the last core are left out.
    pub fn cpus_of_cores(&self, numbers: &IdSet) -> CpuSet {
        let mut cpus = CpuSet::new();
        let cores = numbers.iter().filter_map(|number| self.cores.get(usize::try_from(number).ok()?));
        cores.for_each(|core| cpus.extend(&core.pus));
        cpus
    }

    /// Whether a memory policy may name the node: it has memory (or nobody knows), and the memory is not a GPU's.
    pub fn has_host_memory(&self, node: u32) -> bool {
        self.numa.iter().any(|n| n.id == node && n.memory_bytes != Some(0) && !n.gpu_memory)
    }
}
