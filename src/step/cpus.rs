//! The CPUs that a step owns on this node, from what Slurm tells: masks by task, or abstract core numbers.
#![forbid(unsafe_code)]

use gpu_tune_engine::{CpuSet, IdSet, Machine};

/// The masks of `SLURM_CPU_BIND_LIST`, one for each task of the node. `None` unless `SLURM_CPU_BIND_TYPE` says that they are
/// masks, and all can be read.
pub(crate) fn masks(kind: Option<&str>, list: Option<&str>) -> Option<Vec<CpuSet>> {
    if kind?.trim_end_matches(':') != "mask_cpu" {
        return None;
    }
    list?.split(',').map(mask).collect()
}

/// A mask as Slurm writes it: `0x` and hexadecimal digits, the lowest CPU last.
fn mask(text: &str) -> Option<CpuSet> {
    let digits = text.trim().strip_prefix("0x")?;
    let mut set = CpuSet::new();
    for (place, digit) in (0_u32..).zip(digits.chars().rev()) {
        let value = digit.to_digit(16)?;
        for bit in (0..4).filter(|bit| value & (1 << bit) != 0) {
            let known = set.insert(place.checked_mul(4)? + bit);
            if !known {
                return None;
            }
        }
    }
    (!set.is_empty()).then_some(set)
}

/// All CPUs in any of the sets.
pub(crate) fn union(sets: &[CpuSet]) -> CpuSet {
    sets.iter().fold(CpuSet::new(), |all, set| &all | set)
}

/// The CPUs of `S_STEP_ALLOC_CORES`: Slurm numbers cores package by package, as hwloc's logical order does. `None` when
/// Slurm's idea of the node has more cores than the machine (`CPUs=` counted as threads): then the numbers mean nothing.
pub(crate) fn of_cores(list: &str, machine: &Machine) -> Option<CpuSet> {
    let cores: IdSet = list.parse().ok()?;
    if cores.is_empty() {
        return None;
    }
    let known = |core: u32| usize::try_from(core).is_ok_and(|core| core < machine.cores.len());
    cores.iter().all(known).then(|| machine.cpus_of_cores(&cores))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpu_tune_engine::machine::Core;

    fn text(sets: Option<Vec<CpuSet>>) -> Option<Vec<String>> {
        sets.map(|sets| sets.iter().map(CpuSet::to_string).collect())
    }

    #[test]
    fn masks_of_any_length_are_read() {
        let read = |list| text(masks(Some("mask_cpu:"), Some(list)));
        assert_eq!(read("0x1,0x2"), Some(vec!["0".into(), "1".into()]));
        assert_eq!(read("0x0000FFFF0000,0xff"), Some(vec!["16-31".into(), "0-7".into()]));
        assert_eq!(read(&format!("0x1{}", "0".repeat(300))), Some(vec!["1200".into()]));
    }

    #[test]
    fn what_is_no_list_of_masks_is_not_guessed_at() {
        assert_eq!(masks(None, Some("0x1")), None);
        assert_eq!(masks(Some("map_cpu:"), Some("1,0")), None);
        for bad in ["", "0x", "0x0", "1", "0xg", "0x1,,0x2"] {
            assert_eq!(masks(Some("mask_cpu:"), Some(bad)), None, "{bad}");
        }
        assert_eq!(masks(Some("mask_cpu:"), Some(&format!("0x1{}", "0".repeat(40_000)))), None);
    }

    #[test]
    fn abstract_core_numbers_follow_the_order_of_packages_not_of_cpu_numbers() {
        let pus = ["0,4", "2,6", "1,5", "3,7"];
        let cores = pus.iter().map(|list| Core { pus: list.parse().unwrap(), highest_perf: None }).collect();
        let machine = Machine { cores, ..Machine::default() };
        assert_eq!(of_cores("0-1", &machine).unwrap().to_string(), "0,2,4,6");
        assert_eq!(of_cores("2", &machine).unwrap().to_string(), "1,5");
        assert_eq!(of_cores("3-4", &machine), None);
        assert_eq!(of_cores("", &machine), None);
        assert_eq!(of_cores("x", &machine), None);
    }
}
