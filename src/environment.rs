//! The variables of a step's tasks: decided once before the fork, set in each task.
#![forbid(unsafe_code)]

use crate::spank::Handle;
use crate::step::Step;
use crate::trace;
use gpu_tune_engine::env::{Decision, NCCL_CONF, NcclConf, RankValues};
use gpu_tune_engine::launch::environment::{Tuning, changes};
use gpu_tune_engine::plan::TaskPlan;
use gpu_tune_engine::profile::Skipped;
use gpu_tune_engine::{Code, CpuSet, Notice, report};
use std::path::Path;

/// A task after it was bound, or was not.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Standing<'a> {
    /// The CPUs that it has now, if the kernel tells.
    pub(crate) mask: Option<&'a CpuSet>,
    /// Somebody else had narrowed it before.
    pub(crate) left_alone: bool,
}

/// What becomes of each variable.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    decisions: Vec<Decision>,
    /// Values that do not apply to this step, for the table.
    skipped: Vec<Skipped>,
}

impl Plan {
    /// From what was decided for the step.
    pub(crate) fn new(decisions: Vec<Decision>, skipped: Vec<Skipped>) -> Self {
        Self { decisions, skipped }
    }

    /// Sets them in the task whose hook runs, with what lets its ranks be bound and find their peers. Those of a task that was
    /// left alone are, too. What could not be set is told.
    pub(crate) fn set(
        &self,
        handle: &Handle<'_>,
        step: &Step,
        task: &TaskPlan,
        standing: Standing<'_>,
        notices: &mut Vec<Notice>,
    ) {
        let cpus = standing.mask.filter(|_| !standing.left_alone);
        let peers = step.launch.rendezvous(handle, step, task);
        let ranks = cpus.map_or(Ok(None), |cpus| step.launch.ranks(handle, task, cpus));
        let (ranks, told) = ranks.map_or_else(|notice| (None, Some(notice)), |ranks| (ranks, None));
        let tuning = Tuning {
            profile: &step.profile,
            decisions: &self.decisions,
            values: &RankValues::of(&step.machine, standing.mask.unwrap_or(&step.request.cpus), task),
            rendezvous: &peers.set,
            ranks: ranks.as_ref().map(|(plan, shim)| (plan.as_str(), shim.as_path())),
            own: (task.ranks.is_empty() && cpus.is_some()).then_some(&task.share),
        };
        let found = changes(&tuning, |name| handle.getenv(name));
        trace::part(trace::VARIABLES, || {
            for (name, value) in &found.changes {
                if let Err(error) = handle.put(name, value.as_deref()) {
                    notices.push(Notice::new(Code::Env, format!("`{name}` is not set: {error}")));
                }
            }
        });
        notices.extend(told.into_iter().chain(peers.notices).chain(found.notices));
    }

    /// For the table: each variable, what it gets in this task, and why. `mask` is that of a task that is not bound.
    pub(crate) fn lines(&self, handle: &Handle<'_>, step: &Step, task: &TaskPlan, mask: &CpuSet) -> Vec<String> {
        let values = RankValues::of(&step.machine, mask, task);
        let peers = step.launch.rendezvous(handle, step, task).set;
        report::variables(&self.decisions, &self.skipped, &peers, &values)
    }
}

/// The host's settings of NCCL, if root alone can have written it: its values are set in containers.
pub(crate) fn nccl_conf() -> NcclConf {
    NcclConf::load(Path::new(NCCL_CONF)).unwrap_or_else(|error| {
        log::info!("not used: {error}");
        NcclConf::default()
    })
}
