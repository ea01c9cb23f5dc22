//! The section of docs/performance.md that is made from the numbers, and the raw numbers as JSON.

use crate::own::{Hooks, sum};
use crate::scale::Scale;
use crate::slurm::elf;
use crate::stats::{median, most};
use crate::steps::{Steps, TASKS};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;

const BEGIN: &str = "<!-- begin: written by `make bench` -->";
const END: &str = "<!-- end: written by `make bench` -->";

/// Everything that was measured.
#[derive(Debug)]
pub(crate) struct Results {
    pub(crate) here: String,
    pub(crate) steps: Steps,
    pub(crate) scale: Scale,
    pub(crate) functions: Vec<(String, f64)>,
    pub(crate) files: Vec<(&'static str, elf::File)>,
}

/// Puts the section in its place.
pub(crate) fn write(page: &Path, section: &str) {
    let text = std::fs::read_to_string(page).unwrap_or_default();
    let (before, rest) = text.split_once(BEGIN).unwrap_or((&text, END));
    let after = rest.split_once(END).map_or("", |(_, after)| after);
    std::fs::write(page, format!("{before}{BEGIN}\n\n{section}\n{END}{after}")).unwrap();
}

impl Results {
    /// The raw numbers.
    pub(crate) fn keep(&self, dir: &Path) {
        std::fs::create_dir_all(dir).unwrap();
        let series = self.steps.series.iter().map(|series| json!({ "name": series.name, "ms": series.times }));
        let hooks = self.steps.hooks.iter().map(|(name, hooks)| json!({ "name": name, "us": hooks }));
        let whole =
            self.steps.whole.iter().flatten().map(|size| json!({ "tasks": size.tasks, "hyperfine": size.report }));
        let steps = json!({ "here": self.here, "tasks": TASKS, "series": series.collect::<Value>(), "hooks": hooks.collect::<Value>(),
                            "whole": whole.collect::<Value>() });
        let sizes = self
            .scale
            .sizes
            .iter()
            .map(|size| json!({ "nodes": size.nodes, "tasks": size.tasks, "ms": size.times, "us": size.hooks }));
        let machines = self.scale.machines.iter().map(|(cpus, hooks)| json!({ "cpus": cpus, "us": hooks }));
        let scale =
            json!({ "here": self.here, "sizes": sizes.collect::<Value>(), "machines": machines.collect::<Value>() });
        for (name, json) in [("steps.json", steps), ("scale.json", scale)] {
            std::fs::write(dir.join(name), format!("{json:#}\n")).unwrap();
        }
    }

    /// The section.
    pub(crate) fn markdown(&self) -> String {
        let parts = [
            self.steps_table(),
            self.whole_table(),
            self.hooks_table(),
            self.scale_table(),
            self.functions_table(),
            self.files_table(),
        ];
        format!("{}\n\n{}", self.here, parts.join("\n"))
    }

    fn steps_table(&self) -> String {
        let mut text = "### A step, side by side\n\n![ratios and growth](performance.svg)\n\n\
             | `srun true` inside an allocation | -n1, ms | to no plugin | -n2, ms | to no plugin |\n|---|--:|--:|--:|--:|\n"
            .to_owned();
        for series in &self.steps.series {
            let _ = write!(text, "| {} |", series.name);
            for at in 0..TASKS.len() {
                let _ = write!(text, " {:.1} | {} |", series.median(at), self.steps.ratio(series, at));
            }
            text.push('\n');
        }
        text.push_str("\nMedians; ratios are medians of the rounds' ratios with their 95 % interval.\n");
        self.steps.skipped.iter().for_each(|what| {
            let _ = writeln!(text, "Skipped: {what}.");
        });
        text
    }

    fn whole_table(&self) -> String {
        let Some(sizes) = &self.steps.whole else {
            return "### A job of its own\n\nNot measured: hyperfine is not installed.\n".to_owned();
        };
        let mut text = "### A job of its own\n\n`srun true` outside of an allocation, by hyperfine, many turns without and with (`h200`, snapshot). \
             Medians; ratios are medians of the turns' ratios with their 95 % interval.\n\n\
             | tasks | no plugin, ms | gpu-tune, ms | ratio | no plugin, to the turn before |\n|--:|--:|--:|--:|--:|\n"
            .to_owned();
        for size in sizes {
            let [without, with] = size.turns.each_ref().map(|turns| median(turns));
            let (ratio, drift) = (size.ratio(), size.drift());
            let _ = writeln!(text, "| {} | {without:.1} | {with:.1} | {ratio} | {drift} |", size.tasks);
        }
        text
    }

    fn hooks_table(&self) -> String {
        let mut names: Vec<&String> = self.steps.hooks.iter().flat_map(|(_, hooks)| hooks.keys()).collect();
        names.sort();
        names.dedup();
        let heads: Vec<&str> = self.steps.hooks.iter().map(|(name, _)| *name).collect();
        let mut text = format!(
            "### The plugin's own share\n\nMicroseconds, median / most, in steps of two tasks (`GPU_TUNE_TRACE=1`); `submitting` is in srun. \
             `binding` (the kernel moves the task to its CPUs) and `variables` (Slurm's own work for each variable) are parts of `task_init`.\n\n\
             | hook | {} |\n|---{}|\n",
            heads.join(" | "),
            "|--:".repeat(heads.len())
        );
        let mut row = |name: &str, values: &dyn Fn(&Hooks) -> Vec<f64>| {
            let cells: Vec<String> = self.steps.hooks.iter().map(|(_, hooks)| micros(&values(hooks))).collect();
            let _ = writeln!(text, "| {name} | {} |", cells.join(" | "));
        };
        for name in names {
            row(&format!("`{name}`"), &|hooks| hooks.get(name).cloned().unwrap_or_default());
        }
        row("`init_post_opt` + `user_init` (budget with a snapshot: 1000)", &|hooks| {
            sum(hooks, ["init_post_opt", "user_init"])
        });
        row("`task_init` (budget: 200)", &|hooks| hooks.get("task_init").cloned().unwrap_or_default());
        text
    }

    fn scale_table(&self) -> String {
        let mut text = "### Growth\n\n`srun -N… --ntasks-per-node=… --gpus-per-node=8 true` on up to four slurmd of this one host, so the tasks \
             of all nodes share its CPUs; the nodes are described as two sockets with 256 CPUs and 8 GPUs. As the host has fewer, each \
             node warns once, in two to four lines, and the time to print them is in the numbers. Before the fork: \
             `init_post_opt` + `user_init`. Microseconds, median / most.\n\n\
             | nodes | tasks each | no plugin, ms | `h200`, ms | ratio | before the fork | `task_init` |\n|--:|--:|--:|--:|--:|--:|--:|\n"
            .to_owned();
        for size in &self.scale.sizes {
            let [without, with] = size.medians();
            let ratio = crate::stats::Ratio::of(&size.times[1], &size.times[0]).median;
            let _ = writeln!(
                text,
                "| {} | {} | {without:.0} | {with:.0} | {ratio:.3} | {} |",
                size.nodes,
                size.tasks,
                shares(&size.hooks)
            );
        }
        text.push_str("\nOne node with 8 tasks, by the CPUs of the machine that is described:\n\n| CPUs | before the fork | `task_init` |\n|--:|--:|--:|\n");
        for (cpus, hooks) in &self.scale.machines {
            let _ = writeln!(text, "| {cpus} | {} |", shares(hooks));
        }
        text
    }

    fn functions_table(&self) -> String {
        let mut text =
            "### Functions\n\nCriterion's medians (`cargo bench`, quick).\n\n| function | µs |\n|---|--:|\n".to_owned();
        for (name, nanoseconds) in &self.functions {
            let _ = writeln!(text, "| {name} | {:.1} |", nanoseconds / 1000.0);
        }
        text
    }

    fn files_table(&self) -> String {
        let mut text = "### Files\n\n| file | bytes | exported symbols | needs |\n|---|--:|--:|---|\n".to_owned();
        for (name, file) in &self.files {
            let _ =
                writeln!(text, "| `{}` | {} | {} | {} |", name, file.bytes, file.exports.len(), file.needs.join(", "));
        }
        let opened = match &self.steps.opened {
            None => "not looked at: strace does not run here".to_owned(),
            Some(files) => files.iter().map(|file| format!("`{file}`")).collect::<Vec<_>>().join(", "),
        };
        let _ =
            writeln!(text, "\nWhat `srun --gpu-tune=h200` opens that it does not open without the plugin: {opened}.");
        text
    }
}

fn micros(values: &[f64]) -> String {
    if values.is_empty() { "–".to_owned() } else { format!("{:.0} / {:.0}", median(values), most(values)) }
}

fn shares(hooks: &Hooks) -> String {
    let task = hooks.get("task_init").cloned().unwrap_or_default();
    format!("{} | {}", micros(&sum(hooks, ["init_post_opt", "user_init"])), micros(&task))
}
