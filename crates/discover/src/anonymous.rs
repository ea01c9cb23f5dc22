//! Takes out of a machine what identifies the very hardware, so that a user can hand it to strangers.

use gpu_tune_engine::Machine;

/// Removes the UUIDs of GPUs and MIG devices, and the GUID in a NIC's name. Everything else (addresses, models, NIC names,
/// link state) describes a kind of machine and stays: without it the plan could not be replayed. MIG devices stay with a
/// made-up UUID, since they are told apart by nothing else.
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
    for (number, nic) in machine.nics.iter_mut().enumerate() {
        if let Some(kind) = named_by_guid(&nic.name) {
            nic.name = format!("{kind}x{number}");
        }
    }
}

/// `roce` of `rocex525400c0fe123455`: udev can name a device by its node GUID (rdma-core: kernel-boot, `NAME_GUID`).
fn named_by_guid(name: &str) -> Option<&str> {
    let (kind, guid) = name.rsplit_once('x')?;
    (guid.len() >= 12 && guid.bytes().all(|digit| digit.is_ascii_hexdigit())).then_some(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_name_that_holds_a_guid_is_taken() {
        assert_eq!(named_by_guid("rocex525400c0fe123455"), Some("roce"));
        for name in ["mlx5_0", "rocep3s0", "ibp1x2", "x"] {
            assert_eq!(named_by_guid(name), None, "{name}");
        }
    }
}
