//! `GPU_TUNE_PLAN` as text: what a launcher's ranks are bound to. This is its only reader; the engine writes it.
//!
//! ```text
//! 1;0-31;LOCAL_RANK=9be17165;0-15:p0;16-31:p1/0-1;…
//! │ │    │                   └ one field for each local rank, from 0: CPUs[:policy]
//! │ │    └ variables of `env::NAMES` that the launcher itself was given, each with the hash of its value
//! │ └ the launcher's own CPUs
//! └ version
//! ```
//!
//! CPUs are a Linux cpulist; empty means: leave the mask alone. A policy is `pN` (prefer node N), `pN/LIST` (prefer the
//! nodes of LIST; N where the kernel can prefer only one) or `bLIST` (those nodes only). A text of another version, or one
//! that is damaged, is no plan, and nobody is bound.
use crate::bytes::{cut, hash_text, same, value_of};

/// The version that this code reads, and the engine writes.
pub const VERSION: &[u8] = b"1";

/// A plan, not yet looked into: the parts are read when they are asked for.
#[derive(Debug, Clone, Copy)]
pub struct Plan<'a> {
    /// The launcher's CPUs, a cpulist.
    pub launcher: &'a [u8],
    had: &'a [u8],
    ranks: &'a [u8],
}

/// What one rank is bound to.
#[derive(Debug, Clone, Copy)]
pub struct Share<'a> {
    /// A cpulist; empty: leave the mask alone.
    pub cpus: &'a [u8],
    /// The memory policy; `None`: leave it alone.
    pub memory: Option<Memory<'a>>,
}

/// A rank's memory policy.
#[derive(Debug, Clone, Copy)]
pub enum Memory<'a> {
    /// These nodes first, any other when they are full.
    Prefer {
        /// The node to name where the kernel can prefer only one (before 5.15).
        first: &'a [u8],
        /// All of them, a list.
        nodes: &'a [u8],
    },
    /// These nodes only, a list.
    Bind(&'a [u8]),
}

impl<'a> Plan<'a> {
    /// Takes a text apart. `None`: not a plan of this version.
    pub fn read(text: &'a [u8]) -> Option<Self> {
        let (version, rest) = cut(text, b';');
        let (launcher, rest) = cut(rest?, b';');
        let (had, ranks) = cut(rest?, b';');
        same(version, VERSION).then_some(Self { launcher, had, ranks: ranks? })
    }

    /// The hash of the value that the launcher itself was given for a variable; `None`: it was not given the variable.
    pub fn had(&self, name: &[u8]) -> Option<u32> {
        self.had_entries().find_map(|entry| value_of(entry, name)).and_then(hash_text)
    }

    /// The variables that the launcher itself was given, as `NAME=hash`.
    pub fn had_entries(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        fields(self.had, b',').filter(|entry| !entry.is_empty())
    }

    /// What the ranks are bound to, by local rank. A field that is no share ends the plan.
    pub fn shares(&self) -> impl Iterator<Item = Share<'a>> + use<'a> {
        fields(self.ranks, b';').map_while(share)
    }
}

fn share(field: &[u8]) -> Option<Share<'_>> {
    let (cpus, policy) = cut(field, b':');
    let memory = match policy {
        None => None,
        Some(policy) => Some(memory(policy)?),
    };
    Some(Share { cpus, memory })
}

fn memory(policy: &[u8]) -> Option<Memory<'_>> {
    match policy.split_first()? {
        (b'p', rest) => {
            let (first, nodes) = cut(rest, b'/');
            Some(Memory::Prefer { first, nodes: nodes.unwrap_or(first) })
        }
        (b'b', nodes) => Some(Memory::Bind(nodes)),
        _ => None,
    }
}

/// The parts of a text between marks.
fn fields(text: &[u8], mark: u8) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(text);
    core::iter::from_fn(move || {
        let (field, tail) = cut(rest?, mark);
        rest = tail;
        Some(field)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::format;
    use std::string::String;
    use std::vec::Vec;

    fn shown(text: &str) -> Option<Vec<String>> {
        let plan = Plan::read(text.as_bytes())?;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let share = |share: Share<'_>| match share.memory {
            None => text(share.cpus),
            Some(Memory::Prefer { first, nodes }) => {
                format!("{} prefer {} of {}", text(share.cpus), text(first), text(nodes))
            }
            Some(Memory::Bind(nodes)) => format!("{} bind {}", text(share.cpus), text(nodes)),
        };
        Some(plan.shares().map(share).collect())
    }

    #[test]
    fn every_kind_of_share_is_read() {
        let plan = "1;0-31;;0-7:p0;8-15:p1/0-1;16-23:b0,2;24-31;:p1";
        assert_eq!(
            shown(plan).unwrap(),
            ["0-7 prefer 0 of 0", "8-15 prefer 1 of 0-1", "16-23 bind 0,2", "24-31", " prefer 1 of 1"]
        );
        assert_eq!(Plan::read(plan.as_bytes()).unwrap().launcher, b"0-31");
    }

    #[test]
    fn a_text_of_another_version_or_form_is_no_plan() {
        for text in ["", "1", "1;0-3", "1;0-3;", "2;0-3;;0-1", ";0-3;;0", "01;0-3;;0-1"] {
            assert_eq!(shown(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_damaged_share_ends_the_plan() {
        assert_eq!(shown("1;0-3;;0:p0;1:x0;2:p0").unwrap(), ["0 prefer 0 of 0"]);
        assert_eq!(shown("1;0-3;;0:p0;1:").unwrap(), ["0 prefer 0 of 0"]);
    }

    #[test]
    fn what_the_launcher_was_given_is_found_by_name() {
        let plan = Plan::read(b"1;0-3;LOCAL_RANK=00000010,TORCHELASTIC_RUN_ID=000000ff;0").unwrap();
        assert_eq!(plan.had(b"LOCAL_RANK"), Some(0x10));
        assert_eq!(plan.had(b"TORCHELASTIC_RUN_ID"), Some(0xff));
        assert_eq!(plan.had(b"RANK"), None);
        assert_eq!(Plan::read(b"1;0-3;;0").unwrap().had(b"LOCAL_RANK"), None);
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_fail(text in proptest::collection::vec(any::<u8>(), 0..200), tail in "[0-9;:,=pb/-]{0,80}") {
            for text in [text, [&b"1;"[..], tail.as_bytes()].concat()] {
                if let Some(plan) = Plan::read(&text) {
                    prop_assert!(plan.shares().count() <= text.len());
                    prop_assert_eq!(plan.had(b"X"), None);
                }
            }
        }
    }
}
