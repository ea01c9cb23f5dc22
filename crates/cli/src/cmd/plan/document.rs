//! The plan as JSON.

use super::{Planned, environment};
use crate::json::{MachineObject, Place, PlanDocument, ProfileVariable, RankObject, SCHEMA, TaskObject, Warning};
use gpu_tune_engine::env::RankValues;
use gpu_tune_engine::plan::TaskPlan;

/// The document.
pub(super) fn of(planned: &Planned) -> PlanDocument {
    PlanDocument {
        schema: SCHEMA,
        profile: planned.resolved.name.clone(),
        mode: planned.mode(),
        machine: MachineObject::of(&planned.machine),
        tasks: planned.tasks.iter().zip(&planned.values).map(|(plan, values)| task(planned, plan, values)).collect(),
        left_alone: ProfileVariable::left_alone(&planned.decisions, &planned.resolved.skipped),
        warnings: Warning::all(&planned.notices),
    }
}

fn task(planned: &Planned, plan: &TaskPlan, values: &RankValues) -> TaskObject {
    let allowed = &planned.allowed;
    let ranks = plan.ranks.iter().map(|rank| RankObject {
        local_rank: rank.local_rank,
        gpu: rank.gpu,
        place: Place::of(&rank.share, allowed),
    });
    TaskObject {
        local_id: plan.local_id,
        gpus: plan.gpus.clone(),
        place: Place::of(&plan.share, allowed),
        ranks: ranks.collect(),
        env: environment::of_task(&planned.decisions, values),
    }
}
