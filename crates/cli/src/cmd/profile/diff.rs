//! In which values two profiles differ.

use super::Profiles;
use crate::json::{Difference, ProfileDifferences, SCHEMA, Written};
use crate::style::Style;
use crate::{CliError, output, wish};
use gpu_tune_engine::profile::{Catalog, Flat, Origin};
use std::collections::BTreeSet;
use std::process::ExitCode;

/// Options of `gpu-tune profile diff`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A profile or layer
    one: String,
    /// Another
    other: String,
    #[command(flatten)]
    profiles: Profiles,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, CliError> {
    let catalog = args.profiles.catalog(false);
    let differences = differences(&flat(&catalog, &args.one)?, &flat(&catalog, &args.other)?);
    let differ = !differences.is_empty();
    if args.json {
        let (one, other) = (args.one.clone(), args.other.clone());
        output::print_json(&ProfileDifferences { schema: SCHEMA, one, other, differences })?;
    } else if differ {
        output::print(&text(args, &differences, Style::stdout()))?;
    }
    Ok(ExitCode::from(u8::from(differ)))
}

fn flat(catalog: &Catalog, name: &str) -> Result<Flat, CliError> {
    catalog.flat(name).map_err(wish::refused)
}

fn differences(one: &Flat, other: &Flat) -> Vec<Difference> {
    let keys: BTreeSet<&String> = one.0.keys().chain(other.0.keys()).collect();
    let difference = |key: &String| {
        let (one, other) = (written(one, key), written(other, key));
        let same = one.iter().map(|written| &written.value).eq(other.iter().map(|written| &written.value));
        (!same).then(|| Difference { key: key.clone(), one, other })
    };
    keys.into_iter().filter_map(difference).collect()
}

fn written(flat: &Flat, key: &str) -> Vec<Written> {
    let written = |(value, origin): &(String, Origin)| Written {
        value: value.clone(),
        file: origin.file.to_string(),
        line: origin.line,
        builtin: origin.builtin,
    };
    flat.0.get(key).into_iter().flatten().map(written).collect()
}

fn text(args: &Args, differences: &[Difference], style: Style) -> String {
    let mut page =
        format!("{}\n{}\n", style.bad(format!("--- {}", args.one)), style.good(format!("+++ {}", args.other)));
    for difference in differences {
        let line = |sign: char, written: &Written| {
            let built_in = if written.builtin { " (built in)" } else { "" };
            let Written { value, file, line, .. } = written;
            format!("{sign} {} = {value}  {}\n", difference.key, style.dim(format!("{file}:{line}{built_in}")))
        };
        page.extend(difference.one.iter().map(|written| line('-', written)));
        page.extend(difference.other.iter().map(|written| line('+', written)));
    }
    page
}
