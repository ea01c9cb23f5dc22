//! `gpu-tune topo` as a person and as a script meets it.

use crate::common::{gpu_tune, scratch, told, topologies, topology};
use serde_json::Value;

fn topo(file: &str, options: &[&str]) -> Option<String> {
    let path = topology(file)?;
    let mut args = vec!["topo", "--topology", &path];
    args.extend(options);
    Some(told(&gpu_tune(&args)))
}

#[test]
fn a_node_is_shown_as_a_person_thinks_of_it() {
    if let Some(text) = topo("turin-4gpu-nvml.xml", &[]) {
        insta::assert_snapshot!("turin", text);
    }
}

#[test]
fn memory_of_gpus_is_told_apart_from_the_hosts() {
    if let Some(text) = topo("gh200-1gpu.hwloc214.xml", &[]) {
        insta::assert_snapshot!("gh200", text);
    }
}

#[test]
fn no_machine_needs_more_than_100_columns() {
    for path in topologies() {
        let text = told(&gpu_tune(&["topo", "--topology", &path]));
        assert!(text.starts_with("exit 0\n"), "{path}: {text}");
        let wide: Vec<&str> = text.lines().filter(|line| line.chars().count() > 100).collect();
        assert!(wide.is_empty(), "{path}: {wide:#?}");
    }
}

#[test]
fn the_json_has_the_plans_machine_and_the_cores() {
    let Some(path) = topology("hgx-h100-8gpu.xml") else { return };
    let output = gpu_tune(&["topo", "--json", "--topology", &path]);
    let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(value["schema"], 1);
    assert_eq!(value["machine"]["gpus"].as_array().expect("GPUs").len(), 8);
    assert_eq!(value["packages"], serde_json::json!(["0-55,112-167", "56-111,168-223"]));
    assert_eq!(value["cores"][1], "1,113");
}

#[test]
fn the_picture_goes_into_a_file_and_nothing_else_is_said() {
    let Some(path) = topology("hgx-h100-8gpu.xml") else { return };
    let file = scratch("topo-svg").join("node.svg");
    let text = told(&gpu_tune(&["topo", "--topology", &path, "--svg", &file.to_string_lossy()]));
    assert_eq!(text, "exit 0\n--- stdout\n--- stderr\n");
    assert!(std::fs::read_to_string(&file).expect("the picture").contains("hgx-h100-8gpu</title>"));
}

#[test]
fn a_picture_that_cannot_be_written_is_told_with_its_path() {
    let Some(path) = topology("hgx-h100-8gpu.xml") else { return };
    let output = gpu_tune(&["topo", "--topology", &path, "--svg", "/proc/no/such.svg"]);
    let text = told(&output);
    assert!(text.starts_with("exit 1\n--- stdout\n--- stderr\n"), "{text}");
    assert!(text.contains("gpu-tune: error: cannot write `/proc/no/such.svg`: "), "{text}");
}
