//! The planner's rules on machines that people have (`machines` shows placement, `tasks` who gets what), and on
//! machines that nobody has: `properties` holds for all that `generate` makes, where `super::testing` says the same a
//! second time, simply.

mod generate;
mod machines;
mod nics;
mod properties;
mod tasks;
mod visible;

use super::{Layout, Request, Share};
use crate::machine::Machine;
use crate::{Code, CpuSet};

/// A step that owns the whole machine, with a task for each GPU.
pub(super) fn whole(machine: &Machine) -> Request {
    Request {
        tasks: u32::try_from(machine.gpus.len()).unwrap(),
        gpus: (0..machine.gpus.len()).collect(),
        cpus: machine.cpus.clone(),
        ..Request::default()
    }
}

pub(super) fn cpus(list: &str) -> CpuSet {
    list.parse().unwrap()
}

/// `CPUS @ NODES`, with `-` for what is left alone and `!` for an insisting memory policy.
pub(super) fn shown(share: &Share) -> String {
    let cpus = share.cpus.as_ref().map_or("-".to_owned(), ToString::to_string);
    let mems = share.memory.as_ref().map_or("-".to_owned(), |memory| {
        let mark = if memory.policy == super::MemKind::Bind { "!" } else { "" };
        let first = if memory.nodes.len() > 1 { format!(" first {}", memory.first) } else { String::new() };
        format!("{}{mark}{first}", memory.nodes)
    });
    format!("{cpus} @ {mems}")
}

pub(super) fn slices(layout: &Layout) -> Vec<String> {
    layout.slices.iter().map(|slice| shown(&slice.whole)).collect()
}

pub(super) fn codes(layout: &Layout) -> Vec<Code> {
    layout.notices.iter().map(|notice| notice.code).collect()
}

/// Plans, and compares slices and warnings.
pub(super) fn check(machine: &Machine, request: &Request, expect: &[&str], warned: &[Code]) -> Layout {
    let layout = Layout::new(machine, request);
    assert_eq!(slices(&layout), expect, "{:?}", layout.notices);
    assert_eq!(codes(&layout), warned, "{:?}", layout.notices);
    layout
}
