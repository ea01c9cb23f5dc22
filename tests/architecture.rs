//! What ARCHITECTURE.md says about unsafe code, held against the sources.
#![cfg(test)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust file of ours, by its path from the root.
fn sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut todo: Vec<PathBuf> = ["build.rs", "src", "crates", "tests", "bench", "fuzz"].map(PathBuf::from).into();
    while let Some(path) = todo.pop() {
        let full = root().join(&path);
        if full.is_dir() {
            let entries = std::fs::read_dir(&full).unwrap();
            todo.extend(
                entries.map(|entry| path.join(entry.unwrap().file_name())).filter(|path| !path.ends_with("target")),
            );
        } else if path.extension().is_some_and(|extension| extension == "rs") && full.is_file() {
            found.push(path);
        }
    }
    found
}

/// The first cells of the table under "Unsafe code".
fn listed() -> BTreeSet<PathBuf> {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let (_, section) = text.split_once("## Unsafe code").expect("a section `Unsafe code`");
    let section = section.split("\n## ").next().unwrap();
    let cells = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
    cells
        .inspect(|(path, why)| assert!(why.len() > 20, "no reason beside {path}"))
        .map(|(path, _)| path.into())
        .collect()
}

#[test]
fn every_module_with_unsafe_code_is_in_the_table_and_no_other() {
    // The lints keep `unsafe` out of every file that has no such attribute.
    let lets_in = |line: &str| {
        let line = line.trim_start();
        let kept_out = ["forbid(unsafe_code)", "deny(unsafe_code)"].iter().any(|lint| line.contains(lint));
        line.starts_with('#') && line.contains("unsafe_code") && !kept_out
    };
    let allows = |path: &PathBuf| std::fs::read_to_string(root().join(path)).unwrap().lines().any(lets_in);
    let found: BTreeSet<PathBuf> = sources().into_iter().filter(allows).collect();
    assert!(found.contains(Path::new("src/spank.rs")), "nothing is found any more: {found:?}");
    assert_eq!(found, listed());
}
