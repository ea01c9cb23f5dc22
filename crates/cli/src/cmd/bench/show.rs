//! The numbers, for people and for programs.

use super::measure::Medians;
use super::{Report, Row};
use crate::json::{BenchDocument, BenchRow, Placements, SCHEMA};
use crate::style::Style;
use crate::words;

/// One line for each GPU or NUMA node and quantity.
pub(super) fn text(report: &Report, style: Style) -> String {
    let mut rows = vec![[report.what, "near", "far", "unbound", "near is"].map(str::to_owned)];
    for row in &report.rows {
        rows.push(line(
            row.name.clone(),
            row.bandwidth,
            |rate| format!("{:.1} GB/s", rate / 1e9),
            ratio(row.bandwidth),
        ));
        if let Some(latency) = row.latency {
            let inverse = Medians { near: latency.far, far: latency.near, unbound: latency.unbound };
            rows.push(line(String::new(), latency, |seconds| format!("{:.2} µs", seconds * 1e6), ratio(inverse)));
        }
    }
    let table = words::columns(&rows);
    let (head, rest) = table.split_once('\n').unwrap_or((&table, ""));
    format!("{}\n{rest}", style.bold(head))
}

fn line(name: String, result: Medians, show: impl Fn(f64) -> String, ratio: Option<f64>) -> [String; 5] {
    let cell = |value: Option<f64>| value.map_or("-".to_owned(), &show);
    let ratio = ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2} × far"));
    [name, cell(result.near), cell(result.far), cell(result.unbound), ratio]
}

/// How much better near is, for a quantity of which more is better.
fn ratio(result: Medians) -> Option<f64> {
    let ratio = result.near? / result.far?;
    ratio.is_finite().then_some(ratio)
}

/// The document.
pub(super) fn document(report: &Report) -> BenchDocument {
    let placements = |result: Medians| Placements { near: result.near, far: result.far, unbound: result.unbound };
    let object = |row: &Row| BenchRow {
        name: row.name.clone(),
        bytes_per_second: placements(row.bandwidth),
        latency_seconds: row.latency.map(placements),
    };
    BenchDocument { schema: SCHEMA, what: report.what, rows: report.rows.iter().map(object).collect() }
}
