//! What criterion measured: target/criterion/GROUP/FUNCTION/PARAMETER/new/estimates.json.

use serde_json::Value;
use std::path::Path;

/// Name and nanoseconds (median) of each function, sorted as criterion names them.
pub(crate) fn read(dir: &Path) -> Vec<(String, f64)> {
    let mut found = Vec::new();
    collect(dir, &mut found);
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    found
}

fn collect(dir: &Path, found: &mut Vec<(String, f64)>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.file_name().is_some_and(|name| name == "new") {
            found.extend(one(&path));
        } else if path.is_dir() {
            collect(&path, found);
        }
    }
}

fn one(dir: &Path) -> Option<(String, f64)> {
    let json = |file: &str| -> Option<Value> { serde_json::from_slice(&std::fs::read(dir.join(file)).ok()?).ok() };
    let name = json("benchmark.json")?["full_id"].as_str()?.to_owned();
    Some((name, json("estimates.json")?["median"]["point_estimate"].as_f64()?))
}
