//! Decides what becomes of each variable, next to what the user, the host and the container say.
//!
//! In two stages, as the plan: [`decide`] runs once per step, before the fork, where the user's own environment can
//! still be seen; [`Decision::for_rank`] runs in each task and only fills in what differs from rank to rank. Both are
//! pure: only [`NcclConf::load`] reads a file.
//!
//! Highest first: `force`; what the user exported; a value from the admin's directory; the host's `/etc/nccl.conf`; a
//! built-in value; the container image's environment. So a value of ours, and the user's where it stays, is set in the
//! task again: the image's values were put there in between.
#![forbid(unsafe_code)]

mod decision;
mod nccl_conf;
mod rank_values;

pub use decision::{Change, Decision, Outcome, RankValues};
pub use nccl_conf::{NCCL_CONF, NCCL_CONF_MAX, NcclConf};

use crate::profile::{Action, Missing, Placeholder, Resolved, Rule, Template};
use std::ffi::OsString;

/// What is the same for all tasks of a step on this node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StepValues {
    /// `{nodes}`.
    pub nodes: Option<u32>,
    /// `{rocev2_gid_index}`, or why there is none. `None`: nobody has looked, because nothing asks for it.
    pub rocev2_gid_index: Option<Result<u32, String>>,
    /// Whether the tasks run in a container, where the host's `/etc/nccl.conf` is not seen.
    pub container: bool,
}

/// Whether any rule needs [`StepValues::rocev2_gid_index`]: finding it reads /sys.
pub fn needs_gid_index(resolved: &Resolved) -> bool {
    resolved.env.iter().flat_map(Rule::placeholders).any(|slot| slot == Placeholder::Rocev2GidIndex)
}

/// What becomes of each variable that the profile names, sorted by name. `user` gives the value that the user exported, as
/// seen before any container; what an outer step of ours set does not count as his.
pub fn decide(
    resolved: &Resolved,
    user: impl Fn(&str) -> Option<OsString>,
    nccl_conf: &NcclConf,
    values: &StepValues,
) -> Vec<Decision> {
    let by_name = resolved.env.chunk_by(|a, b| a.name == b.name);
    by_name.filter_map(|rules| decide_one(rules, &user, nccl_conf, values)).collect()
}

/// The value that a variable will have in a task outside any container, as far as it is known before the fork.
pub(crate) fn value_of(
    resolved: &Resolved,
    name: &str,
    user: impl Fn(&str) -> Option<OsString>,
    nccl_conf: &NcclConf,
    values: &StepValues,
) -> Option<OsString> {
    let unchanged = || user(name).or_else(|| nccl_conf.get(name).map(|(value, _)| value.into()));
    let rules: Vec<Rule> = resolved.env.iter().filter(|rule| &*rule.name == name).cloned().collect();
    let Some(decision) = decide_one(&rules, &user, nccl_conf, values) else { return unchanged() };
    match decision.for_rank(&RankValues::default(), user(name).as_deref()) {
        Change::Set(value) | Change::Restore(value) => Some(value),
        Change::Nothing | Change::LeftOut(_) => unchanged(),
        Change::Unset => None,
    }
}

/// All rules for one variable.
fn decide_one(
    rules: &[Rule],
    user: &impl Fn(&str) -> Option<OsString>,
    nccl_conf: &NcclConf,
    values: &StepValues,
) -> Option<Decision> {
    let find = |actions: &[Action]| rules.iter().find(|rule| actions.contains(&rule.action));
    let main = find(&[Action::Default, Action::Force, Action::Unset]);
    let joins = [find(&[Action::Prepend]), find(&[Action::Append])];
    let first = main.or(rules.first())?;
    let mut decision = Decision {
        name: first.name.clone(),
        action: first.action,
        origin: first.origin.clone(),
        outcome: Outcome::Leave,
        reason: String::new(),
        only_bound: first.only_bound(),
        at_most: None,
        prepend: joins[0].map(|rule| known(&rule.value, values)),
        append: joins[1].map(|rule| known(&rule.value, values)),
        separator: first.separator.clone(),
    };
    if let Some(rule) = main {
        let user = user(&rule.name);
        let (outcome, reason) = match rule.action {
            Action::Unset => unset(user),
            Action::Force => (set(rule, values), forced(rule, user.as_ref())),
            Action::Default | Action::Prepend | Action::Append => default(rule, user, nccl_conf, values),
        };
        (decision.outcome, decision.reason) = (outcome, reason);
        decision.at_most = rule.at_most.as_ref().map(|template| known(template, values));
    }
    let gid = rules.iter().any(|rule| rule.value.placeholders().any(|slot| slot == Placeholder::Rocev2GidIndex));
    if let (true, Outcome::Set(_), Some(Err(reason))) = (gid, &decision.outcome, &values.rocev2_gid_index) {
        (decision.outcome, decision.reason) = (Outcome::Leave, reason.clone());
    }
    Some(decision)
}

fn unset(user: Option<OsString>) -> (Outcome, String) {
    match user {
        Some(value) => (Outcome::Keep(value), "set by the user".to_owned()),
        None => (Outcome::Unset, String::new()),
    }
}

fn forced(rule: &Rule, user: Option<&OsString>) -> String {
    match user {
        Some(value) if Some(value) != rule.value.constant().map(OsString::from).as_ref() => {
            format!("forced by the admin in place of the user's `{}`", crate::text::shown(&value.to_string_lossy()))
        }
        _ => String::new(),
    }
}

fn default(rule: &Rule, user: Option<OsString>, nccl_conf: &NcclConf, values: &StepValues) -> (Outcome, String) {
    if let Some(value) = user {
        return (Outcome::Keep(value), "set by the user".to_owned());
    }
    match nccl_conf.get(&rule.name).filter(|_| rule.origin.builtin) {
        // Outside a container NCCL reads the file itself, after the user's own ~/.nccl.conf, which a variable would beat.
        Some((_, line)) if !values.container => (Outcome::Leave, format!("set in {NCCL_CONF}:{line}")),
        Some((value, line)) => (
            Outcome::Set(Template::text(value)),
            format!("from the host's {NCCL_CONF}:{line}, which a container does not see"),
        ),
        None => (set(rule, values), String::new()),
    }
}

fn set(rule: &Rule, values: &StepValues) -> Outcome {
    Outcome::Set(known(&rule.value, values))
}

/// A value with what the step knows filled in.
fn known(template: &Template, values: &StepValues) -> Template {
    template.fill_known(|slot| match slot {
        Placeholder::Nodes => values.nodes.map(|nodes| nodes.to_string()),
        Placeholder::Rocev2GidIndex => values.rocev2_gid_index.as_ref()?.as_ref().ok().map(u32::to_string),
        Placeholder::Cores
        | Placeholder::Threads
        | Placeholder::LocalRank
        | Placeholder::GpuUuid
        | Placeholder::GpuPci
        | Placeholder::NearNics => None,
    })
}

/// Why a value with a placeholder cannot be had.
fn missing(Missing(slot): Missing, launcher: bool) -> String {
    match slot {
        slot if slot.per_rank() && launcher => {
            format!("`{{{}}}` differs from rank to rank, and a launcher's ranks share its environment", slot.as_str())
        }
        slot => format!("`{{{}}}` is not known here", slot.as_str()),
    }
}

#[cfg(test)]
mod tests;
