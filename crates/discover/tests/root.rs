//! Replays the /sys and /proc of an HGX H100 node, when the shared collection is there.
//!
//! libhwloc takes another root only from the environment that a process starts with, so this program starts itself again
//! for the test that needs it.
#![cfg(test)]

mod shared;

use gpu_tune_discover::{read_root, root_environment};
use gpu_tune_engine::machine::{LinkLayer, LocalitySource, Vendor};
use std::path::Path;
use std::process::Command;

#[test]
fn an_hgx_node_is_read_from_its_files() {
    match std::env::var_os("HWLOC_FSROOT") {
        Some(root) => check(Path::new(&root)),
        None => check_in_a_process_of_its_own(),
    }
}

fn check_in_a_process_of_its_own() {
    let Some(packed) = shared::file("fsroot/hgx-h100-8gpu.tar.bz2") else { return };
    let folder = tempfile::tempdir().unwrap();
    let unpacked = Command::new("tar").arg("xjf").arg(packed).arg("-C").arg(folder.path()).status().unwrap();
    assert!(unpacked.success());
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "an_hgx_node_is_read_from_its_files"])
        .envs(root_environment(&folder.path().join("hgx-h100-8gpu")))
        .output()
        .unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

fn check(root: &Path) {
    let (machine, notices) = read_root(root).unwrap();
    assert_eq!(notices, []);
    assert_eq!((machine.packages.len(), machine.numa.len(), machine.cores.len(), machine.cpus.len()), (2, 2, 112, 224));
    // Minors and UUIDs as the driver gave them: not in PCI order everywhere.
    let expected = [("1b", 0), ("43", 1), ("52", 3), ("61", 2), ("9d", 4), ("c3", 5), ("d1", 7), ("df", 6)];
    assert_eq!(machine.gpus.len(), expected.len());
    for (position, ((bus, minor), gpu)) in expected.into_iter().zip(&machine.gpus).enumerate() {
        assert_eq!((gpu.pci.to_string(), gpu.minor), (format!("0000:{bus}:00.0"), Some(minor)));
        assert_eq!(gpu.uuid, Some(format!("GPU-c0ffee00-0000-4000-8000-{minor:012}")));
        assert_eq!((gpu.vendor, gpu.model.as_deref()), (Vendor::Nvidia, Some("NVIDIA H100 80GB HBM3")));
        let (node, cpus) = if position < 4 { ("0", "0-55,112-167") } else { ("1", "56-111,168-223") };
        let near = gpu.locality.as_ref().unwrap();
        assert_eq!((near.nodes.to_string().as_str(), near.cpus.to_string().as_str()), (node, cpus), "{}", gpu.pci);
        assert_eq!(near.source, LocalitySource::Hwloc);
    }
    let nics: Vec<_> = machine.nics.iter().map(|nic| (nic.name.as_str(), nic.link_layer(), nic.active())).collect();
    let infiniband = |name| (name, Some(LinkLayer::Infiniband), true);
    let mut expected: Vec<_> =
        ["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3", "mlx5_4", "mlx5_5", "mlx5_6", "mlx5_7"].map(infiniband).into();
    expected.push(("mlx5_8", Some(LinkLayer::Ethernet), true));
    assert_eq!(nics, expected);
    assert!(machine.nics.iter().all(|nic| nic.locality.is_some() && nic.ports[0].rate.is_some()));
}

#[test]
fn a_process_that_was_not_started_for_it_says_what_is_missing() {
    if std::env::var_os("HWLOC_FSROOT").is_some() {
        return;
    }
    let error = read_root(Path::new("/some/tree")).unwrap_err();
    assert_eq!(error.to_string(), "`HWLOC_FSROOT` is not set to `/some/tree`");
    assert_eq!(error.help().as_deref(), Some("start the program with HWLOC_FSROOT=/some/tree"));
}
