//! Values with placeholders, such as `{cores}`: what is known only on the node, or only in the task.

use crate::text::{did_you_mean, shown};
use std::fmt;

/// Something that a value may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Placeholder {
    /// Physical cores of the rank; for a launcher the smallest over its ranks.
    Cores,
    /// Hardware threads of the rank; for a launcher the smallest over its ranks.
    Threads,
    /// Nodes of the step.
    Nodes,
    /// The index of the RoCE v2 address in the tables of all selected network adapters of the node.
    Rocev2GidIndex,
    /// The task's number on its node.
    LocalRank,
    /// UUID of the rank's GPU.
    GpuUuid,
    /// PCI address of the rank's GPU.
    GpuPci,
    /// The RDMA devices nearest to the rank's GPU, separated by commas.
    NearNics,
}

const ALL: [(&str, Placeholder); 8] = [
    ("cores", Placeholder::Cores),
    ("threads", Placeholder::Threads),
    ("nodes", Placeholder::Nodes),
    ("rocev2_gid_index", Placeholder::Rocev2GidIndex),
    ("local_rank", Placeholder::LocalRank),
    ("gpu_uuid", Placeholder::GpuUuid),
    ("gpu_pci", Placeholder::GpuPci),
    ("near_nics", Placeholder::NearNics),
];

impl Placeholder {
    /// As it is written between the braces.
    pub fn as_str(self) -> &'static str {
        ALL.iter().find(|(_, placeholder)| *placeholder == self).map_or("", |(name, _)| name)
    }

    /// Whether a launcher's ranks would need different values: the launcher is one process and cannot have them.
    pub fn per_rank(self) -> bool {
        matches!(self, Self::LocalRank | Self::GpuUuid | Self::GpuPci | Self::NearNics)
    }

    /// Whether every node of a job has the same value.
    pub fn job_wide(self) -> bool {
        self == Self::Nodes
    }
}

/// A value as it is written, cut into text and placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Slot(Placeholder),
}

/// A value that cannot be had because a placeholder has none: which one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Missing(pub Placeholder);

/// Why a text is no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BadTemplate {
    pub(super) message: String,
    pub(super) help: String,
}

impl Template {
    /// A value without placeholders.
    pub fn text(text: &str) -> Self {
        Self(vec![Piece::Text(text.to_owned())])
    }

    /// Cuts a text at its placeholders. `{{` and `}}` stand for braces.
    pub(super) fn parse(text: &str) -> Result<Self, BadTemplate> {
        let mut pieces = Vec::new();
        let mut plain = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            let (before, from) = rest.split_at(at);
            plain.push_str(before);
            if let Some(after) = from.strip_prefix("{{").or_else(|| from.strip_prefix("}}")) {
                plain.extend(from.chars().next());
                rest = after;
                continue;
            }
            let (name, after) = from.strip_prefix('{').and_then(|from| from.split_once('}')).ok_or_else(unpaired)?;
            pieces.push(Piece::Text(std::mem::take(&mut plain)));
            pieces.push(Piece::Slot(placeholder(name)?));
            rest = after;
        }
        plain.push_str(rest);
        pieces.push(Piece::Text(plain));
        pieces.retain(|piece| *piece != Piece::Text(String::new()));
        Ok(Self(pieces))
    }

    /// The placeholders in it.
    pub fn placeholders(&self) -> impl Iterator<Item = Placeholder> + '_ {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Text(_) => None,
            Piece::Slot(placeholder) => Some(*placeholder),
        })
    }

    /// The value, if it has no placeholder.
    pub fn constant(&self) -> Option<String> {
        self.fill(|_| None).ok()
    }

    /// The value, with what `value` knows in the placeholders' places.
    pub fn fill(&self, value: impl Fn(Placeholder) -> Option<String>) -> Result<String, Missing> {
        let text = |piece: &Piece| match piece {
            Piece::Text(text) => Ok(text.clone()),
            Piece::Slot(placeholder) => value(*placeholder).ok_or(Missing(*placeholder)),
        };
        self.0.iter().map(text).collect()
    }

    /// Puts in what is known already; the other placeholders stay.
    pub fn fill_known(&self, value: impl Fn(Placeholder) -> Option<String>) -> Self {
        let fill = |piece: &Piece| match piece {
            Piece::Text(_) => piece.clone(),
            Piece::Slot(placeholder) => value(*placeholder).map_or_else(|| piece.clone(), Piece::Text),
        };
        Self(self.0.iter().map(fill).collect())
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|piece| match piece {
            Piece::Text(text) => f.write_str(text),
            Piece::Slot(placeholder) => write!(f, "{{{}}}", placeholder.as_str()),
        })
    }
}

fn placeholder(name: &str) -> Result<Placeholder, BadTemplate> {
    ALL.iter().find(|(known, _)| *known == name).map(|(_, placeholder)| *placeholder).ok_or_else(|| BadTemplate {
        message: format!("unknown placeholder `{{{}}}`", shown(name)),
        help: format!(
            "{}placeholders: {}",
            did_you_mean(name, ALL.iter().map(|(known, _)| *known)),
            ALL.map(|(known, _)| format!("{{{known}}}")).join(" ")
        ),
    })
}

fn unpaired() -> BadTemplate {
    BadTemplate {
        message: "a brace without its partner".to_owned(),
        help: "write `{{` and `}}` for plain braces".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_filled_and_braces_can_be_written() {
        let template = Template::parse("{{a}}:{local_rank}:{gpu_pci}").unwrap();
        assert_eq!(template.placeholders().collect::<Vec<_>>(), [Placeholder::LocalRank, Placeholder::GpuPci]);
        assert_eq!(template.constant(), None);
        let half = template.fill_known(|slot| (slot == Placeholder::LocalRank).then(|| "3".into()));
        assert_eq!(half.to_string(), "{a}:3:{gpu_pci}");
        assert_eq!(half.fill(|_| None), Err(Missing(Placeholder::GpuPci)));
        assert_eq!(half.fill(|_| Some("x".into())).unwrap(), "{a}:3:x");
        assert_eq!(Template::parse("").unwrap().constant().unwrap(), "");
        assert_eq!(Template::parse("plain").unwrap(), Template::text("plain"));
    }

    #[test]
    fn bad_placeholders_are_named_with_the_nearest() {
        let error = Template::parse("{core}").unwrap_err();
        assert_eq!(error.message, "unknown placeholder `{core}`");
        assert!(error.help.starts_with("did you mean `cores`? placeholders: {cores} {threads}"), "{}", error.help);
        for text in ["{", "}", "a{b", "a}b", "{{a}", "{a}}"] {
            Template::parse(text).expect_err(text);
        }
    }
}
