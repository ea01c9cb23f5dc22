//! Files that somebody changed: whatever libhwloc makes of them, there is a machine or a one-line error.
#![cfg(test)]

use gpu_tune_discover::read_xml;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use std::path::Path;

/// The machines described in `tests/machines`.
fn machines() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/machines");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut texts: Vec<String> = files.map(|file| std::fs::read_to_string(file).unwrap()).collect();
    texts.sort();
    texts
}

/// What is put in the place of an attribute's value.
const VALUES: [&str; 16] = [
    "",
    "0",
    "-1",
    "1",
    "4",
    "9999999999999999999",
    "0x0",
    "0xf...f",
    "0xf...f,0x0",
    "0xffffffff,0xffffffff",
    "PU",
    "Core",
    "NUMANode",
    "Bridge",
    "PCIDev",
    "0000:ff:1f.7",
];

/// A change to a file.
#[derive(Debug, Clone)]
enum Change {
    /// Another value for one attribute.
    Value(Index, &'static str),
    /// One line less.
    Drop(Index),
    /// One line twice.
    Repeat(Index),
    /// Two lines in each other's place.
    Swap(Index, Index),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        6 => (any::<Index>(), select(&VALUES[..])).prop_map(|(at, value)| Change::Value(at, value)),
        1 => any::<Index>().prop_map(Change::Drop),
        1 => any::<Index>().prop_map(Change::Repeat),
        1 => any::<(Index, Index)>().prop_map(|(one, other)| Change::Swap(one, other)),
    ]
}

fn apply(change: &Change, text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    if lines.is_empty() {
        return text.to_owned();
    }
    match change {
        Change::Value(at, value) => return replace(text, at, value),
        Change::Drop(at) => drop(lines.remove(at.index(lines.len()))),
        Change::Repeat(at) => {
            let at = at.index(lines.len());
            lines.insert(at, lines[at]);
        }
        Change::Swap(one, other) => {
            let (one, other) = (one.index(lines.len()), other.index(lines.len()));
            lines.swap(one, other);
        }
    }
    lines.join("\n")
}

/// Puts `value` between one pair of quotes.
fn replace(text: &str, at: &Index, value: &str) -> String {
    let mut parts: Vec<&str> = text.split('"').collect();
    if parts.len() < 3 {
        return text.to_owned();
    }
    let at = at.index(parts.len() / 2) * 2 + 1;
    parts[at] = value;
    parts.join("\"")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_changed_file_gives_a_machine_or_one_line(text in select(machines()), changes in prop::collection::vec(change(), 1..6)) {
        let text = changes.iter().fold(text, |text, change| apply(change, &text));
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("node.xml");
        std::fs::write(&file, &text).unwrap();
        match read_xml(&file) {
            Ok((machine, _)) => {
                prop_assert!(!machine.cpus.is_empty());
                prop_assert!(machine.cores.iter().all(|core| core.pus.is_subset(&machine.cpus)));
                prop_assert!(machine.numa.iter().all(|node| node.cpus.is_subset(&machine.cpus)));
                prop_assert!(machine.gpus.windows(2).all(|pair| pair[0].pci < pair[1].pci));
            }
            Err(error) => prop_assert_eq!(error.to_string().lines().count(), 1),
        }
    }
}
