//! `gpu-tune bench` with a stand-in for the CUDA driver, and on this machine's memory.

use crate::common::{gpu_tune, scratch, told, topology};
use serde_json::Value;
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
