//! The GPUs' driver and what it gives to the network.

use super::Node;
use super::line::Line;
use gpu_tune_engine::machine::Vendor;
use gpu_tune_engine::{Machine, snapshot};

/// Why a line about this node's devices is skipped.
pub(super) const ANOTHER: &str = "the machine comes from a file";

/// Everything about the driver.
pub(super) fn check(node: &Node) -> Vec<Line> {
    let (machine, notices) = match &node.machine {
        Ok(found) => found,
        Err(line) => return vec![line.clone()],
    };
    let nvidia = machine.gpus.iter().filter(|gpu| gpu.vendor == Vendor::Nvidia).count();
    let odd = notices.iter().map(|notice| Line::warn("discovery", &notice.message).fix_if(notice.help.clone()));
    // What was odd may be why there is no GPU.
    let skipped = match nvidia {
        0 => Some("no NVIDIA GPU is on this node"),
        _ => node.is_another().then_some(ANOTHER),
    };
    if let Some(why) = skipped {
        return std::iter::once(Line::skip("driver", why)).chain(odd).collect();
    }
    let mut lines = vec![driver(node, nvidia)];
    lines.extend(odd);
    lines.push(names(node, machine));
    lines.push(direct(node, machine));
    lines.push(imex(node, machine));
    lines
}

fn driver(node: &Node, gpus: usize) -> Line {
    match snapshot::driver(node.host.root()) {
        Some(version) => Line::ok("driver", format!("{version}, {gpus} GPUs")),
        None => {
            Line::fail("driver", format!("{gpus} NVIDIA GPUs, but no driver is loaded")).fix("load the nvidia module")
        }
    }
}

/// UUIDs come from NVML, or from the driver's files once a GPU was used.
fn names(node: &Node, machine: &Machine) -> Line {
    let unknown = machine.gpus.iter().filter(|gpu| gpu.uuid.is_none()).count();
    match unknown {
        _ if node.replayed => Line::skip("NVML", ANOTHER),
        0 => Line::ok("NVML", "every GPU has its UUID"),
        _ => {
            Line::warn("NVML", format!("{unknown} GPUs without UUID: tasks that name theirs by UUID cannot be matched"))
                .fix("libnvidia-ml.so.1 of the driver's version; `nvidia-smi -L` shows whether it works")
        }
    }
}

/// GPUDirect RDMA goes by nvidia-peermem, or by dma-buf with the open kernel modules (NVIDIA's GPUDirect documentation).
fn direct(node: &Node, machine: &Machine) -> Line {
    let subject = "GPUDirect RDMA";
    if machine.nics.is_empty() {
        return Line::skip(subject, "no RDMA adapter is on this node");
    }
    let modules = node.host.read("/proc/modules").unwrap_or_default();
    if modules.lines().any(|line| line.starts_with("nvidia_peermem ")) {
        return Line::ok(subject, "nvidia-peermem is loaded");
    }
    let version = node.host.read("/proc/driver/nvidia/version").unwrap_or_default();
    if version.contains("Open Kernel Module") {
        return Line::ok(subject, "dma-buf of the open kernel modules");
    }
    Line::warn(subject, "neither nvidia-peermem nor the open kernel modules: the network copies through the processor")
        .fix("`modprobe nvidia-peermem`, at every boot")
}

/// NVLink between nodes needs a channel device (NVIDIA's IMEX guide); Slurm makes it with switch/nvidia_imex.
fn imex(node: &Node, machine: &Machine) -> Line {
    let subject = "IMEX channel";
    let models = machine.gpus.iter().filter_map(|gpu| gpu.model.as_deref());
    if !models.into_iter().any(|model| model.contains("GB200") || model.contains("GB300")) {
        return Line::skip(subject, "only for GB200 and GB300");
    }
    let folder = node.host.path("/dev/nvidia-caps-imex-channels");
    let channels = std::fs::read_dir(folder).into_iter().flatten().flatten().count();
    if channels > 0 {
        return Line::ok(subject, format!("{channels} in /dev/nvidia-caps-imex-channels"));
    }
    Line::warn(
        subject,
        "no channel device: outside a job that is right with switch/nvidia_imex, else NVLink ends at the node",
    )
    .fix("start nvidia-imex, and `SwitchType=switch/nvidia_imex` in slurm.conf")
}
