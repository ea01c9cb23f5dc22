//! The plan as a picture.

use super::Planned;
use crate::json::Place;
use crate::svg::{Owner, Picture, Step};
use crate::words;
use gpu_tune_engine::plan::{Share, TaskPlan};

/// What to draw.
pub(super) fn of(planned: &Planned) -> Picture<'_> {
    let owners = planned.tasks.iter().flat_map(|task| owners(planned, task)).collect();
    Picture {
        machine: &planned.machine,
        title: planned.heading(),
        step: Some(Step { allowed: planned.allowed.clone(), owners }),
    }
}

/// A launcher's ranks, or the task itself.
fn owners(planned: &Planned, task: &TaskPlan) -> Vec<Owner> {
    if task.ranks.is_empty() {
        return vec![owner(planned, format!("task {}", task.local_id), task.gpus.clone(), &task.share)];
    }
    let one = |rank: &gpu_tune_engine::plan::RankPlan| {
        let name = match planned.tasks.len() {
            1 => format!("rank {}", rank.local_rank),
            _ => format!("task {} rank {}", task.local_id, rank.local_rank),
        };
        owner(planned, name, vec![rank.gpu], &rank.share)
    };
    task.ranks.iter().map(one).collect()
}

fn owner(planned: &Planned, name: String, gpus: Vec<usize>, share: &Share) -> Owner {
    let place = Place::of(share, &planned.allowed);
    let remote = planned.layout.slices.iter().any(|slice| slice.remote && gpus.contains(&slice.gpu));
    Owner { name, gpus, memory: words::policy(&place), cpus: place.cpus, remote }
}
