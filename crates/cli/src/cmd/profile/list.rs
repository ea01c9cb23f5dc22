//! Which profiles there are.

use super::Profiles;
use crate::json::{ProfileEntry, ProfileList, SCHEMA};
use crate::{CliError, output, words};
use gpu_tune_engine::profile::Catalog;
use gpu_tune_engine::text::chain;
use std::process::ExitCode;

/// Options of `gpu-tune profile list`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    profiles: Profiles,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, CliError> {
    let entries = entries(&args.profiles.catalog(false));
    if args.json {
        output::print_json(&ProfileList { schema: SCHEMA, profiles: entries })?;
        return Ok(ExitCode::SUCCESS);
    }
    let (layers, profiles): (Vec<_>, Vec<_>) = entries.into_iter().partition(|entry| entry.layer);
    output::print(&format!("profiles\n{}\nlayers\n{}", table(&profiles), table(&layers)))?;
    Ok(ExitCode::SUCCESS)
}

fn entries(catalog: &Catalog) -> Vec<ProfileEntry> {
    let entry = |(name, entry): (&str, &gpu_tune_engine::profile::Entry)| {
        let profile = entry.profile(name);
        // Of what it inherits, too: a job that names it would be told the same.
        let error = catalog.lineage(name).err().map(|error| chain(&error));
        let profile = profile.ok();
        ProfileEntry {
            name: name.to_owned(),
            layer: profile.is_some_and(|profile| profile.layer),
            description: profile.map(|profile| profile.description.clone()),
            file: entry.source().file.to_string(),
            builtin: entry.source().builtin,
            gpu: profile.map(|profile| profile.gpu.iter().map(ToString::to_string).collect()).unwrap_or_default(),
            error,
        }
    };
    catalog.entries().map(entry).collect()
}

fn table(entries: &[ProfileEntry]) -> String {
    let rows: Vec<[String; 3]> = entries
        .iter()
        .map(|entry| {
            let about = entry.error.clone().or_else(|| entry.description.clone()).unwrap_or_default();
            let place = if entry.builtin { "built in".to_owned() } else { entry.file.clone() };
            [format!("  {}", entry.name), about, place]
        })
        .collect();
    words::columns(&rows)
}
