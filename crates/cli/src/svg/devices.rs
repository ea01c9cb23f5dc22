//! GPUs, NICs and memory-only nodes as chips below the box they hang at.
//!
//! A GPU and the NICs that share a PCI bridge with it are one group, joined by a line.

use super::canvas::{Canvas, Rect, fitted};
use super::{Picture, cores, real};
use crate::tree::{GpuHere, Hanging};
use crate::words;
use gpu_tune_engine::machine::Nic;

const GPU: f64 = 138.0;
const NIC: f64 = 118.0;
const JOIN: f64 = 8.0;
const GPU_HIGH: f64 = 46.0;
const NIC_HIGH: f64 = 30.0;
const SPACE: f64 = 6.0;

/// Draws what hangs here, a line from the box to it included, and answers with the height used.
pub(super) fn draw(block: &mut Canvas, picture: &Picture<'_>, hanging: &Hanging<'_>, at: Rect) -> f64 {
    let mut y = at.y;
    y += gpus(block, picture, &hanging.gpus, Rect { y, ..at });
    y += nics(block, &hanging.nics, Rect { y, ..at });
    y += memory(block, hanging, Rect { y, ..at });
    y - at.y + SPACE
}

fn gpus(block: &mut Canvas, picture: &Picture<'_>, gpus: &[GpuHere<'_>], at: Rect) -> f64 {
    let each = GPU + SPACE + if gpus.iter().all(|here| here.nics.is_empty()) { 0.0 } else { JOIN + NIC };
    let across = columns(at.w, each);
    let mut y = at.y;
    for row in gpus.chunks(across) {
        let high = row.iter().map(group_height).fold(0.0, f64::max);
        for (column, here) in row.iter().enumerate() {
            group(block, picture, here, at.x + real(column) * each, y);
        }
        y += high + SPACE;
    }
    y - at.y
}

fn group_height(here: &GpuHere<'_>) -> f64 {
    (real(here.nics.len()) * (NIC_HIGH + SPACE) - SPACE).max(GPU_HIGH)
}

fn group(block: &mut Canvas, picture: &Picture<'_>, here: &GpuHere<'_>, x: f64, y: f64) {
    for (row, (nic, _)) in here.nics.iter().enumerate() {
        let at = Rect::new(x + GPU + JOIN, y + real(row) * (NIC_HIGH + SPACE), NIC, NIC_HIGH);
        let middle = at.y + at.h / 2.0;
        block.line((x + GPU, middle.min(y + GPU_HIGH - 4.0)), (at.x, middle), "wire");
        nic_chip(block, nic, at);
    }
    gpu_chip(block, picture, here, Rect::new(x, y, GPU, GPU_HIGH));
}

fn gpu_chip(block: &mut Canvas, picture: &Picture<'_>, here: &GpuHere<'_>, at: Rect) {
    let owners = picture.step.iter().flat_map(|step| step.owners.iter().enumerate());
    let owners: Vec<_> = owners.filter(|(_, owner)| owner.gpus.contains(&here.index)).collect();
    let remote = owners.iter().any(|(_, owner)| owner.remote);
    block.group(&words::gpu(here.index, here.gpu), |block| {
        block.rect(at, if remote { "remote" } else { "gpu" }, "");
        block.text(at.x + 7.0, at.y + 15.0, "chip", &format!("GPU {}", here.index));
        let model = words::model(here.gpu);
        block.text(at.x + 7.0, at.y + 28.0, "small", &fitted(&model, 10.0, at.w - 12.0));
        block.text(at.x + 7.0, at.y + 40.0, "mono", &here.gpu.pci.to_string());
        for (place, (number, _)) in owners.iter().take(3).enumerate() {
            let x = at.x + at.w - 23.0 - real(place) * 20.0;
            cores::owned(block, *number, Rect::new(x, at.y + 4.0, 18.0, 18.0));
        }
        if remote {
            block.text(at.x + at.w - 46.0, at.y + 40.0, "warn", "remote");
        }
    });
}

fn nics(block: &mut Canvas, nics: &[&Nic], at: Rect) -> f64 {
    let across = columns(at.w, NIC + SPACE);
    for (place, nic) in nics.iter().enumerate() {
        let x = at.x + real(place % across) * (NIC + SPACE);
        let y = at.y + real(place / across) * (NIC_HIGH + SPACE);
        nic_chip(block, nic, Rect::new(x, y, NIC, NIC_HIGH));
    }
    real(nics.len().div_ceil(across)) * (NIC_HIGH + SPACE)
}

fn nic_chip(block: &mut Canvas, nic: &Nic, at: Rect) {
    block.group(&words::nic(nic), |block| {
        block.rect(at, if nic.active() { "nic" } else { "down" }, "");
        block.text(at.x + 6.0, at.y + 13.0, "chip", &fitted(&nic.name, 11.0, at.w - 10.0));
        block.text(at.x + 6.0, at.y + 25.0, "small", &fitted(&words::wire(nic), 10.0, at.w - 8.0));
    });
}

fn memory(block: &mut Canvas, hanging: &Hanging<'_>, at: Rect) -> f64 {
    let mut x = at.x;
    let mut y = at.y;
    for text in words::memory_nodes(&hanging.memory) {
        let w = (super::canvas::width(&text, 10.0) + 18.0).min(at.w);
        if x > at.x && x + w > at.x + at.w {
            (x, y) = (at.x, y + 26.0);
        }
        block.rect(Rect::new(x, y, w, 20.0), "mem", "");
        block.text(x + 9.0, y + 14.0, "small", &fitted(&text, 10.0, w - 12.0));
        x += w + SPACE;
    }
    if hanging.memory.is_empty() { 0.0 } else { y + 26.0 - at.y }
}

fn columns(room: f64, each: f64) -> usize {
    (1..=16).rev().find(|columns| real(*columns) * each <= room + SPACE).unwrap_or(1)
}
