//! The tables that people read: who runs where, and which variables he gets. Used by `verbose`, by dry runs and by
//! `gpu-tune plan`.
#![forbid(unsafe_code)]

use crate::env::{Change, Decision, Outcome, RankValues};
use crate::plan::{MemKind, Share, TaskPlan};
use crate::profile::Skipped;
use crate::spec::Word as _;
use crate::text::{shown, shown_up_to};
use crate::{CpuSet, Machine};

/// Longest list of CPUs that a cell shows. With every second CPU on a big machine lists have hundreds of characters.
const LIST_MAX: usize = 56;
/// Longest value that `verbose` shows.
const VALUE_MAX: usize = 48;
const HEADS: [&str; 7] = ["rank", "gpu", "pci", "model", "cpus", "memory", "policy"];
/// What stands in a cell for "not bound" or "unknown".
const NONE: &str = "-";

/// One line of heads and one for each rank, columns aligned, no trailing blanks.
///
/// A task that drives its GPUs itself is one row for each GPU, named by its local id. A launcher is a row `launcher`
/// (with its local id, if there are several) and a row for each of its ranks (`0`, or `1.0` for rank 0 of launcher 1).
pub fn table(machine: &Machine, tasks: &[TaskPlan]) -> Vec<String> {
    let alone = tasks.len() <= 1;
    let rows =
        std::iter::once(HEADS.map(str::to_owned)).chain(tasks.iter().flat_map(|task| rows(machine, task, alone)));
    columns(&rows.collect::<Vec<_>>())
}

type Row = [String; HEADS.len()];

fn rows(machine: &Machine, task: &TaskPlan, alone: bool) -> Vec<Row> {
    let id = task.local_id;
    if task.ranks.is_empty() {
        let gpus: Vec<Option<usize>> =
            if task.gpus.is_empty() { vec![None] } else { task.gpus.iter().copied().map(Some).collect() };
        return gpus.into_iter().map(|gpu| row(machine, id.to_string(), gpu, &task.share)).collect();
    }
    let launcher = if alone { "launcher".to_owned() } else { format!("launcher {id}") };
    let rank = |number: u32| if alone { number.to_string() } else { format!("{id}.{number}") };
    let ranks = task.ranks.iter().map(|plan| row(machine, rank(plan.local_rank), Some(plan.gpu), &plan.share));
    std::iter::once(row(machine, launcher, None, &task.share)).chain(ranks).collect()
}

fn row(machine: &Machine, name: String, gpu: Option<usize>, share: &Share) -> Row {
    let device = gpu.and_then(|at| machine.gpus.get(at));
    let (memory, policy) = match &share.memory {
        Some(memory) => (memory.nodes.to_string(), kind(memory.policy).to_owned()),
        None => (NONE.to_owned(), NONE.to_owned()),
    };
    [
        name,
        gpu.map_or_else(|| NONE.to_owned(), |at| at.to_string()),
        device.map_or_else(|| NONE.to_owned(), |gpu| gpu.pci.to_string()),
        device.and_then(|gpu| gpu.model.as_deref()).map_or_else(|| NONE.to_owned(), shown),
        share.cpus.as_ref().map_or_else(|| NONE.to_owned(), |cpus| shortened(cpus, LIST_MAX)),
        memory,
        policy,
    ]
}

fn kind(policy: MemKind) -> &'static str {
    match policy {
        MemKind::Preferred => "preferred",
        MemKind::Bind => "bind",
    }
}

/// A cpulist that is too long for its place is cut at a comma, and its number of CPUs is told.
pub fn shortened(cpus: &CpuSet, room: usize) -> String {
    let text = cpus.to_string();
    if text.len() <= room {
        return text;
    }
    let end = format!(",… ({} CPUs)", cpus.len());
    let kept = text.get(..room.saturating_sub(end.chars().count()) + 1).unwrap_or_default();
    let cut = kept.rfind(',').unwrap_or(0);
    text.get(..cut).unwrap_or_default().to_owned() + &end
}

/// The variables of one task, as `verbose` shows them: those of the profile, those that do not apply, and those by which
/// ranks find their peers.
pub fn variables(
    decisions: &[Decision],
    skipped: &[Skipped],
    rendezvous: &[(&str, String)],
    values: &RankValues,
) -> Vec<String> {
    let decided = decisions.iter().map(|decision| variable(decision, values, VALUE_MAX));
    let peers = rendezvous.iter().map(|(name, value)| [format!("{name}={value}"), "rendezvous".to_owned()]);
    columns(&decided.chain(skipped.iter().map(self::skipped)).chain(peers).collect::<Vec<_>>())
}

/// One variable of one task: what it gets, with no more than `room` characters of its value, and why.
pub fn variable(decision: &Decision, values: &RankValues, room: usize) -> [String; 2] {
    let name = &decision.name;
    let change = decision.for_rank(values, None);
    let what = match &change {
        Change::Set(value) | Change::Restore(value) => {
            format!("{name}={}", shown_up_to(&value.to_string_lossy(), room))
        }
        Change::Unset => format!("{name} removed"),
        Change::Nothing => format!("{name} untouched"),
        Change::LeftOut(reason) => return [format!("{name} not set"), reason.clone()],
    };
    let kept = matches!(decision.outcome, Outcome::Keep(_) | Outcome::Leave);
    let origin = format!("{} {}", decision.action.word(), decision.origin);
    let why = match (change, decision.reason.as_str()) {
        (Change::Nothing, _) if !kept => format!("{origin}; not in a task that is not bound"),
        (_, reason) if kept => reason.to_owned(),
        (_, "") => origin,
        (_, reason) => format!("{origin}; {reason}"),
    };
    [what, why]
}

/// A value of a profile that does not apply, and why.
pub fn skipped(rule: &Skipped) -> [String; 2] {
    [format!("{} not set", rule.name), format!("{} ({})", rule.reason, rule.origin)]
}

/// Rows as left-aligned columns. Nothing stands behind the last one.
pub fn columns<const N: usize>(rows: &[[String; N]]) -> Vec<String> {
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..N).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &[String; N]| {
        // By hand: a format's width ends at 65,535.
        let padded =
            |(cell, width): (&String, &usize)| cell.clone() + &" ".repeat(width.saturating_sub(cell.chars().count()));
        let cells: Vec<String> = row.iter().zip(&widths).map(padded).collect();
        cells.join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Gpu;
    use crate::machine::testing::gpu;
    use crate::plan::{Memory, RankPlan};

    #[test]
    fn a_name_of_a_foreign_file_fills_one_cell_and_no_more() {
        for model in ["x".repeat(70_000), "A\nrank  forged\u{1b}[2J\u{202e}".to_owned()] {
            let odd = Machine { gpus: vec![Gpu { model: Some(model), ..gpu("0000:06:00.0") }], ..Machine::default() };
            let task = TaskPlan { local_id: 0, gpus: vec![0], share: Share::default(), ranks: Vec::new() };
            let lines = table(&odd, &[task]);
            assert_eq!(lines.len(), 2);
            assert!(
                lines.iter().all(|line| line.len() < 200 && !line.contains(['\n', '\u{1b}', '\u{202e}'])),
                "{lines:?}"
            );
        }
        assert_eq!(columns(&[["x".repeat(70_000), String::new()], [String::new(), "y".to_owned()]])[1].len(), 70_003);
    }

    fn machine() -> Machine {
        let of_model = |bus: u8, model: Option<&str>| Gpu {
            model: model.map(str::to_owned),
            ..gpu(&format!("0000:{bus:02x}:00.0"))
        };
        Machine { gpus: vec![of_model(6, Some("NVIDIA H200")), of_model(0x4e, None)], ..Machine::default() }
    }

    fn share(cpus: &str) -> Share {
        let nodes = "1".parse().unwrap();
        Share {
            cpus: Some(cpus.parse().unwrap()),
            memory: Some(Memory { policy: MemKind::Preferred, nodes, first: 1 }),
        }
    }

    #[test]
    fn one_row_for_each_rank() {
        let task = |local_id, gpus: Vec<usize>, share| TaskPlan { local_id, gpus, share, ranks: Vec::new() };
        let tasks = [
            task(0, vec![0], share("16-31,144-159")),
            task(1, vec![1], Share::default()),
            task(2, vec![], Share::default()),
        ];
        assert_eq!(
            table(&machine(), &tasks),
            [
                "rank  gpu  pci           model        cpus           memory  policy",
                "0     0    0000:06:00.0  NVIDIA H200  16-31,144-159  1       preferred",
                "1     1    0000:4e:00.0  -            -              -       -",
                "2     -    -             -            -              -       -",
            ]
        );
    }

    #[test]
    fn a_launcher_is_shown_with_its_ranks() {
        let rank = |local_rank, gpu, cpus| RankPlan { local_rank, gpu, share: share(cpus) };
        let own = Share { cpus: Some("0-3".parse().unwrap()), memory: None };
        let launcher = |local_id| TaskPlan {
            local_id,
            gpus: vec![0, 1],
            share: own.clone(),
            ranks: vec![rank(0, 0, "0-1"), rank(1, 1, "2-3")],
        };
        let names = |tasks: &[TaskPlan]| -> Vec<String> {
            table(&machine(), tasks).iter().map(|line| line.split("  ").next().unwrap().trim().to_owned()).collect()
        };
        assert_eq!(names(&[launcher(0)]), ["rank", "launcher", "0", "1"]);
        assert_eq!(names(&[launcher(0), launcher(1)])[1..], ["launcher 0", "0.0", "0.1", "launcher 1", "1.0", "1.1"]);
    }

    #[test]
    fn long_lists_are_cut_and_counted() {
        let every_second: CpuSet = (0..96).map(|cpu| cpu * 2).collect();
        assert_eq!(shortened(&every_second, LIST_MAX), "0,2,4,6,8,10,12,14,16,18,20,22,24,26,28,30,… (96 CPUs)");
    }
}
