//! The variables of a step's tasks: decided once before the fork, set in each task.
#![forbid(unsafe_code)]

use crate::spank::Handle;
use crate::step::Step;
use gpu_tune_engine::env::{Change, Decision, NCCL_CONF, NCCL_CONF_MAX, NcclConf, Outcome, RankValues};
use gpu_tune_engine::plan::TaskPlan;
use gpu_tune_engine::spec::Word;
use gpu_tune_engine::{Code, Notice, text, trusted};
use std::ffi::OsStr;
use std::path::Path;

/// The variable that names the profile to the job.
const PROFILE: &str = "GPU_TUNE_PROFILE";
/// Longest value that the table shows.
const SHOWN: usize = 48;

/// What becomes of each variable.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    decisions: Vec<Decision>,
}

impl Plan {
    /// From what was decided for the step.
    pub(crate) fn new(decisions: Vec<Decision>) -> Self {
        Self { decisions }
    }

    /// Sets them in the task whose hook runs. What could not be set is told.
    pub(crate) fn set(&self, handle: &Handle<'_>, step: &Step, task: &TaskPlan, notices: &mut Vec<Notice>) {
        let values = rank_values(step, task);
        for decision in &self.decisions {
            let current = handle.getenv(&decision.name);
            let done = match decision.for_rank(&values, current.as_deref()) {
                Change::Set(value) | Change::Restore(value) => set(handle, &decision.name, &value),
                Change::Unset => handle.unsetenv(&*decision.name).map_err(|error| error.to_string()),
                Change::Nothing => Ok(()),
                Change::LeftOut(reason) => Err(reason),
            };
            if let Err(reason) = done {
                notices.push(Notice::new(Code::Env, format!("`{}` is not set: {reason}", decision.name)));
            }
        }
        if let Err(reason) = set(handle, PROFILE, step.profile.as_ref()) {
            notices.push(Notice::new(Code::Env, format!("`{PROFILE}` is not set: {reason}")));
        }
    }

    /// For the table: each variable, what it gets in this task, and why.
    pub(crate) fn lines(&self, step: &Step, task: &TaskPlan) -> Vec<String> {
        let values = rank_values(step, task);
        let rows: Vec<(String, String)> = self.decisions.iter().map(|decision| row(decision, &values)).collect();
        let width = rows.iter().map(|(what, _)| what.chars().count()).max().unwrap_or(0);
        rows.iter().map(|(what, why)| format!("{what:<width$}  {why}")).collect()
    }
}

fn set(handle: &Handle<'_>, name: &str, value: &OsStr) -> Result<(), String> {
    // Setting what is there already would be an allocation for nothing in every task.
    if handle.getenv(name).as_deref() == Some(value) {
        return Ok(());
    }
    handle.setenv(name, value).map_err(|error| error.to_string())
}

fn row(decision: &Decision, values: &RankValues) -> (String, String) {
    let name = &decision.name;
    let what = match decision.for_rank(values, None) {
        Change::Set(value) | Change::Restore(value) => format!("{name}={}", shown(&value)),
        Change::Unset => format!("{name} unset"),
        Change::Nothing => format!("{name} untouched"),
        Change::LeftOut(reason) => return (format!("{name} left out"), reason),
    };
    let kept = matches!(decision.outcome, Outcome::Keep(_) | Outcome::Leave);
    let origin = format!("{} {}", decision.action.word(), decision.origin);
    let why = match (kept, decision.reason.is_empty()) {
        (true, _) => decision.reason.clone(),
        (false, true) => origin,
        (false, false) => format!("{origin}; {}", decision.reason),
    };
    (what, why)
}

fn shown(value: &OsStr) -> String {
    let value = text::shown(&value.to_string_lossy());
    if value.chars().count() <= SHOWN { value } else { value.chars().take(SHOWN).chain(['…']).collect() }
}

/// The host's settings of NCCL, if root alone can have written it: its values are set in containers.
pub(crate) fn nccl_conf() -> NcclConf {
    match trusted::read(Path::new(NCCL_CONF), NCCL_CONF_MAX) {
        Ok(bytes) => NcclConf::parse(&bytes),
        Err(error) => {
            if !error.is_missing() {
                log::info!("not used: {error}");
            }
            NcclConf::default()
        }
    }
}

/// What differs from task to task.
fn rank_values(step: &Step, task: &TaskPlan) -> RankValues {
    RankValues::of(&step.machine, &step.request.cpus, task)
}
