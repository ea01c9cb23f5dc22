//! What a task may do with the layout that was made before the fork (rule 4 of [`gpu_tune_engine::plan`]): it looks at the
//! mask that it has now.
//!
//! A mask that Slurm gave, its default layout of tasks over the step's cores, is replaced. A mask that is narrower than
//! that, while the cpuset would allow more, is somebody else's work: then the task is left alone. All tasks of a node come
//! to the same layout, because the masks and the cpuset that it is made from are the same for all.
#![forbid(unsafe_code)]

use super::cpus::union;
use gpu_tune_engine::CpuSet;
use gpu_tune_engine::os::Os;
use std::io;

/// What is known when a task looks.
pub(crate) struct View<'a> {
    /// The CPUs that the layout was made for.
    pub(crate) planned: &'a CpuSet,
    /// The CPUs that slurmstepd itself may run on. Under cgroup v2 that is the whole job's cpuset.
    pub(crate) before: &'a CpuSet,
    /// All CPUs of the machine.
    pub(crate) machine: &'a CpuSet,
    /// The masks that Slurm gave the tasks of the node; `None` without `task/affinity`.
    pub(crate) masks: Option<&'a [CpuSet]>,
    /// `SLURM_LOCALID`.
    pub(crate) local_id: usize,
}

/// The answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The layout holds.
    AsPlanned,
    /// The step owns these CPUs instead: the layout is to be made anew.
    Anew(CpuSet),
    /// Somebody narrowed the task to these CPUs.
    LeftAlone(CpuSet),
}

/// Looks. A mask that is in doubt is widened for a moment, to see the cpuset behind it, and put back.
pub(crate) fn look(os: &mut dyn Os, view: &View<'_>) -> io::Result<Standing> {
    let found = os.get_affinity()?;
    let own = view.masks.and_then(|masks| masks.get(view.local_id));
    let given = own.map_or_else(|| view.before.clone(), |mask| mask & view.before);
    let mut cpuset = view.before.clone();
    if found != given && found.is_subset(&given) {
        cpuset = behind(os, &found, view.machine)?;
        if !(&cpuset & &given).is_subset(&found) {
            return Ok(Standing::LeftAlone(found));
        }
    }
    let owned = view.masks.map_or_else(|| view.planned.clone(), union);
    let cpus = &owned & &cpuset;
    Ok(if cpus == *view.planned || cpus.is_empty() { Standing::AsPlanned } else { Standing::Anew(cpus) })
}

/// The cpuset: what the kernel keeps of all CPUs.
fn behind(os: &mut dyn Os, found: &CpuSet, machine: &CpuSet) -> io::Result<CpuSet> {
    let widened = os.set_affinity(machine).and_then(|()| os.get_affinity());
    os.set_affinity(found)?;
    widened
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpu_tune_engine::NodeSet;
    use gpu_tune_engine::os::Policy;
    use gpu_tune_engine::plan::Memory;

    /// A task in a cpuset: the kernel keeps of every mask what the cpuset allows.
    struct Kernel {
        mask: CpuSet,
        cpuset: CpuSet,
    }

    impl Os for Kernel {
        fn set_affinity(&mut self, cpus: &CpuSet) -> io::Result<()> {
            self.mask = cpus & &self.cpuset;
            Ok(())
        }
        fn get_affinity(&mut self) -> io::Result<CpuSet> {
            Ok(self.mask.clone())
        }
        fn set_mempolicy(&mut self, _: &Memory) -> io::Result<()> {
            unreachable!()
        }
        fn get_mempolicy(&mut self) -> io::Result<Policy> {
            unreachable!()
        }
        fn mems_allowed(&mut self) -> io::Result<NodeSet> {
            unreachable!()
        }
    }

    fn set(list: &str) -> CpuSet {
        list.parse().unwrap()
    }

    /// Task 0 of a machine with 16 CPUs. The mask must be the same afterwards.
    fn standing(planned: &str, before: &str, masks: Option<&[&str]>, mask: &str, cpuset: &str) -> Standing {
        let masks: Option<Vec<CpuSet>> = masks.map(|masks| masks.iter().map(|mask| set(mask)).collect());
        let (planned, before, machine) = (set(planned), set(before), set("0-15"));
        let view = View { planned: &planned, before: &before, machine: &machine, masks: masks.as_deref(), local_id: 0 };
        let mut kernel = Kernel { mask: set(mask), cpuset: set(cpuset) };
        let standing = look(&mut kernel, &view).unwrap();
        assert_eq!(kernel.mask, set(mask));
        standing
    }

    #[test]
    fn the_mask_that_slurm_gave_is_replaced() {
        assert_eq!(standing("0-7", "0-15", Some(&["0-3", "4-7"]), "0-3", "0-15"), Standing::AsPlanned);
        assert_eq!(standing("0-7", "0-7", None, "0-7", "0-7"), Standing::AsPlanned);
    }

    #[test]
    fn under_cgroup_v2_the_steps_own_cpuset_is_no_narrowing() {
        assert_eq!(standing("0-7", "0-15", None, "0-7", "0-7"), Standing::AsPlanned);
        assert_eq!(standing("0-7", "0-15", None, "0-5", "0-5"), Standing::Anew(set("0-5")));
    }

    #[test]
    fn masks_that_say_more_or_less_than_the_core_numbers_win() {
        assert_eq!(standing("0-15", "0-15", Some(&["0-3", "4-7"]), "0-3", "0-15"), Standing::Anew(set("0-7")));
    }

    #[test]
    fn what_somebody_narrowed_is_left_alone() {
        let alone = Standing::LeftAlone(set("2"));
        assert_eq!(standing("0-7", "0-15", Some(&["0-3", "4-7"]), "2", "0-15"), alone);
        assert_eq!(standing("0-7", "0-15", None, "2", "0-7"), alone);
    }
}
