//! The cores of a NUMA node as squares.

use super::canvas::{Canvas, Rect};
use super::{Picture, Step, palette, real};
use crate::tree::Node;
use gpu_tune_engine::machine::Core;

const SIDE: f64 = 18.0;
const PITCH: f64 = 21.0;

/// Draws them and answers with the height used.
pub(super) fn draw(block: &mut Canvas, picture: &Picture<'_>, node: &Node<'_>, at: Rect) -> f64 {
    let columns = columns(node.cores.len(), at.w);
    for (place, (number, core)) in node.cores.iter().enumerate() {
        let x = at.x + real(place % columns) * PITCH;
        let y = at.y + real(place / columns) * PITCH;
        square(block, picture.step.as_ref(), *number, core, Rect::new(x, y, SIDE, SIDE));
    }
    real(node.cores.len().div_ceil(columns)) * PITCH + 8.0
}

/// As many as fit, but fewer when that makes all rows equal.
fn columns(cores: usize, room: f64) -> usize {
    let most = (1..=64).rev().find(|columns| real(*columns) * PITCH <= room + PITCH - SIDE).unwrap_or(1);
    let even = (most.div_ceil(2)..=most).rev().find(|columns| cores % columns == 0);
    even.unwrap_or(most).min(cores).max(1)
}

fn square(block: &mut Canvas, step: Option<&Step>, number: usize, core: &Core, at: Rect) {
    let Some(step) = step else {
        block.group(&format!("core {number}: CPUs {}", core.pus), |block| block.rect(at, "core plain", ""));
        return;
    };
    // One column for each hardware thread, unless all threads have the same owners.
    let mut threads: Vec<Thread> = core.pus.iter().map(|cpu| Thread::of(step, cpu)).collect();
    threads.dedup();
    block.group(&title(step, number, core, &threads), |block| {
        let w = at.w / real(threads.len());
        for (column, thread) in threads.iter().enumerate() {
            thread.draw(block, Rect::new(at.x + real(column) * w, at.y, w, at.h));
        }
    });
}

/// Who owns a hardware thread.
#[derive(Debug, PartialEq, Eq)]
struct Thread {
    allowed: bool,
    owners: Vec<usize>,
}

impl Thread {
    fn of(step: &Step, cpu: u32) -> Self {
        let owners = step.owners.iter().enumerate().filter(|(_, owner)| owner.cpus.contains(cpu));
        Self { allowed: step.allowed.contains(cpu), owners: owners.map(|(number, _)| number).collect() }
    }

    fn draw(&self, block: &mut Canvas, at: Rect) {
        match self.owners.as_slice() {
            [] if self.allowed => block.rect(at, "core free", ""),
            [] => block.rect(at, "core outside", ""),
            [one] => owned(block, *one, at),
            several => self.shared(block, several, at),
        }
    }

    /// A stripe for each owner.
    fn shared(&self, block: &mut Canvas, owners: &[usize], at: Rect) {
        let h = at.h / real(owners.len());
        for (row, owner) in owners.iter().enumerate() {
            let fill = format!("fill=\"{}\"", palette::paint(*owner).fill);
            block.rect(Rect::new(at.x, at.y + real(row) * h, at.w, h), "", &fill);
        }
        block.rect(at, "core", "fill=\"none\"");
    }
}

/// A square in a rank's colours; the legend and the GPUs use it too.
pub(super) fn owned(block: &mut Canvas, owner: usize, at: Rect) {
    let paint = palette::paint(owner);
    block.rect(at, "core", &format!("fill=\"{}\"", paint.fill));
    for bar in 0..paint.bars.min(2) {
        let y = at.y + at.h - 4.5 - 3.0 * real(bar);
        block.rect(Rect::new(at.x + 2.5, y, at.w - 5.0, 2.0), "", &format!("fill=\"{}\"", paint.ink));
    }
    if at.w >= SIDE {
        let lift = if paint.bars == 0 { 3.6 } else { 1.6 };
        let class = if paint.ink == palette::DARK { "num" } else { "num light" };
        block.text(at.x + at.w / 2.0, at.y + at.h / 2.0 + lift, class, &owner.to_string());
    }
}

fn title(step: &Step, number: usize, core: &Core, threads: &[Thread]) -> String {
    let mut owners: Vec<usize> = threads.iter().flat_map(|thread| thread.owners.iter().copied()).collect();
    owners.sort_unstable();
    owners.dedup();
    let names: Vec<&str> = owners.iter().filter_map(|owner| Some(step.owners.get(*owner)?.name.as_str())).collect();
    let whose = match names.as_slice() {
        [] if core.pus.is_disjoint(&step.allowed) => "not of this step".to_owned(),
        [] => "not used".to_owned(),
        names => names.join(", "),
    };
    format!("core {number}: CPUs {}: {whose}", core.pus)
}
