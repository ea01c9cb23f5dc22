//! Conditions: for which steps a value is meant.

use super::Glob;
use crate::machine::LinkLayer;
use crate::text::number;
use std::collections::BTreeSet;
use std::fmt;

/// What is known about a step, as far as conditions ask. Unknown is `None`, or an empty list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// Product names of the step's GPUs, as the driver writes them; an empty text for one that is not known.
    pub gpus: Vec<String>,
    /// Nodes of the step.
    pub nodes: Option<u32>,
    /// Tasks of the step on this node.
    pub tasks_per_node: Option<u32>,
    /// What runs on the wires of the node's active RDMA ports.
    pub link_layers: BTreeSet<LinkLayer>,
    /// Whether the tasks run in a container's file system.
    pub container: bool,
    /// Processor architecture, as `uname -m` writes it.
    pub arch: String,
    /// Slurm's release, such as 24.11; `None` outside Slurm.
    pub slurm_version: Option<(u16, u16)>,
}

/// Conditions that must all hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct When(pub(super) Vec<Condition>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Condition {
    /// Every GPU of the step fits one of the patterns.
    Gpu(Vec<Glob>),
    Nodes(Comparison<u32>),
    TasksPerNode(Comparison<u32>),
    /// Every active RDMA port has one of the link layers.
    LinkLayer(Vec<LinkLayer>),
    Container(bool),
    Arch(Vec<Glob>),
    SlurmVersion(Comparison<(u16, u16)>),
}

/// Comparisons that must all hold: `>1`, `>=2,<=8`, `!=3`, or a plain number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Comparison<T>(Vec<(Relation, T)>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relation {
    Less,
    AtMost,
    Equal,
    Unequal,
    AtLeast,
    More,
}

/// Longer signs first, so that `>=` is not taken for `>`.
const RELATIONS: [(&str, Relation); 7] = [
    ("<=", Relation::AtMost),
    (">=", Relation::AtLeast),
    ("!=", Relation::Unequal),
    ("==", Relation::Equal),
    ("<", Relation::Less),
    (">", Relation::More),
    ("=", Relation::Equal),
];

impl When {
    /// Whether no condition is asked.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether all conditions hold; otherwise the first that does not, and what is the case instead.
    pub fn holds(&self, facts: &Facts) -> Result<(), String> {
        self.0.iter().try_for_each(|condition| condition.holds(facts))
    }

    /// Whether a condition asks for [`Facts::link_layers`].
    pub fn asks_link_layer(&self) -> bool {
        self.0.iter().any(|condition| matches!(condition, Condition::LinkLayer(_)))
    }

    /// The name of a condition that may be answered differently on two nodes of one job.
    pub fn differs_by_node(&self) -> Option<&'static str> {
        self.0.iter().find_map(|condition| match condition {
            Condition::Gpu(_) => Some("gpu"),
            Condition::TasksPerNode(_) => Some("tasks_per_node"),
            Condition::LinkLayer(_) => Some("link_layer"),
            Condition::Arch(_) => Some("arch"),
            Condition::SlurmVersion(_) => Some("slurm_version"),
            Condition::Nodes(_) | Condition::Container(_) => None,
        })
    }
}

impl Condition {
    fn holds(&self, facts: &Facts) -> Result<(), String> {
        match self {
            Self::Gpu(globs) => {
                let odd = facts.gpus.iter().find(|model| !globs.iter().any(|glob| glob.fits_model(model)));
                match (facts.gpus.first(), odd) {
                    (None, _) => Err(format!("only for GPUs {}, and the step has none", list(globs))),
                    (_, Some(model)) if model.is_empty() => {
                        Err(format!("only for GPUs {}, and the model is not known", list(globs)))
                    }
                    (_, Some(model)) => Err(format!("only for GPUs {}, and this is `{model}`", list(globs))),
                    (_, None) => Ok(()),
                }
            }
            Self::Nodes(wanted) => wanted.holds(facts.nodes, "nodes", |n| n.to_string()),
            Self::TasksPerNode(wanted) => wanted.holds(facts.tasks_per_node, "tasks per node", |n| n.to_string()),
            Self::LinkLayer(layers) => link_layers(layers, &facts.link_layers),
            Self::Container(wanted) if *wanted == facts.container => Ok(()),
            Self::Container(true) => Err("only for tasks in a container".to_owned()),
            Self::Container(false) => Err("only for tasks outside containers".to_owned()),
            Self::Arch(globs) if globs.iter().any(|glob| glob.fits(&facts.arch)) => Ok(()),
            Self::Arch(globs) => Err(format!("only for {}, and this is `{}`", list(globs), facts.arch)),
            Self::SlurmVersion(wanted) => wanted.holds(facts.slurm_version, "Slurm", |v| version(*v)),
        }
    }
}

impl fmt::Display for When {
    /// As in a file: `nodes = ">1", link_layer = ["ethernet"]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&texts.join(", "))
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gpu(globs) => write!(f, "gpu = {}", quoted(globs.iter())),
            Self::Nodes(wanted) => write!(f, "nodes = \"{}\"", wanted.text(u32::to_string)),
            Self::TasksPerNode(wanted) => write!(f, "tasks_per_node = \"{}\"", wanted.text(u32::to_string)),
            Self::LinkLayer(layers) => {
                write!(f, "link_layer = {}", quoted(layers.iter().map(|layer| link_layer(*layer))))
            }
            Self::Container(wanted) => write!(f, "container = {wanted}"),
            Self::Arch(globs) => write!(f, "arch = {}", quoted(globs.iter())),
            Self::SlurmVersion(wanted) => write!(f, "slurm_version = \"{}\"", wanted.text(|v| version(*v))),
        }
    }
}

fn quoted(items: impl Iterator<Item = impl fmt::Display>) -> String {
    let items: Vec<String> = items.map(|item| format!("\"{item}\"")).collect();
    match items.as_slice() {
        [one] => one.clone(),
        items => format!("[{}]", items.join(", ")),
    }
}

fn link_layers(wanted: &[LinkLayer], found: &BTreeSet<LinkLayer>) -> Result<(), String> {
    let names = |layers: &mut dyn Iterator<Item = &LinkLayer>| {
        layers.map(|layer| format!("`{}`", link_layer(*layer))).collect::<Vec<_>>().join(" and ")
    };
    if !found.is_empty() && found.iter().all(|layer| wanted.contains(layer)) {
        return Ok(());
    }
    let wanted = names(&mut wanted.iter());
    Err(match found.is_empty() {
        true => format!("only for RDMA over {wanted}, and no port is active"),
        false => format!("only for RDMA over {wanted}, and here it is {}", names(&mut found.iter())),
    })
}

/// The word for a link layer.
pub(super) fn link_layer(layer: LinkLayer) -> &'static str {
    match layer {
        LinkLayer::Infiniband => "infiniband",
        LinkLayer::Ethernet => "ethernet",
        LinkLayer::Other => "other",
    }
}

fn list(globs: &[Glob]) -> String {
    globs.iter().map(|glob| format!("`{glob}`")).collect::<Vec<_>>().join(" or ")
}

fn version((major, minor): (u16, u16)) -> String {
    format!("{major:02}.{minor:02}")
}

impl<T: PartialOrd + Copy> Comparison<T> {
    fn holds(&self, found: Option<T>, what: &str, show: impl Fn(&T) -> String) -> Result<(), String> {
        let Some(found) = found else { return Err(format!("only for certain {what}, which is not known here")) };
        let fails = self.0.iter().find(|(relation, wanted)| !relation.holds(found, *wanted));
        fails.map_or(Ok(()), |(relation, wanted)| {
            Err(format!("only for {what} {relation}{}, and here it is {}", show(wanted), show(&found)))
        })
    }

    fn text(&self, show: impl Fn(&T) -> String) -> String {
        self.0.iter().map(|(relation, wanted)| format!("{relation}{}", show(wanted))).collect::<Vec<_>>().join(",")
    }

    /// Reads comparisons separated by commas; `number` reads one number.
    pub(super) fn parse(text: &str, number: impl Fn(&str) -> Option<T>) -> Option<Self> {
        let one = |item: &str| {
            let item = item.trim();
            let (relation, rest) = RELATIONS
                .iter()
                .find_map(|(sign, relation)| item.strip_prefix(sign).map(|rest| (*relation, rest)))
                .unwrap_or((Relation::Equal, item));
            number(rest.trim()).map(|wanted| (relation, wanted))
        };
        text.split(',').map(one).collect::<Option<_>>().map(Self)
    }
}

impl Relation {
    fn holds<T: PartialOrd>(self, found: T, wanted: T) -> bool {
        match self {
            Self::Less => found < wanted,
            Self::AtMost => found <= wanted,
            Self::Equal => found == wanted,
            Self::Unequal => found != wanted,
            Self::AtLeast => found >= wanted,
            Self::More => found > wanted,
        }
    }
}

impl fmt::Display for Relation {
    /// Nothing for equality: a plain number says it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = RELATIONS.iter().find(|(_, relation)| relation == self && *relation != Self::Equal);
        f.write_str(sign.map_or("", |(sign, _)| sign))
    }
}

/// A count of nodes or tasks.
pub(super) fn count(text: &str) -> Option<u32> {
    number(text)
}

/// A Slurm release such as `24.11`.
pub(super) fn release(text: &str) -> Option<(u16, u16)> {
    let (major, minor) = text.split_once('.')?;
    Some((number(major)?, number(minor)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(text: &str, found: Option<u32>) -> Result<(), String> {
        let when = When(vec![Condition::Nodes(Comparison::parse(text, count).unwrap())]);
        when.holds(&Facts { nodes: found, ..Facts::default() })
    }

    #[test]
    fn numbers_are_compared_and_the_reason_names_both() {
        for (text, found, expected) in [
            (">1", 2, true),
            (">1", 1, false),
            ("1", 1, true),
            ("=1", 2, false),
            ("!=1", 2, true),
            (">=2,<=8", 8, true),
            (">=2, <=8", 9, false),
            ("<2", 1, true),
        ] {
            assert_eq!(nodes(text, Some(found)).is_ok(), expected, "{text} {found}");
        }
        assert_eq!(nodes(">1", Some(1)).unwrap_err(), "only for nodes >1, and here it is 1");
        assert_eq!(nodes(">1", None).unwrap_err(), "only for certain nodes, which is not known here");
        for text in ["", ">", "x", ">1x", "-1", "> 1,", "+1"] {
            assert_eq!(Comparison::parse(text, count), None, "{text}");
        }
    }

    #[test]
    fn releases_are_compared_by_both_parts() {
        let when = When(vec![Condition::SlurmVersion(Comparison::parse(">=23.11", release).unwrap())]);
        let holds = |version| when.holds(&Facts { slurm_version: version, ..Facts::default() });
        assert_eq!(holds(Some((24, 5))), Ok(()));
        assert_eq!(holds(Some((22, 5))).unwrap_err(), "only for Slurm >=23.11, and here it is 22.05");
        assert!(holds(None).is_err());
    }

    #[test]
    fn every_gpu_and_every_link_must_fit() {
        let when = When(vec![Condition::Gpu(vec![Glob::new("H100*"), Glob::new("H200*")])]);
        let holds = |gpus: &[&str]| {
            when.holds(&Facts { gpus: gpus.iter().map(|gpu| (*gpu).to_owned()).collect(), ..Facts::default() })
        };
        assert_eq!(holds(&["NVIDIA H100 80GB HBM3", "NVIDIA H200"]), Ok(()));
        assert_eq!(
            holds(&["NVIDIA H200", "NVIDIA A100"]).unwrap_err(),
            "only for GPUs `H100*` or `H200*`, and this is `NVIDIA A100`"
        );
        assert!(holds(&[]).unwrap_err().ends_with("and the step has none"));
        assert!(holds(&[""]).unwrap_err().ends_with("and the model is not known"));

        let when = When(vec![Condition::LinkLayer(vec![LinkLayer::Ethernet])]);
        let holds = |layers: &[LinkLayer]| {
            when.holds(&Facts { link_layers: layers.iter().copied().collect(), ..Facts::default() })
        };
        assert_eq!(holds(&[LinkLayer::Ethernet]), Ok(()));
        assert_eq!(
            holds(&[LinkLayer::Ethernet, LinkLayer::Infiniband]).unwrap_err(),
            "only for RDMA over `ethernet`, and here it is `infiniband` and `ethernet`"
        );
        assert!(holds(&[]).unwrap_err().ends_with("and no port is active"));
    }
}
