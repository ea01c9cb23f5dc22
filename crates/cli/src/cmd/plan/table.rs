//! The plan as a table for people.

use super::{Planned, environment};
use crate::style::Style;
use crate::words;
use gpu_tune_engine::report;

/// The table with its heading, as `verbose` prints it in a job, and the environment.
pub(super) fn of(planned: &Planned, style: Style) -> String {
    let table = report::table(&planned.machine, &planned.tasks).join("\n");
    let mut text = format!("{}\n{table}\n", style.bold(planned.heading()));
    let environment = environment::lines(planned);
    if !environment.is_empty() {
        text += &format!("\n{}\n{}", style.bold("environment"), words::columns(&environment));
    }
    text
}
