//! Which of the step's GPUs are a task's own (rule 2 of [`gpu_tune_engine::plan`]): found out in the task, after Slurm set
//! its `CUDA_VISIBLE_DEVICES`.
//!
//! With `ConstrainDevices=yes` the indices in that variable count from 0 within what the task may open, and other variables
//! may name a neighbour's GPU: only the devices themselves tell. Without it, indices are those of the node.
#![forbid(unsafe_code)]

use gpu_tune_engine::plan::visible;
use gpu_tune_engine::{Code, Machine, Notice};

/// A task's GPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Own {
    /// All of the step, like its neighbours': dealt out by local id.
    All,
    /// These positions in the step's list.
    These(Vec<usize>),
}

/// The step's GPUs by Slurm's numbers (`SLURM_STEP_GPUS`), as indices into [`Machine::gpus`]. Slurm numbers in the order of
/// gres.conf, which it intends as PCI order; a GPU that is cut into MIG devices counts once for each of them. `None` when a
/// number is beyond what the machine has.
pub(crate) fn of_step(numbers: &str, machine: &Machine) -> Option<Vec<usize>> {
    let counted = machine.gpus.iter().enumerate().flat_map(|(at, gpu)| std::iter::repeat_n(at, gpu.mig.len().max(1)));
    let counted: Vec<usize> = counted.collect();
    let number = |text: &str| text.trim().parse::<usize>().ok().and_then(|number| counted.get(number).copied());
    numbers.split(',').map(number).collect()
}

/// A task's GPUs. `list` is the variable's text, `may_open` tells of one of the step's GPUs whether the task may open it, or
/// `None` where that cannot be known; it is asked only when the task sees fewer GPUs than the step has.
pub(crate) fn find(
    list: Option<&str>,
    machine: &Machine,
    step: &[usize],
    may_open: impl FnOnce() -> Option<Vec<bool>>,
) -> (Own, Vec<Notice>) {
    let Some(list) = list.map(str::trim) else { return (Own::All, Vec::new()) };
    let Some(numbers) = numbers(list) else {
        let (positions, notices) = visible::resolve(list, machine, step);
        return (settled(positions, step), notices);
    };
    if numbers.len() >= step.len() {
        return (Own::All, Vec::new());
    }
    match may_open() {
        Some(open) if open.contains(&false) => (constrained(&numbers, &open), vec![peers_hidden()]),
        _ => of_node(list, numbers.len(), machine, step),
    }
}

/// The entries, if all are numbers.
fn numbers(list: &str) -> Option<Vec<usize>> {
    list.split(',').map(|entry| entry.trim().parse().ok()).collect()
}

/// Indices within what may be opened.
fn constrained(numbers: &[usize], open: &[bool]) -> Own {
    let openable: Vec<usize> = (0..).zip(open).filter(|(_, open)| **open).map(|(at, _)| at).collect();
    Own::These(numbers.iter().filter_map(|&number| openable.get(number).copied()).collect())
}

/// NCCL sees no NVLink to a GPU that it cannot open (NVIDIA/nccl#1066), and CUDA IPC needs the peer's device too.
fn peers_hidden() -> Notice {
    let message = "each task can open only its own GPUs, so NCCL and CUDA IPC do not copy between those of different tasks \
                   directly: with `--gpus-per-node` for `--gpus-per-task` every task sees all, and task i still gets GPU i";
    Notice::new(Code::PeersHidden, message)
}

/// Indices of the node. If one of them is no GPU of the step, they count from somewhere else, and we could not find out
/// where: then the task's GPU is guessed, as Slurm deals them out in order.
fn of_node(list: &str, count: usize, machine: &Machine, step: &[usize]) -> (Own, Vec<Notice>) {
    let all: Vec<usize> = (0..machine.gpus.len()).collect();
    let (gpus, mut notices) = visible::resolve(list, machine, &all);
    let positions: Vec<usize> = gpus.iter().filter_map(|gpu| step.iter().position(|of_step| of_step == gpu)).collect();
    if positions.len() == count {
        return (settled(positions, step), notices);
    }
    let message =
        format!("cannot tell which of the step's GPUs the list `{list}` means: taken to be dealt out by task");
    notices
        .push(Notice::new(Code::BadVisible, message).help("the device nodes of the GPUs cannot be opened to find out"));
    (Own::All, notices)
}

fn settled(positions: Vec<usize>, step: &[usize]) -> Own {
    if positions.len() == step.len() { Own::All } else { Own::These(positions) }
}

/// What cgroup v1's `devices.list` says about character devices of NVIDIA with these minor numbers; `None` when the list
/// constrains nothing.
pub(crate) fn listed(devices_list: &str, minors: &[u32]) -> Option<Vec<bool>> {
    const NVIDIA: &str = "195";
    let entries: Vec<Vec<&str>> = devices_list.lines().map(|line| line.split([' ', ':']).collect()).collect();
    if entries.iter().any(|entry| entry.first() == Some(&"a")) {
        return None;
    }
    let allowed = |minor: u32| {
        entries.iter().any(|entry| match entry.as_slice() {
            // `m` alone allows to make nodes, not to open them.
            ["c", major, of, access] => {
                [NVIDIA, "*"].contains(major) && (*of == "*" || of.parse() == Ok(minor)) && access.contains('r')
            }
            _ => false,
        })
    };
    Some(minors.iter().map(|&minor| allowed(minor)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpu_tune_engine::machine::{Gpu, MigDevice, Vendor};

    fn machine(gpus: u8) -> Machine {
        let gpu = |bus: u8| Gpu {
            uuid: Some(format!("GPU-{bus}0000000")),
            ..Gpu::new(format!("0000:{bus:02x}:00.0").parse().unwrap(), Vendor::Nvidia)
        };
        Machine { gpus: (0..gpus).map(gpu).collect(), ..Machine::default() }
    }

    fn own(list: &str, step: &[usize], open: Option<&[bool]>) -> Own {
        find(Some(list), &machine(4), step, || open.map(<[bool]>::to_vec)).0
    }

    #[test]
    fn a_constrained_task_owns_what_it_may_open_not_what_its_index_says() {
        assert_eq!(own("0", &[2, 3], Some(&[true, false])), Own::These(vec![0]));
        assert_eq!(own("0", &[2, 3], Some(&[false, true])), Own::These(vec![1]));
        assert_eq!(own("1,0", &[0, 1, 3], Some(&[true, false, true])), Own::These(vec![2, 0]));
    }

    #[test]
    fn tasks_that_cannot_open_each_others_gpus_are_told_what_that_costs() {
        let codes = |open: &[bool]| {
            let (_, notices) = find(Some("3"), &machine(4), &[2, 3], || Some(open.to_vec()));
            notices.iter().map(|notice| notice.code).collect::<Vec<_>>()
        };
        assert_eq!(codes(&[false, true]), [Code::PeersHidden]);
        assert_eq!(codes(&[true, true]), []);
    }

    #[test]
    fn without_constraint_indices_are_those_of_the_node() {
        assert_eq!(own("3", &[2, 3], None), Own::These(vec![1]));
        assert_eq!(own("2", &[2, 3], Some(&[true, true])), Own::These(vec![0]));
    }

    #[test]
    fn indices_that_mean_no_gpu_of_the_step_are_told() {
        let (own, notices) = find(Some("0"), &machine(4), &[2, 3], || None);
        assert_eq!(own, Own::All);
        assert_eq!(notices[0].code, Code::BadVisible);
    }

    #[test]
    fn a_task_that_sees_every_gpu_shares_them_out_with_its_neighbours() {
        assert_eq!(own("2,3", &[2, 3], None), Own::All);
        assert_eq!(own("0,1", &[2, 3], Some(&[true, true])), Own::All);
        assert_eq!(find(None, &machine(4), &[2, 3], || None).0, Own::All);
    }

    #[test]
    fn uuids_need_no_device() {
        assert_eq!(own("GPU-30000000", &[2, 3], Some(&[true, false])), Own::These(vec![1]));
        assert_eq!(own("GPU-3", &[2, 3], None), Own::These(vec![1]));
    }

    #[test]
    fn an_empty_list_is_no_gpu() {
        for list in ["", "NoDevFiles", "-1"] {
            assert_eq!(own(list, &[2, 3], None), Own::These(vec![]), "{list}");
        }
    }

    #[test]
    fn slurm_counts_mig_devices() {
        let mut machine = machine(2);
        let mig = |uuid: &str| MigDevice { uuid: uuid.to_owned(), gi: None, ci: None };
        machine.gpus[0].mig = vec![mig("MIG-a"), mig("MIG-b")];
        assert_eq!(of_step("0,1,2", &machine), Some(vec![0, 0, 1]));
        assert_eq!(of_step("3", &machine), None);
        assert_eq!(of_step("", &machine), None);
    }

    #[test]
    fn the_device_list_of_a_cgroup_is_read_by_minor() {
        let list = "b *:* m\nc *:* m\nc 1:3 rwm\nc 195:2 rwm\nc 195:255 rwm\n";
        assert_eq!(listed(list, &[2, 3]), Some(vec![true, false]));
        assert_eq!(listed("a *:* rwm\n", &[0]), None);
        assert_eq!(listed("c 195:* rwm\n", &[7]), Some(vec![true]));
    }
}
