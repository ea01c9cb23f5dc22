//! Reads the machine that the tests run on, with a stand-in NVML beside it.
#![cfg(test)]

use gpu_tune_discover::{Options, anonymize, read_host};
use gpu_tune_engine::Code;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

/// A library of the test's own, with this description beside it.
fn library(node: &Value) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let library = fake_nvml::install(folder.path(), &node.to_string()).unwrap();
    (folder, library)
}

fn options(nvml: Option<PathBuf>) -> Options {
    Options { nvml, deadline: Duration::from_secs(2) }
}

/// CPUs of this machine that are online, by the kernel.
fn online() -> String {
    std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap().trim().to_owned()
}

#[test]
fn this_machine_is_read_without_nvml() {
    let (machine, _) = read_host(&options(None)).unwrap();
    assert_eq!(machine.cpus.to_string(), online());
    let of_cores: Vec<u32> = machine.cores.iter().flat_map(|core| core.pus.iter()).collect();
    assert_eq!(of_cores.len(), machine.cpus.len());
    assert!(machine.numa.iter().any(|node| machine.has_host_memory(node.id)));
}

/// libhwloc reads its variables from the environment that a process starts with: the test starts itself again.
#[test]
fn a_machine_of_hwlocs_variables_is_not_taken_for_this_one() {
    if std::env::var_os("HWLOC_SYNTHETIC").is_some() {
        let error = read_host(&options(None)).unwrap_err();
        assert!(
            error.to_string().starts_with("hwloc cannot read this machine: its environment names another"),
            "{error}"
        );
        return;
    }
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_machine_of_hwlocs_variables_is_not_taken_for_this_one"])
        .env("HWLOC_SYNTHETIC", "package:2 core:4 pu:2")
        .output()
        .unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
fn a_gpu_that_only_nvml_knows_is_found() {
    let mig = json!([{ "uuid": "MIG-a", "gi": 1, "ci": 0 }]);
    let gpu = json!({ "pci": "000000AA:4E:00.0", "uuid": "GPU-1", "model": "NVIDIA H200", "minor": 5, "mig": mig });
    let (_folder, library) = library(&json!({ "driver": "550.54.15", "gpus": [gpu] }));
    let (mut machine, notices) = read_host(&options(Some(library))).unwrap();
    assert_eq!(notices, []);
    let found = machine.gpus.iter().find(|gpu| gpu.uuid.as_deref() == Some("GPU-1")).unwrap().clone();
    assert_eq!((found.pci.to_string().as_str(), found.minor, found.mig.len()), ("00aa:4e:00.0", Some(5), 1));
    anonymize(&mut machine);
    assert!(machine.gpus.iter().all(|gpu| gpu.uuid.is_none() && gpu.mig.iter().all(|mig| mig.uuid != "MIG-a")));
    assert_eq!(machine.gpus.iter().find(|gpu| gpu.pci == found.pci).unwrap().model, found.model);
}

#[test]
fn a_hanging_nvml_costs_a_notice_and_not_the_machine() {
    let (_folder, library) = library(&json!({ "hang": "nvmlInit_v2", "gpus": [] }));
    let (machine, notices) = read_host(&options(Some(library))).unwrap();
    assert_eq!(machine.cpus.to_string(), online());
    assert_eq!(notices.iter().map(|notice| notice.code).collect::<Vec<_>>(), [Code::Discovery]);
    assert!(notices[0].message.ends_with("did not answer within 2 s"), "{notices:?}");
}

#[test]
fn a_node_without_gpus_needs_no_nvml_and_says_nothing() {
    let (machine, notices) = read_host(&options(Some("libnvidia-ml.so.1".into()))).unwrap();
    assert_eq!(notices.is_empty(), machine.gpus.is_empty(), "{notices:?}");
}
