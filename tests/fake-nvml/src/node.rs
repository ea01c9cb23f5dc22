//! The JSON file: which GPUs there are, and what goes wrong.

use gpu_tune_engine::{CpuSet, NodeSet};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ffi::c_uint;

/// One node.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Node {
    /// What `nvmlSystemGetDriverVersion` says.
    #[serde(default)]
    pub(crate) driver: Option<String>,
    /// In the order of NVML's index.
    #[serde(default)]
    pub(crate) gpus: Vec<Gpu>,
    /// Functions that fail for every device.
    #[serde(default)]
    pub(crate) errors: BTreeMap<String, Code>,
    /// A function that never returns.
    #[serde(default)]
    pub(crate) hang: Option<String>,
}

/// One GPU.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Gpu {
    /// As NVML writes it: `00000000:4E:00.0`.
    pub(crate) pci: String,
    /// `GPU-…`.
    pub(crate) uuid: String,
    /// Product name.
    #[serde(default)]
    pub(crate) model: Option<String>,
    /// N of /dev/nvidiaN; by default the index.
    #[serde(default)]
    pub(crate) minor: Option<c_uint>,
    /// CPU affinity.
    #[serde(default)]
    pub(crate) cpus: Option<CpuSet>,
    /// Memory affinity.
    #[serde(default)]
    pub(crate) nodes: Option<NodeSet>,
    /// MIG devices by slot. An empty list: MIG is off.
    #[serde(default)]
    pub(crate) mig: Vec<Option<Mig>>,
    /// Functions that fail for this GPU.
    #[serde(default)]
    pub(crate) errors: BTreeMap<String, Code>,
    /// A function that never returns for this GPU.
    #[serde(default)]
    pub(crate) hang: Option<String>,
}

/// One MIG device.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mig {
    /// `MIG-…`.
    pub(crate) uuid: String,
    /// GPU instance.
    pub(crate) gi: c_uint,
    /// Compute instance.
    pub(crate) ci: c_uint,
}

/// NVML's return codes (`nvmlReturn_t`), as nvml.h numbers them.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(crate) enum Code {
    Uninitialized = 1,
    InvalidArgument = 2,
    NotSupported = 3,
    NoPermission = 4,
    NotFound = 6,
    InsufficientSize = 7,
    DriverNotLoaded = 9,
    FunctionNotFound = 13,
    GpuIsLost = 15,
    LibRmVersionMismatch = 18,
    Unknown = 999,
}
