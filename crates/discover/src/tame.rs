//! Names in a file of a machine are whoever's wrote it. They end up in tables, messages and pictures, where a line end could
//! forge a line and a control character play with a terminal, so they are made harmless once, where the file is read.

use gpu_tune_engine::Machine;
use gpu_tune_engine::text::is_printable;

/// The most characters of a name that are kept. Models and UUIDs have less than 64 (NVML's own buffers hold 96 bytes).
const MOST: usize = 128;

/// Puts `\u{fffd}` for what cannot be printed in any name of the machine, and cuts what is too long.
pub(crate) fn tame(machine: &mut Machine) {
    let Machine { gpus, nics, driver, .. } = machine;
    driver.iter_mut().for_each(name);
    for gpu in gpus {
        [&mut gpu.uuid, &mut gpu.model, &mut gpu.root].into_iter().flatten().for_each(name);
        gpu.mig.iter_mut().for_each(|mig| name(&mut mig.uuid));
    }
    for nic in nics {
        name(&mut nic.name);
        nic.root.iter_mut().for_each(name);
        nic.ports.iter_mut().filter_map(|port| port.rate.as_mut()).for_each(name);
    }
}

fn name(text: &mut String) {
    if !text.chars().all(is_printable) || text.chars().nth(MOST).is_some() {
        let tamed = |letter| if is_printable(letter) { letter } else { char::REPLACEMENT_CHARACTER };
        *text = text.chars().take(MOST).map(tamed).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tamed(text: &str) -> String {
        let mut text = text.to_owned();
        name(&mut text);
        text
    }

    #[test]
    fn names_as_they_are_stay() {
        for text in ["NVIDIA H200", "mlx5_0", "GPU-8932f937-d72c", "AMD Instinct™ MI300A", "a\\b'c\"d", "Größe", ""]
        {
            assert_eq!(tamed(text), text);
        }
    }

    #[test]
    fn what_cannot_be_printed_is_replaced() {
        assert_eq!(tamed("a\nGPU 1  forged"), "a\u{fffd}GPU 1  forged");
        assert_eq!(tamed("\u{1b}[2J\u{202e}\u{fffe}\t."), "\u{fffd}[2J\u{fffd}\u{fffd}\u{fffd}.");
        assert_eq!(tamed(&"x".repeat(70_000)).chars().count(), MOST);
    }
}
