//! What becomes of a machine when hwloc, the kernel's files and NVML tell different things.

use super::*;
use gpu_tune_engine::machine::{Core, LinkLayer, LocalitySource};
use std::fs;
use std::os::unix::fs::symlink;

/// A machine with CPUs 0-3 on node 0 and 4-7 on node 1, its kernel's files, and GPUs as the tests add them.
struct Node {
    folder: tempfile::TempDir,
    shape: Shape,
    told: nvml::Facts,
}

impl Node {
    fn new() -> Self {
        let cpus = |list: &str| list.parse().unwrap();
        let node = |id, list| NumaNode { id, cpus: cpus(list), memory_bytes: Some(1 << 30), gpu_memory: false };
        let machine = Machine {
            cpus: cpus("0-7"),
            cores: (0..8).map(|cpu| Core { pus: [cpu].into_iter().collect(), highest_perf: None }).collect(),
            numa: vec![node(0, "0-3"), node(1, "4-7")],
            ..Machine::default()
        };
        let shape = Shape { machine, ..Shape::default() };
        Self { folder: tempfile::tempdir().unwrap(), shape, told: nvml::Facts::default() }
    }

    /// Adds a file of the kernel.
    fn file(mut self, name: &str, text: &str) -> Self {
        self.write(name, text);
        self
    }

    fn write(&mut self, name: &str, text: &str) {
        let path = self.folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Adds a PCI function to /sys, below the host bridge of bus 40.
    fn on_pci(mut self, address: &str, numa_node: &str, cpus: &str) -> Self {
        let real = format!("sys/devices/pci0000:40/{address}");
        self.write(&format!("{real}/numa_node"), numa_node);
        self.write(&format!("{real}/local_cpulist"), cpus);
        self.link(&format!("sys/bus/pci/devices/{address}"), &real);
        self
    }

    fn link(&self, name: &str, target: &str) {
        let path = self.folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(self.folder.path().join(target), path).unwrap();
    }

    /// Adds a GPU to hwloc's tree.
    fn in_hwloc(mut self, address: &str, cpus: &str, nodes: &str) -> Self {
        let place = Place { cpus: cpus.parse().unwrap(), nodes: nodes.parse().unwrap(), ..Place::default() };
        self.shape.machine.gpus.push(Gpu::new(pci(address), Vendor::Nvidia));
        self.shape.functions.insert(pci(address), place);
        self
    }

    /// Adds a GPU to NVML's list.
    fn in_nvml(mut self, address: &str, cpus: Option<&str>) -> Self {
        let cpus = cpus.map(|list| list.parse().unwrap());
        let uuid = Some(format!("GPU-nvml-{address}"));
        let gpu = GpuFacts { pci: pci(address), uuid, model: None, minor: Some(9), mig: Vec::new(), cpus, nodes: None };
        self.told.gpus.push(gpu);
        self
    }

    fn read(self) -> Found {
        machine(self.shape, &Tree::new(self.folder.path()), self.told)
    }
}

fn pci(address: &str) -> PciAddress {
    address.parse().unwrap()
}

/// Each GPU with what is near and who said so.
fn near(machine: &Machine) -> Vec<String> {
    let near = |gpu: &Gpu| match &gpu.locality {
        Some(locality) => format!("{} {} {:?}", gpu.pci, locality.nodes, locality.source),
        None => format!("{} unknown", gpu.pci),
    };
    machine.gpus.iter().map(near).collect()
}

const INFORMATION: &str = "Model: \t\t NVIDIA H200\nGPU UUID: \t GPU-files\nDevice Minor: \t 3\n";

fn information(address: &str) -> String {
    format!("proc/driver/nvidia/gpus/{address}/information")
}

#[test]
fn each_gpu_gets_its_place_from_the_best_source_that_knows() {
    let (machine, notices) = Node::new()
        .in_hwloc("0000:41:00.0", "4-7", "1")
        .in_hwloc("0000:42:00.0", "0-7", "0-1")
        .on_pci("0000:42:00.0", "1\n", "4-7\n")
        .in_hwloc("0000:43:00.0", "0-7", "0-1")
        .on_pci("0000:43:00.0", "-1\n", "0-7\n")
        .in_nvml("0000:43:00.0", Some("4-7"))
        .in_hwloc("0000:44:00.0", "0-7", "0-1")
        .on_pci("0000:44:00.0", "-1\n", "0-7\n")
        .read();
    let expected = ["0000:41:00.0 1 Hwloc", "0000:42:00.0 1 Sysfs", "0000:43:00.0 1 Nvml", "0000:44:00.0 unknown"];
    assert_eq!(near(&machine), expected);
    assert_eq!(notices, []);
}

#[test]
fn nvml_wins_over_the_drivers_files_and_those_over_nothing() {
    let (machine, _) = Node::new()
        .file(&information("0000:41:00.0"), INFORMATION)
        .file(&information("0000:42:00.0"), INFORMATION)
        .in_nvml("0000:42:00.0", None)
        .read();
    let shown: Vec<_> =
        machine.gpus.iter().map(|gpu| (gpu.uuid.as_deref().unwrap(), gpu.minor, gpu.model.as_deref())).collect();
    let model = Some("NVIDIA H200");
    assert_eq!(shown, [("GPU-files", Some(3), model), ("GPU-nvml-0000:42:00.0", Some(9), model)]);
}

#[test]
fn a_gpu_that_the_loaded_driver_does_not_hold_is_left_out_and_told() {
    let passed_through = || Node::new().in_hwloc("0000:41:00.0", "0-3", "0").in_hwloc("0000:42:00.0", "0-3", "0");
    let (machine, notices) = passed_through().file(&information("0000:42:00.0"), INFORMATION).read();
    assert_eq!(near(&machine), ["0000:42:00.0 0 Hwloc"]);
    let said: Vec<_> = notices.iter().map(|notice| notice.message.as_str()).collect();
    assert_eq!(said, ["GPU 0000:41:00.0 is left out: the NVIDIA driver does not hold it"]);
    assert_eq!(passed_through().read().0.gpus.len(), 2, "without a driver nobody can tell");
}

#[test]
fn a_gpu_that_the_drivers_options_exclude_is_left_out() {
    let excluded = format!("{INFORMATION}GPU Excluded:\t Yes\n");
    let (machine, notices) = Node::new()
        .in_hwloc("0000:41:00.0", "0-3", "0")
        .file(&information("0000:41:00.0"), &excluded)
        .in_hwloc("0000:42:00.0", "0-3", "0")
        .file(&information("0000:42:00.0"), INFORMATION)
        .read();
    assert_eq!((near(&machine), notices.len()), (vec!["0000:42:00.0 0 Hwloc".to_owned()], 1));
}

#[test]
fn an_amd_gpu_is_named_as_rocm_names_it() {
    let mut node = Node::new()
        .in_hwloc("0000:c1:00.0", "0-3", "0")
        .on_pci("0000:c1:00.0", "0\n", "0-3\n")
        .file("sys/devices/pci0000:40/0000:c1:00.0/unique_id", "e850aef0615db971\n")
        .file("sys/devices/pci0000:40/0000:c1:00.0/product_name", "AMD Instinct MI250X\n");
    node.shape.machine.gpus[0].vendor = Vendor::Amd;
    let (machine, _) = node.read();
    let gpu = &machine.gpus[0];
    assert_eq!(
        (gpu.uuid.as_deref(), gpu.model.as_deref()),
        (Some("GPU-e850aef0615db971"), Some("AMD Instinct MI250X"))
    );
}

#[test]
fn a_gpus_own_memory_is_no_node_for_a_rank() {
    let (machine, _) = Node::new()
        .file("sys/devices/system/node/online", "0-1,10\n")
        .file("sys/devices/system/node/node0/cpulist", "0-3\n")
        .file("sys/devices/system/node/node1/cpulist", "4-7\n")
        .file("sys/devices/system/node/node10/cpulist", "\n")
        .file("sys/devices/system/node/node10/meminfo", "Node 10 MemTotal:       100663296 kB\n")
        .file(&information("0009:01:00.0"), INFORMATION)
        .file("proc/driver/nvidia/gpus/0009:01:00.0/numa_status", "Node:      10\nStatus:    online\n")
        .on_pci("0009:01:00.0", "1\n", "4-7\n")
        .read();
    let nodes: Vec<_> = machine.numa.iter().map(|node| (node.id, node.cpus.to_string(), node.gpu_memory)).collect();
    let expected = [(0, "0-3", false), (1, "4-7", false), (10, "", true)];
    assert_eq!(nodes, expected.map(|(id, cpus, gpu)| (id, cpus.to_owned(), gpu)));
    assert!(!machine.has_host_memory(10));
    assert_eq!(near(&machine), ["0009:01:00.0 1 Sysfs"]);
}

#[test]
fn the_kernel_says_which_cpus_a_node_has() {
    let (machine, _) = Node::new()
        .file("sys/devices/system/node/online", "0-1\n")
        .file("sys/devices/system/node/node0/cpulist", "0-1,4-5\n")
        .file("sys/devices/system/node/node1/cpulist", "2-3,6-7\n")
        .read();
    assert_eq!(machine.numa.iter().map(|node| node.cpus.to_string()).collect::<Vec<_>>(), ["0-1,4-5", "2-3,6-7"]);
    assert_eq!(machine.numa[0].memory_bytes, Some(1 << 30), "hwloc's figure stays");
}

#[test]
fn isolated_cpus_and_firmwares_ranking_of_cores_are_kept() {
    let (machine, _) = Node::new()
        .file("sys/devices/system/cpu/isolated", "2-3\n")
        .file("sys/devices/system/cpu/cpu0/acpi_cppc/highest_perf", "255\n")
        .file("sys/devices/system/cpu/cpu1/acpi_cppc/highest_perf", "166\n")
        .read();
    assert_eq!(machine.isolated.to_string(), "2-3");
    let ranks: Vec<_> = machine.cores.iter().take(3).map(|core| core.highest_perf).collect();
    assert_eq!(ranks, [Some(255), Some(166), None]);
}

#[test]
fn rdma_devices_come_from_sys_with_place_and_ports() {
    let port = "sys/devices/pci0000:40/0000:45:00.0/infiniband/mlx5_0/ports/1";
    let node = Node::new()
        .on_pci("0000:45:00.0", "1\n", "4-7\n")
        .file(&format!("{port}/state"), "4: ACTIVE\n")
        .file(&format!("{port}/link_layer"), "Ethernet\n")
        .file("sys/class/infiniband/rxe0/ports/1/state", "1: DOWN\n");
    node.link("sys/class/infiniband/mlx5_0", "sys/devices/pci0000:40/0000:45:00.0/infiniband/mlx5_0");
    node.link("sys/devices/pci0000:40/0000:45:00.0/infiniband/mlx5_0/device", "sys/devices/pci0000:40/0000:45:00.0");
    let (machine, _) = node.read();
    let [real, soft] = &machine.nics[..] else { panic!("{:?}", machine.nics) };
    assert_eq!(
        (real.name.as_str(), real.pci, real.root.as_deref()),
        ("mlx5_0", Some(pci("0000:45:00.0")), Some("pci0000:40"))
    );
    assert_eq!((real.link_layer(), real.active()), (Some(LinkLayer::Ethernet), true));
    let locality = real.locality.as_ref().unwrap();
    assert_eq!((locality.nodes.to_string().as_str(), locality.source), ("1", LocalitySource::Sysfs));
    assert_eq!((soft.name.as_str(), soft.pci, &soft.locality, soft.active()), ("rxe0", None, &None, false));
}

#[test]
fn a_missing_nvml_is_told_only_where_there_are_nvidia_gpus() {
    let absent = || {
        let mut node = Node::new();
        node.told =
            nvml::Facts { absent: true, troubles: vec!["NVML cannot be loaded".into()], ..nvml::Facts::default() };
        node
    };
    assert_eq!(absent().read().1, []);
    let (_, notices) = absent().in_hwloc("0000:41:00.0", "0-3", "0").read();
    assert_eq!(notices.iter().map(|notice| notice.message.as_str()).collect::<Vec<_>>(), ["NVML cannot be loaded"]);
    assert!(notices[0].help.is_some());
}

#[test]
fn the_drivers_version_is_the_files_or_else_nvmls() {
    let version = |node: Node| node.read().0.driver;
    let with_nvml = || {
        let mut node = Node::new();
        node.told.driver = Some("1.2.3".into());
        node
    };
    assert_eq!(version(with_nvml()).as_deref(), Some("1.2.3"));
    let line = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue\n";
    assert_eq!(version(with_nvml().file("proc/driver/nvidia/version", line)).as_deref(), Some("550.54.15"));
    assert_eq!(version(Node::new()), None);
}
