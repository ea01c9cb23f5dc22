//! What a profile says about one variable.

use super::known::{self, Trait};
use super::{Origin, Placeholder, Template, When};
use crate::spec::Word;
use std::fmt;
use std::sync::Arc;

/// What is done to a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Action {
    /// Set it if the user has not.
    #[default]
    Default,
    /// Set it, whatever the user has; reported when that differs.
    Force,
    /// Take it away, unless the user exported it.
    Unset,
    /// Put the value before what is there.
    Prepend,
    /// Put the value behind what is there.
    Append,
}

impl Word for Action {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("default", Self::Default),
        ("force", Self::Force),
        ("unset", Self::Unset),
        ("prepend", Self::Prepend),
        ("append", Self::Append),
    ];
}

/// One value of one variable in one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The variable.
    pub name: Arc<str>,
    /// What is done to it.
    pub action: Action,
    /// Its value; empty for [`Action::Unset`].
    pub value: Template,
    /// The value is a number, and never larger than this one.
    pub at_most: Option<Template>,
    /// What stands between the items of a list, for [`Action::Prepend`] and [`Action::Append`].
    pub separator: String,
    /// The value must be the same on all nodes of a job, or not be set at all.
    pub uniform: bool,
    /// For which steps it is meant.
    pub when: When,
    /// Where it is written.
    pub origin: Origin,
}

/// Rules of one slot replace each other; those of different slots add up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Slot {
    Value,
    Prepend,
    Append,
}

impl Rule {
    pub(super) fn slot(&self) -> Slot {
        match self.action {
            Action::Default | Action::Force | Action::Unset => Slot::Value,
            Action::Prepend => Slot::Prepend,
            Action::Append => Slot::Append,
        }
    }

    /// Whether it is right only where gpu-tune binds. An admin's own file says what he means.
    pub fn only_bound(&self) -> bool {
        self.origin.builtin && known::find(&self.name).is_some_and(|known| known.is(Trait::AgainstRebinding))
    }

    /// The placeholders in its value and in its bound.
    pub fn placeholders(&self) -> impl Iterator<Item = Placeholder> + '_ {
        [Some(&self.value), self.at_most.as_ref()].into_iter().flatten().flat_map(Template::placeholders)
    }

    /// Whether the node's RDMA network must be looked at for it.
    pub(super) fn asks_network(&self) -> bool {
        self.when.asks_link_layer() || self.placeholders().any(|slot| slot == Placeholder::Rocev2GidIndex)
    }

    /// Why two nodes of one job could come to different values; `None`: they cannot.
    pub(super) fn differs_by_node(&self) -> Option<String> {
        let condition = self.when.differs_by_node().map(|name| format!("it depends on `{name}`"));
        condition.or_else(|| {
            let slot = self.placeholders().find(|slot| !slot.job_wide())?;
            Some(format!("it depends on `{{{}}}`", slot.as_str()))
        })
    }
}

impl fmt::Display for Rule {
    /// What the rule says, without its name: `"8388608", when nodes = ">1", uniform`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.action {
            Action::Unset => f.write_str("unset")?,
            Action::Default => write!(f, "\"{}\"", self.value)?,
            action => write!(f, "\"{}\", {}", self.value, action.word())?,
        }
        if let Some(at_most) = &self.at_most {
            write!(f, ", at most \"{at_most}\"")?;
        }
        if !self.when.is_empty() {
            write!(f, ", when {}", self.when)?;
        }
        if self.uniform { f.write_str(", uniform") } else { Ok(()) }
    }
}
