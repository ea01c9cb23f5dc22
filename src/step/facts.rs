//! What a profile's conditions may ask about a step.
#![forbid(unsafe_code)]

use crate::spank::Handle;
use crate::stamp;
use gpu_tune_engine::Machine;
use gpu_tune_engine::machine::Nic;
use gpu_tune_engine::profile::Facts;

/// Variables that tell of a container: Slurm's own `--container`, and pyxis's options where sbatch handed them on.
const CONTAINER: [&str; 3] = [
    "SLURM_CONTAINER",
    "SLURM_SPANK__SLURM_SPANK_OPTION_pyxis_container_image",
    "SLURM_SPANK__SLURM_SPANK_OPTION_pyxis_container_name",
];

/// Reads them. A batch script's nodes are unknown to Slurm's hook; the script itself runs on one.
pub(super) fn read(handle: &Handle<'_>, machine: &Machine, gpus: &[usize], tasks: u32) -> Facts {
    Facts {
        gpus: machine.models(gpus),
        nodes: Some(handle.nodes().unwrap_or(1)),
        tasks_per_node: Some(tasks),
        link_layers: machine.nics.iter().filter(|nic| nic.active()).filter_map(Nic::link_layer).collect(),
        container: CONTAINER.iter().any(|name| handle.getenv(name).is_some()),
        arch: std::env::consts::ARCH.to_owned(),
        slurm_version: Some(stamp::found()),
    }
}
