//! The plan as a table for people.

use super::{Planned, environment};
use crate::json::Place;
use crate::style::Style;
use crate::words;
use gpu_tune_engine::plan::Share;

/// The table with its heading.
pub(super) fn of(planned: &Planned, style: Style) -> String {
    let mut rows = vec![["task", "rank", "GPU", "CPUs", "memory"].map(str::to_owned)];
    for task in &planned.tasks {
        let id = task.local_id.to_string();
        rows.push(row(planned, [&id, "-"], &task.gpus, &task.share));
        rows.extend(
            task.ranks.iter().map(|rank| row(planned, [&id, &rank.local_rank.to_string()], &[rank.gpu], &rank.share)),
        );
    }
    let mut text = format!("{}\n{}", style.bold(planned.heading()), words::columns(&rows));
    let environment = environment::lines(planned);
    if !environment.is_empty() {
        text += &format!("\n{}\n{}", style.bold("environment"), words::columns(&environment));
    }
    text
}

fn row(planned: &Planned, [task, rank]: [&str; 2], gpus: &[usize], share: &Share) -> [String; 5] {
    let gpu = match gpus {
        [one] => match planned.machine.gpus.get(*one) {
            Some(gpu) => format!("{one} {} {}", gpu.pci, words::model(gpu)),
            None => one.to_string(),
        },
        several => several.iter().map(usize::to_string).collect::<Vec<_>>().join(","),
    };
    let place = Place::of(share, &planned.allowed);
    let cpus = if share.cpus.is_some() { words::list(&place.cpus) } else { "as given".to_owned() };
    [task.to_owned(), rank.to_owned(), gpu, cpus, words::policy(&place)]
}
