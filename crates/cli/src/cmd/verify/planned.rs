//! What is planned for a process, read from its own environment.

use crate::proc::Environ;
use gpu_tune_engine::CpuSet;
use gpu_tune_engine::launch::plan_text::{self, PlanText};
use gpu_tune_engine::launch::preload;
use gpu_tune_engine::plan::Share;
use gpu_tune_shim_core::env::{Env, NAMES};
use gpu_tune_shim_core::{rank, text::Plan};

/// What is planned for a process, and as what.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Planned {
    /// What it is bound to; `None`: its environment has no plan.
    pub(super) share: Option<Share>,
    /// The local rank that its launcher gave it; `None`: no launcher started it.
    pub(super) local_rank: Option<u32>,
    /// It starts ranks; it keeps the default memory policy itself.
    pub(super) launcher: bool,
    /// The CPUs of its launcher: what a rank has that was never bound.
    pub(super) launchers: CpuSet,
}

/// Reads the plan as the shim does.
pub(super) fn planned(environ: &Environ) -> Planned {
    let Some(plan) = decoded(environ) else { return Planned::default() };
    let shim = environ.get(preload::LD_PRELOAD).is_some_and(|list| preload::without_shim(list).is_some());
    // A plan with one part is that of a task that is a rank itself, or of a launcher with a single rank: in both cases
    // everything below the task is that rank.
    if let [only] = plan.shares.as_slice() {
        let local_rank = local_rank(environ).filter(|_| shim);
        let launcher = shim && local_rank.is_none();
        return Planned { share: Some(only.clone()), local_rank, launcher, launchers: plan.launcher };
    }
    let local_rank = local_rank(environ);
    let own = Share { cpus: Some(plan.launcher.clone()), memory: None };
    let share = match local_rank.and_then(|rank| usize::try_from(rank).ok()) {
        Some(rank) => plan.shares.get(rank).cloned(),
        None => Some(own),
    };
    Planned { share, local_rank, launcher: local_rank.is_none(), launchers: plan.launcher }
}

/// What a launcher planned for the rank that has these CPUs, for a rank whose own environment is lost. Ranks that share their
/// CPUs cannot be told apart.
pub(super) fn by_cpus(launcher: &Environ, cpus: &CpuSet) -> Planned {
    let Some(plan) = decoded(launcher) else { return Planned::default() };
    let mut ranks = (0..).zip(&plan.shares).filter(|(_, share)| share.cpus.as_ref() == Some(cpus));
    let (first, another) = (ranks.next(), ranks.next());
    Planned {
        share: first.map(|(_, share)| share.clone()),
        local_rank: first.filter(|_| another.is_none()).map(|(rank, _)| rank),
        launcher: false,
        launchers: plan.launcher,
    }
}

/// The plan. No program starts with a longer variable than 128 KiB (`MAX_ARG_STRLEN` for pages of 4 KiB), so a longer plan,
/// of which a decoded one would be many times as long, is none of gpu-tune's.
fn decoded(environ: &Environ) -> Option<PlanText> {
    const LONGEST: usize = 128 << 10;
    environ.get("GPU_TUNE_PLAN").filter(|text| text.len() <= LONGEST).and_then(|text| plan_text::decode(text))
}

fn local_rank(environ: &Environ) -> Option<u32> {
    let asked = NAMES.into_iter().filter_map(|name| Some((name, environ.get(name)?)));
    let entries: Vec<String> = asked.map(|(name, value)| format!("{name}={value}")).collect();
    let mut env = Env::default();
    entries.iter().for_each(|entry| env.see(entry.as_bytes()));
    rank::local_rank(&env, &Plan::read(environ.get("GPU_TUNE_PLAN")?.as_bytes())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(entries: &[(&str, &str)]) -> Planned {
        planned(&entries.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    const PLAN: (&str, &str) = ("GPU_TUNE_PLAN", "1;0-7;;0-3:p0;4-7:p1");
    const SHIM: (&str, &str) = ("LD_PRELOAD", "/opt/libgpu_tune_preload.so");

    fn cpus(planned: &Planned) -> String {
        planned.share.as_ref().unwrap().cpus.as_ref().unwrap().to_string()
    }

    #[test]
    fn a_launchers_rank_has_its_part() {
        let rank = of(&[PLAN, SHIM, ("LOCAL_RANK", "1")]);
        assert_eq!((cpus(&rank).as_str(), rank.local_rank, rank.launcher), ("4-7", Some(1), false));
        assert_eq!(rank.share.unwrap().memory.unwrap().first, 1);
    }

    #[test]
    fn the_launcher_itself_keeps_all_and_the_default_policy() {
        let launcher = of(&[PLAN, SHIM]);
        assert_eq!((cpus(&launcher).as_str(), launcher.local_rank, launcher.launcher), ("0-7", None, true));
        assert_eq!(launcher.share.unwrap().memory, None);
    }

    #[test]
    fn a_task_that_is_a_rank_has_the_only_part_whatever_its_number() {
        let task = of(&[("GPU_TUNE_PLAN", "1;4-7;;4-7:p1"), ("LOCAL_RANK", "3")]);
        assert_eq!((cpus(&task).as_str(), task.local_rank, task.launcher), ("4-7", None, false));
    }

    #[test]
    fn a_rank_whose_environment_is_lost_is_known_by_its_cpus() {
        let of = |plan: &str, cpus: &str| {
            by_cpus(&[("GPU_TUNE_PLAN".to_owned(), plan.to_owned())].into(), &cpus.parse().unwrap())
        };
        let rank = of(PLAN.1, "4-7");
        assert_eq!((cpus(&rank).as_str(), rank.local_rank, rank.launcher), ("4-7", Some(1), false));
        assert_eq!(of(PLAN.1, "0-7").share, None, "the launcher's own CPUs are no rank's");
        let shared = of("1;0-7;;0-3:p0;0-3:p0", "0-3");
        assert_eq!((cpus(&shared).as_str(), shared.local_rank), ("0-3", None));
    }

    #[test]
    fn a_plan_longer_than_a_variable_can_be_is_none() {
        let of =
            |parts: usize| planned(&[("GPU_TUNE_PLAN".to_owned(), "1;0-7;".to_owned() + &";0-3".repeat(parts))].into());
        assert_eq!(of(1000).launchers.to_string(), "0-7");
        assert_eq!(of(1 << 16), Planned::default());
    }

    #[test]
    fn a_rank_beyond_the_plan_and_a_process_without_one_have_none() {
        assert_eq!(of(&[PLAN, SHIM, ("LOCAL_RANK", "2")]).share, None);
        assert_eq!(of(&[("LOCAL_RANK", "2")]).share, None);
    }
}
