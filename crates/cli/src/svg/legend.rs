//! The legend: who is who, and what the marks mean.

use super::canvas::{Canvas, Rect, fitted};
use super::{Owner, Picture, cores, real};
use crate::words;

const HIGH: f64 = 46.0;

/// Draws it and answers with the height used.
pub(super) fn draw(page: &mut Canvas, picture: &Picture<'_>, at: Rect) -> f64 {
    let owners = picture.step.as_ref().map(|step| step.owners.as_slice()).unwrap_or_default();
    let used = ranks(page, owners, at);
    let y = at.y + used + 16.0;
    let mut x = at.x;
    for mark in marks(picture) {
        mark.draw(page, x, y);
        x += 26.0 + super::canvas::width(mark.text, 11.0) + 18.0;
    }
    used + 28.0
}

fn ranks(page: &mut Canvas, owners: &[Owner], at: Rect) -> f64 {
    if owners.is_empty() {
        return 0.0;
    }
    let across = if owners.len() <= 4 { 2 } else { 4 };
    let w = at.w / real(across);
    for (number, owner) in owners.iter().enumerate() {
        let x = at.x + real(number % across) * w;
        let y = at.y + 6.0 + real(number / across) * HIGH;
        cores::owned(page, number, Rect::new(x, y, 24.0, 24.0));
        page.text(x + 32.0, y + 9.0, "chip", &fitted(&headline(owner), 11.0, w - 40.0));
        let lines = [format!("CPUs {}", words::list(&owner.cpus)), format!("memory {}", owner.memory)];
        for (row, line) in lines.iter().enumerate() {
            page.text(x + 32.0, y + 22.0 + real(row) * 13.0, "small", &fitted(line, 10.0, w - 40.0));
        }
    }
    real(owners.len().div_ceil(across)) * HIGH + 6.0
}

fn headline(owner: &Owner) -> String {
    let gpus: Vec<String> = owner.gpus.iter().map(usize::to_string).collect();
    let remote = if owner.remote { " (remote)" } else { "" };
    match gpus.as_slice() {
        [] => owner.name.clone(),
        gpus => format!("{} → GPU {}{remote}", owner.name, gpus.join(",")),
    }
}

/// A mark and its meaning.
struct Mark {
    class: &'static str,
    text: &'static str,
    width: f64,
}

impl Mark {
    fn draw(&self, page: &mut Canvas, x: f64, y: f64) {
        page.rect(Rect::new(x + 18.0 - self.width, y - 9.0, self.width, 14.0), self.class, "");
        page.text(x + 25.0, y + 2.0, "note", self.text);
    }
}

fn marks(picture: &Picture<'_>) -> Vec<Mark> {
    let square = |class, text| Mark { class, text, width: 14.0 };
    let chip = |class, text| Mark { class, text, width: 18.0 };
    let mut marks = match &picture.step {
        None => vec![square("core plain", "a core")],
        Some(_) => vec![
            square("core free", "core not used"),
            square("core outside", "core not of this step"),
            chip("remote", "GPU with no core of its rank near"),
        ],
    };
    if !picture.machine.nics.is_empty() {
        marks.push(chip("nic", "NIC with an active port"));
        marks.push(chip("down", "NIC without an active port"));
    }
    if picture.machine.numa.iter().any(|node| node.cpus.is_empty()) {
        marks.push(chip("mem", "NUMA node that is only memory"));
    }
    marks
}
