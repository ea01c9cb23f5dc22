//! What the kernel of this machine says in /sys about sockets, NUMA nodes and the display devices that stand for GPUs: the
//! second witness, read without hwloc and without any of gpu-tune's discovery.

use gpu_tune_engine::{CpuSet, NodeSet, PciAddress};
use std::fs;
use std::path::Path;

/// The machine as /sys shows it.
pub(crate) struct Truth {
    /// Online NUMA nodes.
    pub(crate) nodes: NodeSet,
    /// The stand-in GPUs by PCI address, which is gres.conf's order too.
    pub(crate) gpus: Vec<Gpu>,
    /// Hardware threads per core.
    pub(crate) threads: usize,
}

/// A display device that stands for a GPU.
pub(crate) struct Gpu {
    /// Its function.
    pub(crate) pci: PciAddress,
    /// Its NUMA node.
    pub(crate) node: u32,
    /// The CPUs of that node.
    pub(crate) cpus: CpuSet,
}

impl Truth {
    /// What the driver of these GPUs would tell through NVML: names, but no affinity, so that hwloc has to place them.
    pub(crate) fn nvml(&self) -> String {
        let gpu = |(minor, gpu): (usize, &Gpu)| {
            let uuid = format!("GPU-{minor:08x}-1111-2222-3333-444444444444");
            format!(r#"{{"pci":"{}","uuid":"{uuid}","model":"NVIDIA H200","minor":{minor}}}"#, gpu.pci)
        };
        let gpus: Vec<String> = self.gpus.iter().enumerate().map(gpu).collect();
        format!(r#"{{"driver":"550.54.15","gpus":[{}]}}"#, gpus.join(","))
    }

    /// Reads this machine. There are stand-ins only in the virtual NUMA node.
    pub(crate) fn read() -> Self {
        let cpu = Path::new("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list");
        Self { nodes: list(Path::new("/sys/devices/system/node/online")), gpus: stand_ins(), threads: list(cpu).len() }
    }

    /// The CPUs of a NUMA node.
    pub(crate) fn cpus_of(&self, node: u32) -> CpuSet {
        cpus_of(node)
    }

    /// All CPUs.
    pub(crate) fn cpus(&self) -> CpuSet {
        list(Path::new("/sys/devices/system/cpu/online"))
    }

    /// The nodes of these CPUs.
    pub(crate) fn nodes_of(&self, cpus: &CpuSet) -> NodeSet {
        self.nodes.iter().filter(|node| !cpus_of(*node).is_disjoint(cpus)).collect()
    }

    /// The hardware threads of a CPU's core.
    pub(crate) fn core_of(&self, cpu: u32) -> CpuSet {
        list(Path::new(&format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")))
    }
}

fn cpus_of(node: u32) -> CpuSet {
    list(Path::new(&format!("/sys/devices/system/node/node{node}/cpulist")))
}

fn list(path: &Path) -> CpuSet {
    text(path).parse().unwrap()
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// QEMU's `bochs-display` (1234, class 0380), ascending by address.
fn stand_ins() -> Vec<Gpu> {
    let devices = fs::read_dir("/sys/bus/pci/devices").into_iter().flatten().flatten().map(|entry| entry.path());
    let mut gpus: Vec<Gpu> = devices.filter_map(|device| stand_in(&device)).collect();
    gpus.sort_by_key(|gpu| gpu.pci);
    gpus
}

fn stand_in(device: &Path) -> Option<Gpu> {
    let is = |file: &str, wanted: &str| text(&device.join(file)) == wanted;
    if !is("vendor", "0x1234") || !is("class", "0x038000") {
        return None;
    }
    let node = text(&device.join("numa_node")).parse().unwrap();
    Some(Gpu { pci: device.file_name()?.to_str()?.parse().ok()?, node, cpus: cpus_of(node) })
}
