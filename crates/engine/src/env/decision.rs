//! What becomes of one variable.

use super::missing;
use crate::profile::{Action, Origin, Placeholder, Template};
use std::ffi::{OsStr, OsString};
use std::sync::Arc;

/// What becomes of one variable in every task of a step, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The variable.
    pub name: Arc<str>,
    /// What the profile asks for.
    pub action: Action,
    /// Where the profile asks for it.
    pub origin: Origin,
    /// What happens to the value.
    pub outcome: Outcome,
    /// Why, where it is not simply the profile's value; else empty.
    pub reason: String,
    /// Right only in a task that gpu-tune binds.
    pub(super) only_bound: bool,
    /// The value is a number and at most this.
    pub(super) at_most: Option<Template>,
    /// Put before the value that is there.
    pub(super) prepend: Option<Template>,
    /// Put behind the value that is there.
    pub(super) append: Option<Template>,
    /// What stands between.
    pub(super) separator: String,
}

/// What happens to a variable's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It gets this value; placeholders of the task are still in it.
    Set(Template),
    /// It keeps the user's value. That is set again in the task, because a container's image may have replaced it.
    Keep(OsString),
    /// It is taken away.
    Unset,
    /// Nothing is done to it.
    Leave,
}

/// What differs from task to task. `None`: not known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RankValues {
    /// `{cores}`: for a launcher the smallest over its ranks.
    pub cores: Option<u32>,
    /// `{threads}`: likewise.
    pub threads: Option<u32>,
    /// The task is a launcher: nothing that differs from rank to rank can be set.
    pub launcher: bool,
    /// The task is not bound: nobody knows the machine, or the user binds it himself. What keeps frameworks from binding is
    /// then not set.
    pub unbound: bool,
    /// `{local_rank}`.
    pub local_rank: Option<u32>,
    /// `{gpu_uuid}`.
    pub gpu_uuid: Option<String>,
    /// `{gpu_pci}`.
    pub gpu_pci: Option<String>,
    /// `{near_nics}`.
    pub near_nics: Option<String>,
}

/// What to do to a task's environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Set the variable: the value is ours, and an inner step may take it away again.
    Set(OsString),
    /// Set the variable to what the user exported: a no-op unless a container's image replaced it. The value stays his.
    Restore(OsString),
    /// Take it away.
    Unset,
    /// Nothing.
    Nothing,
    /// The value cannot be had: nothing is done, and this is why.
    LeftOut(String),
}

impl Decision {
    /// Whether the variable goes with a binding, so that nobody misses it in a task that is not bound.
    pub fn goes_with_binding(&self) -> bool {
        self.only_bound
    }

    /// What to do in one task. `current` is what the variable holds in the task's environment now, after any container.
    pub fn for_rank(&self, values: &RankValues, current: Option<&OsStr>) -> Change {
        if self.only_bound && values.unbound && matches!(self.outcome, Outcome::Set(_)) {
            return Change::Nothing;
        }
        match self.value(values) {
            Ok(change) => self.joined(change, values, current),
            Err(reason) => Change::LeftOut(reason),
        }
    }

    /// Whether something is done to the variable; else it stays as the user or the host has it.
    pub fn acts(&self) -> bool {
        matches!(self.outcome, Outcome::Set(_) | Outcome::Unset) || self.joins()
    }

    /// Whether something is put before or behind what is there.
    pub fn joins(&self) -> bool {
        self.prepend.is_some() || self.append.is_some()
    }

    /// The value as text, placeholders of the task still in it; `…` stands for what the task has where items are put
    /// around it.
    pub fn value_text(&self) -> String {
        let value = match &self.outcome {
            Outcome::Set(value) => value.to_string(),
            Outcome::Keep(value) => value.to_string_lossy().into_owned(),
            Outcome::Leave if self.joins() => "…".to_owned(),
            Outcome::Leave | Outcome::Unset => String::new(),
        };
        let items = [&self.prepend, &Some(Template::text(&value)), &self.append];
        let items = items.into_iter().flatten().map(Template::to_string).filter(|item| !item.is_empty());
        items.collect::<Vec<_>>().join(&self.separator)
    }

    /// The bound of a number, as text.
    pub fn at_most(&self) -> Option<String> {
        self.at_most.as_ref().map(Template::to_string)
    }

    /// The value without what is put before and behind it.
    fn value(&self, values: &RankValues) -> Result<Change, String> {
        match &self.outcome {
            Outcome::Set(template) => Ok(Change::Set(self.bounded(values.fill(template)?, values)?.into())),
            Outcome::Keep(value) => Ok(Change::Restore(value.clone())),
            Outcome::Unset => Ok(Change::Unset),
            Outcome::Leave => Ok(Change::Nothing),
        }
    }

    /// The smaller of the value and its bound.
    fn bounded(&self, value: String, values: &RankValues) -> Result<String, String> {
        let Some(at_most) = &self.at_most else { return Ok(value) };
        let number = |text: &str| text.parse::<u64>().map_err(|_| format!("`{text}` is not a number"));
        Ok(number(&value)?.min(number(&values.fill(at_most)?)?).to_string())
    }

    /// Puts the items before and behind the value, each only if the list does not have it yet: a step inside a step would
    /// add it again.
    fn joined(&self, change: Change, values: &RankValues, current: Option<&OsStr>) -> Change {
        if self.prepend.is_none() && self.append.is_none() {
            return change;
        }
        let mut list = match change {
            Change::Set(value) | Change::Restore(value) => value,
            Change::Nothing => current.unwrap_or_default().to_owned(),
            Change::Unset => OsString::new(),
            Change::LeftOut(_) => return change,
        };
        for (item, before) in [(&self.prepend, true), (&self.append, false)] {
            let Some(item) = item else { continue };
            match values.fill(item) {
                Ok(item) => list = with_item(list, &item, &self.separator, before),
                Err(reason) => return Change::LeftOut(reason),
            }
        }
        Change::Set(list)
    }
}

fn with_item(list: OsString, item: &str, separator: &str, before: bool) -> OsString {
    if list.is_empty() {
        return item.into();
    }
    if list.to_string_lossy().split(separator).any(|other| other == item) {
        return list;
    }
    let mut joined = OsString::new();
    let parts: [&OsStr; 3] = match before {
        true => [item.as_ref(), separator.as_ref(), &list],
        false => [&list, separator.as_ref(), item.as_ref()],
    };
    parts.iter().for_each(|part| joined.push(part));
    joined
}

impl RankValues {
    fn fill(&self, template: &Template) -> Result<String, String> {
        template.fill(|slot| self.get(slot)).map_err(|slot| missing(slot, self.launcher))
    }

    fn get(&self, slot: Placeholder) -> Option<String> {
        match slot {
            Placeholder::Cores => self.cores.map(|cores| cores.to_string()),
            Placeholder::Threads => self.threads.map(|threads| threads.to_string()),
            slot if slot.per_rank() && self.launcher => None,
            Placeholder::LocalRank => self.local_rank.map(|rank| rank.to_string()),
            Placeholder::GpuUuid => self.gpu_uuid.clone(),
            Placeholder::GpuPci => self.gpu_pci.clone(),
            Placeholder::NearNics => self.near_nics.clone(),
            Placeholder::Nodes | Placeholder::Rocev2GidIndex => None,
        }
    }
}
