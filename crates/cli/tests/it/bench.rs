//! `gpu-tune bench` with a stand-in for the CUDA driver, and on this machine's memory.

use crate::common::{gpu_tune, scratch, told, topology};
use gpu_tune_engine::CpuSet;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

#[test]
fn memory_is_measured_where_there_is_no_gpu() {
    let output = gpu_tune(&["bench", "--memory", "--seconds", "1", "--size", "4", "--json"]);
    let value: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", told(&output)));
    assert_eq!(value["what"], "copy in memory");
    let row = &value["rows"][0];
    assert!(row["bytes_per_second"]["near"].as_f64().expect("a rate") > 1e6, "{row}");
    assert!(row["bytes_per_second"]["unbound"].as_f64().expect("a rate") > 1e6, "{row}");
    assert_eq!(row["latency_seconds"], Value::Null);
}

/// A package with one core and one NUMA node, as hwloc writes them.
fn package(cpu: u32, node: u32) -> String {
    let sets = ["cpuset", "complete_cpuset"].map(|name| format!("{name}=\"{:#x}\"", 1 << cpu));
    let nodes = ["nodeset", "complete_nodeset"].map(|name| format!("{name}=\"{:#x}\"", 1 << node));
    let sets = [sets, nodes].concat().join(" ");
    let object = |kind: &str, number: u32, inner: &str| {
        format!("<object type=\"{kind}\" os_index=\"{number}\" {sets}{inner}</object>")
    };
    let numa = object("NUMANode", node, " local_memory=\"12277906944\">");
    let core = object("Core", cpu, &(">".to_owned() + &object("PU", cpu, ">")));
    object("Package", cpu, &format!(">{numa}{core}"))
}

/// Where there are only these two CPUs, the second one on a NUMA node that no host of tests has.
fn machine_with_a_node_that_is_not_here(test: &str) -> Option<String> {
    let status = fs::read_to_string("/proc/self/status").expect("a status");
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("CPUs").trim();
    let allowed: CpuSet = allowed.parse().expect("a list");
    if !(allowed.contains(0) && allowed.contains(1)) {
        println!("skipped: needs CPUs 0 and 1");
        return None;
    }
    let sets = "cpuset=\"0x3\" complete_cpuset=\"0x3\" allowed_cpuset=\"0x3\" nodeset=\"0x40000001\" \
                complete_nodeset=\"0x40000001\" allowed_nodeset=\"0x40000001\"";
    let text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology version=\"2.0\">\
         <object type=\"Machine\" os_index=\"0\" {sets}>{}{}</object></topology>\n",
        package(0, 0),
        package(1, 30)
    );
    let file = scratch(test).join("node30.xml");
    fs::write(&file, text).expect("a file");
    file.to_str().map(str::to_owned)
}

#[test]
fn a_place_that_cannot_be_had_is_told_once_and_has_no_number() {
    let Some(machine) = machine_with_a_node_that_is_not_here("bench-node30") else { return };
    let bench = |more: &[&str]| {
        gpu_tune(&[&["bench", "--memory", "--seconds", "1", "--size", "4", "--topology", &machine], more].concat())
    };
    let text = told(&bench(&[]));
    let (table, warnings) = text.split_once("--- stderr\n").expect("both");
    assert_eq!(warnings.matches("gpu-tune: warning: ").count(), 1, "{text}");
    assert!(warnings.contains("the measuring thread: cannot bind memory to NUMA node 30: set_mempolicy: "), "{text}");
    assert_eq!(table.matches(" × far").count(), 0, "{text}");
    let output = bench(&["--json"]);
    let value: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", told(&output)));
    let rates = |row: usize| {
        let rates = &value["rows"][row]["bytes_per_second"];
        ["near", "far", "unbound"].map(|place| rates[place].is_f64())
    };
    assert_eq!((rates(0), rates(1)), ([true, false, true], [false, true, true]), "{value}");
}

/// The stand-in, built with the C compiler that Rust links with into a folder of the test's own.
fn library(test: &str) -> PathBuf {
    let library = scratch(test).join("libcuda.so.1");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/cuda.c");
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source).status();
    assert!(built.expect("a C compiler").success());
    library
}

/// Runs it for a machine of the collection; only one of its GPUs is there for CUDA.
fn bench(test: &str, options: &[&str]) -> Option<Output> {
    let machine = topology("vm-4gpu-numa-minus1.xml")?;
    let library = library(test);
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpu-tune"));
    command.args(["bench", "--seconds", "1", "--size", "1", "--topology", &machine]).args(options);
    let output = command.arg("--cuda").arg(library).env("FAKE_CUDA_PCI", "0000:06:00.0").output();
    Some(output.expect("the program starts"))
}

#[test]
fn each_gpu_that_cuda_shows_is_measured_and_the_others_are_named() {
    let Some(output) = bench("bench-cuda-text", &[]) else { return };
    let text = told(&output);
    assert!(text.starts_with("exit 0\n--- stdout\ncopy to GPU "), "{text}");
    assert!(text.contains("\nGPU 1 0000:06:00.0 NVIDIA  "), "{text}");
    assert!(text.contains(" GB/s ") && text.contains(" µs "), "{text}");
    assert!(text.contains("GPU 0 is not measured: CUDA shows no GPU that can be measured"), "{text}");
}

#[test]
fn the_json_has_rates_and_latencies_in_plain_units() {
    let Some(output) = bench("bench-cuda-json", &["--json"]) else { return };
    let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let row = &value["rows"][0];
    assert_eq!((&value["what"], &value["schema"]), (&"copy to GPU".into(), &1.into()));
    assert!(row["bytes_per_second"]["near"].as_f64().expect("a rate") > 1e6, "{row}");
    assert!(row["latency_seconds"]["near"].as_f64().expect("seconds") < 1.0, "{row}");
}

#[test]
fn without_a_driver_the_reason_is_told_and_memory_is_measured() {
    let Some(machine) = topology("vm-4gpu-numa-minus1.xml") else { return };
    let args =
        ["bench", "--seconds", "1", "--size", "1", "--topology", &machine, "--cuda", "/nonexistent/libcuda.so.1"];
    let text = told(&gpu_tune(&args));
    assert!(text.starts_with("exit 0\n--- stdout\ncopy in memory "), "{text}");
    assert!(text.contains("no GPU can be measured, so memory is: cannot use `/nonexistent/libcuda.so.1`: "), "{text}");
}
