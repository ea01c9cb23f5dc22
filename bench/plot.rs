//! The picture of docs/performance.md: ratios with their intervals, and growth with tasks and nodes.

use crate::scale::Scale;
use crate::stats::Ratio;
use crate::steps::{Steps, TASKS};
use std::fmt::Write as _;

const WIDTH: f64 = 900.0;
const ROW: f64 = 34.0;
const TOP: f64 = 50.0;
const LEFT: f64 = 260.0;
/// What one task on a node, and two, are drawn in; without and with gpu-tune likewise.
const COLOURS: [&str; 2] = ["#8a8f98", "#1f6feb"];

/// Draws both.
pub(crate) fn draw(steps: &Steps, scale: &Scale) -> String {
    let (ratios, below) = ratios(steps, TOP);
    let (growth, height) = growth(scale, below + 60.0);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{ratios}{growth}</svg>\n"
    )
}

fn text(out: &mut String, x: f64, y: f64, anchor: &str, words: &str) {
    let words = words.replace('`', "").replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>");
}

fn line(out: &mut String, from: (f64, f64), to: (f64, f64), colour: &str, width: f64) {
    let _ = writeln!(
        out,
        "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\" stroke-width=\"{width}\"/>",
        from.0, from.1, to.0, to.1
    );
}

/// A row for each kind: a dot for the ratio, a line for its interval.
fn ratios(steps: &Steps, top: f64) -> (String, f64) {
    let all: Vec<(&str, Vec<Ratio>)> = steps
        .series
        .iter()
        .skip(1)
        .map(|series| (series.name, (0..TASKS.len()).map(|at| steps.ratio(series, at)).collect()))
        .collect();
    let ends = all
        .iter()
        .flat_map(|(_, ratios)| ratios)
        .fold((0.98, 1.02), |(low, high): (f64, f64), ratio| (low.min(ratio.low), high.max(ratio.high)));
    let x = |ratio: f64| LEFT + (ratio - ends.0) / (ends.1 - ends.0) * (WIDTH - LEFT - 40.0);
    let mut out = String::new();
    text(
        &mut out,
        20.0,
        top - 26.0,
        "start",
        "Time of srun to the time without a plugin: -n1 grey, -n2 blue; lines are 95 % intervals",
    );
    let below = top + ROW * all.len() as f64;
    for mark in [1.0, 1.01, 1.05, 1.1, 1.2, 1.5, 2.0].into_iter().filter(|mark| *mark <= ends.1) {
        line(&mut out, (x(mark), top - 8.0), (x(mark), below), "#d0d7de", 1.0);
        // Two labels as near as 1 % would lie on each other.
        if mark != 1.01 || ends.1 < 1.2 {
            text(&mut out, x(mark), below + 16.0, "middle", &format!("{mark}"));
        }
    }
    for (row, (name, ratios)) in all.iter().enumerate() {
        let y = top + ROW * row as f64 + ROW / 2.0;
        text(&mut out, LEFT - 12.0, y + 2.0, "end", name);
        for (at, ratio) in ratios.iter().enumerate() {
            let y = y - 5.0 + 10.0 * at as f64;
            line(&mut out, (x(ratio.low), y), (x(ratio.high), y), COLOURS[at], 2.0);
            let _ =
                writeln!(out, "<circle cx=\"{:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{}\"/>", x(ratio.median), COLOURS[at]);
        }
    }
    (out, below + 16.0)
}

/// Two bars for each size of step, on a logarithmic scale.
fn growth(scale: &Scale, top: f64) -> (String, f64) {
    let times = scale.sizes.iter().flat_map(crate::scale::Size::medians);
    let (least, most) = times.fold((f64::MAX, 0.0_f64), |(least, most), time| (least.min(time), most.max(time)));
    let least = least / 2.0;
    let x = |time: f64| LEFT + (time / least).ln() / (most / least).ln() * (WIDTH - LEFT - 80.0);
    let mut out = String::new();
    text(
        &mut out,
        20.0,
        top - 10.0,
        "start",
        "Milliseconds of srun, logarithmic: without a plugin grey, with gpu-tune h200 blue",
    );
    for (row, size) in scale.sizes.iter().enumerate() {
        let y = top + ROW * row as f64;
        let nodes = if size.nodes == 1 { "node" } else { "nodes" };
        text(
            &mut out,
            LEFT - 12.0,
            y + ROW / 2.0 + 2.0,
            "end",
            &format!("{} {nodes} × {} tasks", size.nodes, size.tasks),
        );
        for (at, time) in size.medians().into_iter().enumerate() {
            let y = y + 4.0 + 13.0 * at as f64;
            let _ = writeln!(
                out,
                "<rect x=\"{LEFT}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"11\" fill=\"{}\"/>",
                x(time) - LEFT,
                COLOURS[at]
            );
            text(&mut out, x(time) + 6.0, y + 10.0, "start", &format!("{time:.0}"));
        }
    }
    (out, top + ROW * scale.sizes.len() as f64 + 20.0)
}
