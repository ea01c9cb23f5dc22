//! A picture of a node: packages, NUMA nodes, each core a square in the colour of the rank that owns it, GPUs and NICs
//! where they hang, and what is remote marked as such.
//!
//! The picture is one SVG file without scripts or outside parts, so that it can be mailed, put on a web page or turned
//! into a PNG. Blocks are drawn inside out: each draws itself on a canvas of its own and says how high it became, and
//! the block around it then knows the size of its frame.

mod canvas;
mod cores;
mod devices;
mod legend;
mod palette;

use crate::tree::{Hanging, Node, Package, Tree};
use canvas::{Canvas, Rect};
use gpu_tune_engine::{CpuSet, Machine};
use std::ops::Range;

/// What to draw.
#[derive(Debug)]
pub struct Picture<'a> {
    /// The node.
    pub machine: &'a Machine,
    /// The heading.
    pub title: String,
    /// Who owns which cores; `None` draws the node alone.
    pub step: Option<Step>,
}

/// A step on the node.
#[derive(Debug)]
pub struct Step {
    /// The CPUs it owns.
    pub allowed: CpuSet,
    /// The processes that get cores of their own, in the order of their number on the node.
    pub owners: Vec<Owner>,
}

/// A process that gets cores of its own: a task in rank mode, a rank of a launcher in launcher mode.
#[derive(Debug)]
pub struct Owner {
    /// What the legend says, such as `rank 3`.
    pub name: String,
    /// Its GPUs.
    pub gpus: Vec<usize>,
    /// Its CPUs.
    pub cpus: CpuSet,
    /// Its memory policy in words, such as `preferred 1`.
    pub memory: String,
    /// None of its CPUs is near its GPU.
    pub remote: bool,
}

const PAGE: f64 = 1280.0;
const MARGIN: f64 = 20.0;
const GAP: f64 = 12.0;
const NODE_MIN: f64 = 284.0;

/// The finished SVG file.
pub fn draw(picture: &Picture<'_>) -> String {
    let tree = Tree::of(picture.machine);
    let mut page = Canvas::default();
    page.text(MARGIN, 34.0, "h1", &picture.title);
    page.text(MARGIN, 54.0, "h2", &crate::words::summary(picture.machine));
    let mut y = 70.0;
    y += packages(&mut page, picture, &tree, y);
    y += loose(&mut page, picture, &tree.loose, y);
    y += legend::draw(&mut page, picture, Rect::new(MARGIN, y, PAGE - 2.0 * MARGIN, 0.0));
    page.document(PAGE, y + MARGIN, &picture.title, palette::STYLE)
}

/// Blocks in rows of `columns`, all blocks of a row as high as the highest. `draw` gets a block's number and width and
/// answers with its content and height; `frame` draws around it.
fn rows(
    page: &mut Canvas,
    at: Rect,
    columns: usize,
    count: usize,
    draw: impl Fn(usize, f64) -> (Canvas, f64),
    frame: impl Fn(&mut Canvas, Rect),
) -> f64 {
    let columns = columns.clamp(1, count.max(1));
    let w = (at.w - GAP * real(columns - 1)) / real(columns);
    let mut y = at.y;
    for start in (0..count).step_by(columns) {
        let row: Range<usize> = start..(start + columns).min(count);
        let blocks: Vec<(Canvas, f64)> = row.map(|number| draw(number, w)).collect();
        let h = blocks.iter().map(|(_, h)| *h).fold(0.0, f64::max);
        for (column, (block, _)) in blocks.iter().enumerate() {
            let x = at.x + real(column) * (w + GAP);
            frame(page, Rect::new(x, y, w, h));
            page.place(x, y, block);
        }
        y += h + GAP;
    }
    y - at.y
}

fn packages(page: &mut Canvas, picture: &Picture<'_>, tree: &Tree<'_>, y: f64) -> f64 {
    let at = Rect::new(MARGIN, y, PAGE - 2.0 * MARGIN, 0.0);
    let columns = if tree.packages.len() == 1 { 1 } else { 2 };
    let one = |number: usize, w: f64| match tree.packages.get(number) {
        Some(part) => package(picture, number, part, w),
        None => (Canvas::default(), 0.0),
    };
    rows(page, at, columns, tree.packages.len(), one, |page, frame| page.rect(frame, "package", ""))
}

fn package(picture: &Picture<'_>, number: usize, package: &Package<'_>, w: f64) -> (Canvas, f64) {
    let mut block = Canvas::default();
    block.text(GAP, 20.0, "head", &format!("package {number}"));
    block.text(GAP + 90.0, 20.0, "note", &canvas::fitted(&format!("CPUs {}", package.cpus), 11.0, w - 120.0));
    let inside = Rect::new(GAP, 30.0, w - 2.0 * GAP, 0.0);
    let columns = fitting(inside.w).min(package.nodes.len());
    let one = |number: usize, w: f64| match package.nodes.get(number) {
        Some(part) => node(picture, part, w),
        None => (Canvas::default(), 0.0),
    };
    let mut y = 30.0
        + rows(&mut block, inside, columns, package.nodes.len(), one, |block, frame| block.rect(frame, "node", ""));
    if !package.hanging.is_empty() {
        y += devices::draw(&mut block, picture, &package.hanging, Rect::new(GAP, y, inside.w, 0.0));
    }
    (block, y)
}

/// How many NUMA nodes fit side by side.
fn fitting(room: f64) -> usize {
    (1..=8).rev().find(|columns| real(*columns) * (NODE_MIN + GAP) - GAP <= room).unwrap_or(1)
}

fn node(picture: &Picture<'_>, node: &Node<'_>, w: f64) -> (Canvas, f64) {
    let mut block = Canvas::default();
    let (name, about) = crate::words::node(node);
    block.text(10.0, 19.0, "head", &name);
    block.text(10.0 + canvas::width(&name, 15.0) + 12.0, 19.0, "note", &about);
    let mut y = 28.0 + cores::draw(&mut block, picture, node, Rect::new(10.0, 28.0, w - 20.0, 0.0));
    if !node.hanging.is_empty() {
        y += devices::draw(&mut block, picture, &node.hanging, Rect::new(10.0, y, w - 20.0, 0.0));
    }
    (block, y)
}

/// What hangs at no single package, below them all.
fn loose(page: &mut Canvas, picture: &Picture<'_>, hanging: &Hanging<'_>, y: f64) -> f64 {
    if hanging.is_empty() {
        return 0.0;
    }
    let mut block = Canvas::default();
    let w = PAGE - 2.0 * MARGIN;
    block.text(GAP, 20.0, "head", "at no single package, or nobody knows where");
    let h = 30.0 + devices::draw(&mut block, picture, hanging, Rect::new(GAP, 30.0, w - 2.0 * GAP, 0.0));
    page.rect(Rect::new(MARGIN, y, w, h), "loose", "");
    page.place(MARGIN, y, &block);
    h + GAP
}

/// A small count as a length. Nothing in a picture is counted in billions.
fn real(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::MAX, f64::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpu_tune_engine::machine::testing::{gh200_x4, hgx};

    fn owner(number: usize, cpus: &str, remote: bool) -> Owner {
        let (name, memory) = (format!("rank {number}"), "preferred 0".to_owned());
        Owner { name, gpus: vec![number], cpus: cpus.parse().unwrap(), memory, remote }
    }

    fn step(machine: &Machine, owners: Vec<Owner>) -> String {
        let step = Some(Step { allowed: "0-15".parse().unwrap(), owners });
        draw(&Picture { machine, title: "a step".to_owned(), step })
    }

    #[test]
    fn every_numa_node_of_a_machine_with_gpu_memory_is_shown() {
        let machine = gh200_x4();
        let text = draw(&Picture { machine: &machine, title: "a node".to_owned(), step: None });
        let named: CpuSet = text
            .split("NUMA ")
            .skip(1)
            .filter_map(|rest| rest.split([' ', ':', '<', ',']).next()?.parse::<CpuSet>().ok())
            .fold(CpuSet::new(), |all, set| &all | &set);
        assert!(machine.numa.iter().all(|node| named.contains(node.id)), "{named}");
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    }

    #[test]
    fn cores_tell_their_rank_and_what_is_not_used_or_not_allowed() {
        let text = step(&hgx(), vec![owner(0, "0-3", false), owner(1, "2-5", false)]);
        for (core, whose) in
            [(0, "rank 0"), (3, "rank 0, rank 1"), (5, "rank 1"), (9, "not used"), (16, "not of this step")]
        {
            let cpus = if core < 16 { format!("{core},{}", core + 112) } else { "16,128".to_owned() };
            assert!(text.contains(&format!("<title>core {core}: CPUs {cpus}: {whose}</title>")), "core {core}");
        }
    }

    #[test]
    fn a_remote_gpu_is_marked_and_only_that() {
        let text = step(&hgx(), vec![owner(0, "0-3", false), owner(4, "4-7", true)]);
        // Once at the GPU, once in the legend.
        assert_eq!(text.matches("class=\"remote\"").count(), 2);
        assert!(text.contains("rank 4 → GPU 4 (remote)"));
    }

    #[test]
    fn what_comes_from_outside_cannot_break_the_file() {
        let mut machine = hgx();
        machine.gpus[0].model = Some("<svg onload=\"x\">&\u{1}".to_owned());
        let text = draw(&Picture { machine: &machine, title: "a<b\u{1}".to_owned(), step: None });
        assert!(text.contains("a&lt;b\u{fffd}"), "{text}");
        assert!(text.contains("&lt;svg onload=&quot;x&quot;&gt;&amp;\\u{1}"), "{text}");
        assert_eq!(text.matches("<svg ").count(), 1);
    }
}
