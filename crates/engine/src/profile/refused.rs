//! Variables that no profile may set, because they are not the admin's or gpu-tune's to give.

/// Whether a text can be a variable's name.
pub(super) fn is_variable(name: &str) -> bool {
    let begins = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    begins && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Why a profile may never set a variable; `None`: it may.
pub(super) fn always(name: &str) -> Option<&'static str> {
    match name {
        "CUDA_VISIBLE_DEVICES"
        | "NVIDIA_VISIBLE_DEVICES"
        | "ROCR_VISIBLE_DEVICES"
        | "HIP_VISIBLE_DEVICES"
        | "GPU_DEVICE_ORDINAL"
        | "ZE_AFFINITY_MASK" => Some("which GPUs a task sees is Slurm's business"),
        "RANK" | "LOCAL_RANK" | "WORLD_SIZE" | "LOCAL_WORLD_SIZE" | "GROUP_RANK" => {
            Some("ranks are the launcher's business; see `[launch] rendezvous`")
        }
        "LD_AUDIT" => Some("it would load code into every program of the job"),
        _ if name.starts_with("GPU_TUNE") => Some("it is gpu-tune's own"),
        _ if ["SLURM_", "SPANK_", "SBATCH_", "SALLOC_"].iter().any(|own| name.starts_with(own)) => {
            Some("it is Slurm's own")
        }
        _ => None,
    }
}
