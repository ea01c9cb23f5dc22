//! Variables that gpu-tune knows: what they take, what they are for, and what they do not go together with.
//!
//! The table drives `gpu-tune profile check`, the refusal of values that a program would misread, and docs/profiles.md. A
//! variable that is not in it is set as the profile says.

mod doc;
mod shipped;
mod table;
mod value;

pub use doc::markdown;
pub use table::{CLASHES, KNOWN};
pub use value::Fault;

use super::{Action, Rule};

/// One variable.
#[derive(Debug, Clone, Copy)]
pub struct Known {
    /// Its name.
    pub name: &'static str,
    /// What it takes.
    pub takes: Takes,
    /// Whose business it is.
    pub class: Class,
    /// What else is to be known.
    pub traits: &'static [Trait],
    /// The first release that reads it, and of what; empty: older than anything in use.
    pub since: &'static str,
    /// The last release that reads it; empty: it is still read.
    pub until: &'static str,
    /// What it is for, in one line.
    pub about: &'static str,
}

/// What a variable takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// A whole number from the first to the second.
    Int(i64, i64),
    /// Whole numbers separated by commas, each from the first to the second.
    Ints(i64, i64),
    /// One of these words, in just this case.
    Word(&'static [&'static str]),
    /// These words, separated by commas; `^` in front means all others.
    Words(&'static [&'static str]),
    /// Any text.
    Text,
}

/// Whose business a variable is. The first two are NCCL's own classes (its manual, "Environment Variables").
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Describes the machine or the network: may stand in an admin's files.
    System,
    /// For finding faults: can slow down or break later releases, so it needs a reason.
    Debug,
    /// Depends on what the job computes: belongs into a layer, not into a GPU's profile.
    Workload,
    /// Belongs to every process, not to GPU software.
    Process,
}

impl Class {
    /// As a word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Debug => "debug",
            Self::Workload => "workload",
            Self::Process => "process",
        }
    }
}

/// More about a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trait {
    /// Depends on the network: belongs into a fabric layer.
    Network,
    /// Must be equal on all ranks of a job.
    Uniform,
    /// Pins threads to CPUs by its own count, against the mask that gpu-tune gives.
    Pins,
    /// Tells a framework not to bind: right only where gpu-tune binds.
    AgainstRebinding,
    /// A list that others add to: `prepend` or `append`, never `default` or `force`.
    List,
    /// Wrong results are possible: refused without `allow_debug`.
    Dangerous,
}

impl Known {
    /// Whether it has a trait.
    pub fn is(&self, wanted: Trait) -> bool {
        self.traits.contains(&wanted)
    }
}

/// What is known about a variable.
pub fn find(name: &str) -> Option<&'static Known> {
    KNOWN.binary_search_by_key(&name, |known| known.name).ok().and_then(|at| KNOWN.get(at))
}

/// What is wrong with a rule's value, as far as it is written out: a program would misread it, or not take it.
pub fn fault(rule: &Rule) -> Option<Fault> {
    if rule.action == Action::Unset {
        return None;
    }
    value::fault(find(&rule.name)?, &rule.value.constant()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_each_row_says_something() {
        for pair in KNOWN.windows(2) {
            assert!(pair[0].name < pair[1].name, "{} {}", pair[0].name, pair[1].name);
        }
        for known in KNOWN {
            assert!(known.about.len() > 10 && !known.about.ends_with('.'), "{}", known.name);
            assert!(crate::profile::refused::always(known.name).is_none(), "{}", known.name);
        }
        for (one, other, _) in CLASHES {
            assert!(find(one).is_some() && find(other).is_some(), "{one} {other}");
        }
    }
}
