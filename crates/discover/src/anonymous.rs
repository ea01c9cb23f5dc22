//! Takes out of a machine what identifies the very hardware, so that a user can hand it to strangers.

use gpu_tune_engine::Machine;

/// Removes the UUIDs of GPUs and MIG devices. Everything else (addresses, models, NIC names, link state) describes a kind of
/// machine and stays: without it the plan could not be replayed. MIG devices stay with a made-up UUID, since they are told
/// apart by nothing else.
pub fn anonymize(machine: &mut Machine) {
    for gpu in &mut machine.gpus {
        gpu.uuid = None;
        for (number, mig) in gpu.mig.iter_mut().enumerate() {
            let address = gpu.pci;
            mig.uuid = format!(
                "MIG-{:04x}{:02x}{:02x}-0000-0000-0000-{number:012x}",
                address.domain, address.bus, address.device
            );
        }
    }
}
