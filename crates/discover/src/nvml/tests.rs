//! The real reader against the stand-in library of `tests/fake-nvml`.

use super::*;
use serde_json::{Value, json};
use std::path::PathBuf;

/// A library of the test's own, with this description beside it.
fn library(node: &Value) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let library = fake_nvml::install(folder.path(), &node.to_string()).unwrap();
    (folder, library)
}

fn told(node: &Value, cpus: u32) -> Facts {
    let (_folder, library) = library(node);
    read(&library, Duration::from_secs(20), cpus)
}

fn gpu(pci: &str) -> Value {
    json!({ "pci": pci, "uuid": format!("GPU-{pci}"), "model": "NVIDIA H200" })
}

/// The first GPU's troubles and facts when it has these fields too.
fn with(fields: Value) -> Facts {
    let mut gpu = gpu("00000000:4E:00.0");
    gpu.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    told(&json!({ "gpus": [gpu] }), 8)
}

#[test]
fn addresses_are_nvmls_spelling_and_the_minor_is_not_the_index() {
    let mut first = gpu("00000000:C1:00.0");
    first["minor"] = json!(1);
    let facts = told(&json!({ "driver": "550.54.15", "gpus": [first, gpu("00010000:4E:00.0")] }), 8);
    assert_eq!((facts.driver.as_deref(), facts.troubles.len()), (Some("550.54.15"), 0), "{facts:?}");
    let shown: Vec<_> = facts.gpus.iter().map(|gpu| (gpu.pci.to_string(), gpu.minor)).collect();
    assert_eq!(shown, [("0000:c1:00.0".into(), Some(1)), ("10000:4e:00.0".into(), Some(1))]);
    let gpu = &facts.gpus[0];
    assert_eq!((gpu.uuid.as_deref(), gpu.model.as_deref()), (Some("GPU-00000000:C1:00.0"), Some("NVIDIA H200")));
}

#[test]
fn affinity_masks_may_be_longer_than_one_word_and_than_256_cpus() {
    let affinity = |cpus: &str, highest| {
        let mut gpu = gpu("00000000:4E:00.0");
        gpu["cpus"] = json!(cpus);
        gpu["nodes"] = json!("1,72");
        let facts = told(&json!({ "gpus": [gpu] }), highest);
        let gpu = &facts.gpus[0];
        (gpu.cpus.clone().unwrap().to_string(), gpu.nodes.clone().unwrap().to_string())
    };
    for cpus in ["0-15", "16-31,144-159", "96-191,288-383", "1000-1100", "4000"] {
        assert_eq!(affinity(cpus, 4096), (cpus.to_owned(), "1,72".to_owned()));
    }
}

#[test]
fn what_nvml_does_not_support_is_unknown_and_no_trouble() {
    let facts =
        with(json!({ "errors": { "nvmlDeviceGetUUID": "NOT_SUPPORTED", "nvmlDeviceGetMinorNumber": "UNKNOWN" } }));
    let gpu = &facts.gpus[0];
    assert_eq!((&gpu.uuid, gpu.minor, &gpu.cpus, &gpu.nodes), (&None, None, &None, &None));
    assert_eq!(facts.troubles, [""; 0]);
}

#[test]
fn an_older_driver_without_scopes_still_tells_the_cpus() {
    let error = json!({ "nvmlDeviceGetCpuAffinityWithinScope": "FUNCTION_NOT_FOUND" });
    let facts = with(json!({ "cpus": "4-7", "errors": error }));
    assert_eq!(facts.gpus[0].cpus.clone().unwrap().to_string(), "4-7");
}

#[test]
fn an_empty_affinity_is_no_affinity() {
    let facts = with(json!({ "cpus": "", "nodes": "" }));
    assert_eq!((&facts.gpus[0].cpus, &facts.gpus[0].nodes), (&None, &None));
}

#[test]
fn mig_devices_have_uuid_and_instances_and_their_slots_may_have_gaps() {
    let mig = json!([{ "uuid": "MIG-a", "gi": 1, "ci": 0 }, null, { "uuid": "MIG-b", "gi": 11, "ci": 2 }]);
    let facts = with(json!({ "mig": mig }));
    let device = |uuid: &str, gi, ci| MigDevice { uuid: uuid.into(), gi: Some(gi), ci: Some(ci) };
    assert_eq!(facts.gpus[0].mig, [device("MIG-a", 1, 0), device("MIG-b", 11, 2)]);
    let facts = with(json!({ "mig": mig, "errors": { "nvmlDeviceGetGpuInstanceId": "FUNCTION_NOT_FOUND" } }));
    assert_eq!(
        facts.gpus[0].mig.iter().map(|mig| (mig.gi, mig.ci)).collect::<Vec<_>>(),
        [(None, Some(0)), (None, Some(2))]
    );
}

#[test]
fn a_gpu_that_fell_off_the_bus_costs_only_itself() {
    let mut lost = gpu("00000000:4E:00.0");
    lost["errors"] = json!({ "nvmlDeviceGetPciInfo_v3": "GPU_IS_LOST" });
    let facts = told(&json!({ "gpus": [lost, gpu("00000000:C1:00.0")] }), 8);
    assert_eq!(facts.gpus.iter().map(|gpu| gpu.pci.to_string()).collect::<Vec<_>>(), ["0000:c1:00.0"]);
    assert_eq!(facts.troubles.len(), 1);
    assert!(facts.troubles[0].starts_with("NVML device 0: device fell off the bus"), "{facts:?}");
}

#[test]
fn a_driver_that_is_not_loaded_is_a_trouble_in_nvmls_words() {
    let facts = told(&json!({ "errors": { "nvmlInit_v2": "DRIVER_NOT_LOADED" } }), 8);
    assert_eq!((facts.gpus.len(), facts.troubles.len(), facts.absent), (0, 1, false));
    assert!(facts.troubles[0].ends_with("NVIDIA driver is not loaded"), "{facts:?}");
    let facts = told(&json!({ "errors": { "nvmlDeviceGetCount_v2": "LIB_RM_VERSION_MISMATCH" } }), 8);
    assert!(facts.troubles[0].ends_with("version mismatch"), "{facts:?}");
}

#[test]
fn a_call_that_hangs_costs_the_gpus_from_there_on_and_no_more_than_the_deadline() {
    let mut stuck = gpu("00000000:C1:00.0");
    stuck["hang"] = json!("nvmlDeviceGetUUID");
    let (_folder, library) = library(&json!({ "gpus": [gpu("00000000:4E:00.0"), stuck] }));
    let start = Instant::now();
    let facts = read(&library, Duration::from_millis(800), 8);
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    assert_eq!(facts.gpus.iter().map(|gpu| gpu.pci.to_string()).collect::<Vec<_>>(), ["0000:4e:00.0"]);
    assert_eq!(facts.troubles, [format!("NVML (`{}`) did not answer within 0.8 s", library.display())]);
}

#[test]
fn bits_count_on_from_word_to_word() {
    assert_eq!(ids(&[0b1001, 1, 0, 1 << 63]).to_string(), "0,3,64,255");
    assert_eq!(ids(&[]).to_string(), "");
}

#[test]
fn masks_are_long_enough_for_the_highest_cpu() {
    assert_eq!((words(2), words(1024), words(1025), words(4096)), (16, 16, 17, 64));
}

#[test]
fn a_library_that_is_named_and_not_there_is_a_trouble() {
    // One that is named should be there, and is missed even where no GPU is seen.
    for library in ["libnvidia-ml-of-nobody.so.1", "/nonexistent/libnvidia-ml.so.1"] {
        let facts = read(Path::new(library), Duration::from_secs(5), 8);
        assert_eq!((facts.absent, facts.gpus.len()), (false, 0), "{facts:?}");
        assert!(facts.troubles[0].contains(library), "{facts:?}");
    }
}

#[test]
fn a_library_that_is_not_nvml_is_a_trouble() {
    // libhwloc is loaded already, and has no function of NVML.
    let facts = read(Path::new("libhwloc.so.15"), Duration::from_secs(5), 8);
    assert_eq!((facts.troubles.len(), facts.gpus.len(), facts.absent), (1, 0, false), "{facts:?}");
}
