//! What an option comes to on a machine.

use super::Profiles;
use crate::json::{ProfileDocument, ProfileVariable, SCHEMA, Setting, Warning};
use crate::source::Source;
use crate::style::Style;
use crate::{CliError, output, wish, words};
use gpu_tune_engine::env::{Decision, Outcome};
use gpu_tune_engine::profile::{Origin, Resolved, Skipped};
use gpu_tune_engine::spec::{SiteConfig, Word};
use gpu_tune_engine::tune::Tuned;
use std::process::ExitCode;

/// Options of `gpu-tune profile show`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Profile, layers and keys as for `srun --gpu-tune=`
    profile: String,
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    profiles: Profiles,
    /// The layer that `fabric=` in plugstack.conf adds to every profile
    #[arg(long, value_name = "LAYER")]
    fabric: Option<String>,
    /// Nodes of the step, for values that depend on it
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    nodes: u32,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, CliError> {
    let replayed = args.source.topology.is_some();
    let spec = wish::profile(&args.profile)?;
    let catalog = args.profiles.catalog(replayed);
    let site = SiteConfig { fabric: args.fabric.clone(), ..SiteConfig::default() };
    wish::check(&catalog, &spec, &site)?;
    let (machine, notices) = args.source.read()?;
    let gpus: Vec<usize> = (0..machine.gpus.len()).collect();
    let tasks = u32::try_from(gpus.len().max(1)).unwrap_or(1);
    let facts = wish::facts(replayed, &machine, &gpus, args.nodes, tasks);
    let tuned = wish::tune(replayed, (&catalog, &spec, &site), facts, &machine)?;
    let notices = [notices, tuned.resolved.notices.clone()].concat();
    if args.json {
        output::print_json(&document(&tuned, Warning::all(&notices)))?;
        return Ok(ExitCode::SUCCESS);
    }
    notices.iter().for_each(output::warn);
    output::print(&text(&tuned, Style::stdout()))?;
    Ok(ExitCode::SUCCESS)
}

/// The page for people: what is set, what is not, and how ranks are bound.
fn text(tuned: &Tuned, style: Style) -> String {
    let resolved = &tuned.resolved;
    let (set, left): (Vec<&Decision>, Vec<&Decision>) = tuned.decisions.iter().partition(|decision| decision.acts());
    let layers = resolved.layers.iter().map(|layer| &**layer).collect::<Vec<_>>().join(" + ");
    let mut page = format!("{}: {layers}\n", style.bold(&resolved.name));
    let mut part = |title: &str, rows: Vec<[String; 2]>| {
        if !rows.is_empty() {
            page.push_str(&format!("\n{}\n{}", style.bold(title), words::columns(&rows)));
        }
    };
    part(
        "variables",
        set.iter().map(|decision| [format!("  {}", change(decision)), origin(&decision.origin, decision)]).collect(),
    );
    let kept = left.iter().map(|decision| [format!("  {}", decision.name), decision.reason.clone()]);
    let skipped = resolved.skipped.iter().map(|skipped| [format!("  {}", skipped.name), told(skipped)]);
    part("left alone", kept.chain(skipped).collect());
    part("binding, limits, launch", settings(resolved).into_iter().map(row).collect());
    page
}

fn row(setting: Setting) -> [String; 2] {
    let place = match (setting.file, setting.line) {
        (Some(file), Some(line)) => format!("{file}:{line}{}", if setting.builtin { " (built in)" } else { "" }),
        _ => "by default, or by the option".to_owned(),
    };
    [format!("  {} = \"{}\"", setting.key, setting.value), place]
}

fn change(decision: &Decision) -> String {
    match &decision.outcome {
        Outcome::Unset => format!("{} removed", decision.name),
        _ => format!(
            "{} = \"{}\"{}",
            decision.name,
            decision.value_text(),
            decision.at_most().map(|most| format!(", at most {most}")).unwrap_or_default()
        ),
    }
}

fn origin(origin: &Origin, decision: &Decision) -> String {
    match (decision.action.word(), decision.reason.as_str()) {
        ("default" | "unset", "") => origin.to_string(),
        (action, "") => format!("{origin}, {action}"),
        (action, reason) => format!("{origin}, {action}: {reason}"),
    }
}

fn told(skipped: &Skipped) -> String {
    format!("{}  {}", skipped.reason, skipped.origin)
}

/// Everything outside `[env]`.
fn settings(resolved: &Resolved) -> Vec<Setting> {
    let binding = &resolved.binding;
    let gpu_numa = resolved.gpu_numa.iter().map(|(gpu, node)| format!("{gpu}={node}")).collect::<Vec<_>>().join(" ");
    let values = [
        ("bind.cpu", Some(binding.cpu.word().to_owned())),
        ("bind.mem", Some(binding.mem.word().to_owned())),
        ("bind.smt", Some(binding.smt.word().to_owned())),
        ("bind.reserve", Some(binding.reserve.to_string()).filter(|text| !text.is_empty())),
        ("bind.prefer", binding.prefer_priority.then(|| "priority".to_owned())),
        ("limits.memlock", resolved.memlock.map(|limit| limit.to_string())),
        ("launch.workers", Some(resolved.workers.to_string())),
        ("launch.rendezvous", Some(resolved.rendezvous.word().to_owned())),
        ("machine.gpu_numa", Some(gpu_numa).filter(|text| !text.is_empty())),
        ("fabric.address_range", resolved.address_range.map(|range| range.to_string())),
    ];
    let setting = |(key, value): (&str, Option<String>)| {
        let place = resolved.places.get(key);
        Some(Setting {
            key: key.to_owned(),
            value: value?,
            file: place.map(|origin| origin.file.to_string()),
            line: place.map(|origin| origin.line),
            builtin: place.is_some_and(|origin| origin.builtin),
        })
    };
    values.into_iter().filter_map(setting).collect()
}

fn document(tuned: &Tuned, warnings: Vec<Warning>) -> ProfileDocument {
    let resolved = &tuned.resolved;
    let set = tuned.decisions.iter().filter(|decision| decision.acts());
    ProfileDocument {
        schema: SCHEMA,
        profile: resolved.name.clone(),
        layers: resolved.layers.iter().map(ToString::to_string).collect(),
        env: set.map(ProfileVariable::decided).collect(),
        left_alone: ProfileVariable::left_alone(&tuned.decisions, &resolved.skipped),
        settings: settings(resolved),
        warnings,
    }
}
