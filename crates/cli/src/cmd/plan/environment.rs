//! What is done to the environment of each task.

use super::Planned;
use crate::json::EnvObject;
use gpu_tune_engine::env::{Change, Decision, RankValues};
use gpu_tune_engine::profile::Action;
use gpu_tune_engine::spec::Word;
use gpu_tune_engine::{Code, IdSet, Notice, report};

/// Longest value that the table shows: `--json` has all of it.
const SHOWN: usize = 256;

/// One task's variables: those that are set or removed. What stays as the user has it is not named.
pub(super) fn of_task(decisions: &[Decision], values: &RankValues) -> Vec<EnvObject> {
    decisions.iter().filter_map(|decision| object(decision, values)).collect()
}

fn object(decision: &Decision, values: &RankValues) -> Option<EnvObject> {
    let value = match decision.for_rank(values, None) {
        Change::Set(value) => Some(value.to_string_lossy().into_owned()),
        Change::Unset => None,
        Change::Restore(_) | Change::Nothing | Change::LeftOut(_) => return None,
    };
    Some(EnvObject {
        name: decision.name.to_string(),
        value,
        action: decision.action.word(),
        from: format!("profile {}", decision.origin.layer),
        file: decision.origin.file.to_string(),
        line: decision.origin.line,
    })
}

/// What could not be set, and what was set against the user's will, each told once.
pub(super) fn notices(decisions: &[Decision], values: &[RankValues]) -> Vec<Notice> {
    let told = decisions.iter().filter_map(|decision| {
        let left_out = values.iter().find_map(|values| match decision.for_rank(values, None) {
            Change::LeftOut(reason) => Some(format!("`{}` is not set: {reason}", decision.name)),
            Change::Set(_) | Change::Unset | Change::Restore(_) | Change::Nothing => None,
        });
        let forced = || (decision.action == Action::Force && !decision.reason.is_empty()).then_some(&decision.reason);
        left_out.or_else(|| Some(format!("`{}` is {}", decision.name, forced()?)))
    });
    told.map(|message| Notice::new(Code::Env, message)).collect()
}

/// The environment for people: one line for each variable, and one for each of its values where tasks differ.
pub(super) fn lines(planned: &Planned) -> Vec<[String; 2]> {
    let mut lines = Vec::new();
    for decision in &planned.decisions {
        let mut values: Vec<([String; 2], Vec<u32>)> = Vec::new();
        for (task, of_task) in planned.tasks.iter().zip(&planned.values) {
            let line = report::variable(decision, of_task, SHOWN);
            match values.iter_mut().find(|(other, _)| *other == line) {
                Some((_, tasks)) => tasks.push(task.local_id),
                None => values.push((line, vec![task.local_id])),
            }
        }
        let several = values.len() > 1;
        lines.extend(values.into_iter().map(|([what, mut why], tasks)| {
            if several {
                let tasks: IdSet = tasks.into_iter().collect();
                why = format!("task {tasks}: {why}");
            }
            [what, why]
        }));
    }
    lines.extend(planned.resolved.skipped.iter().map(report::skipped));
    lines
}
