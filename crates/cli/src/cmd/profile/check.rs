//! What is wrong in profile files.

use crate::json::{FindingObject, ProfileFindings, SCHEMA};
use crate::source::absolute;
use crate::style::Style;
use crate::{CliError, output, words};
use gpu_tune_engine::profile::{self, Catalog, Finding, Kind, Source, bounds};
use gpu_tune_engine::spec::{RESERVED, SiteConfig, is_name};
use gpu_tune_engine::{regular, trusted};
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of `gpu-tune profile check`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A profile's file, or a directory of such files [default: /etc/gpu-tune/profiles.d]
    path: Option<PathBuf>,
    /// Do not look at who owns the files and who can write them
    #[arg(long)]
    ignore_owner: bool,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, CliError> {
    let path = args.path.clone().unwrap_or_else(|| SiteConfig::default().profile_dir);
    let path = absolute(&path);
    let checked = if args.path.is_none() && !path.exists() {
        output::note(&format!("`{}` is not there: only built-in profiles are used", path.display()));
        Checked { catalog: Catalog::builtin(), files: Vec::new(), findings: Vec::new() }
    } else {
        Checked::read(&path, args)?
    };
    let errors = checked.findings.iter().filter(|finding| finding.kind != Kind::Warning).count();
    let warnings = checked.findings.len() - errors;
    if args.json {
        let findings = checked.findings.iter().map(object).collect();
        let files = checked.files.len();
        output::print_json(&ProfileFindings { schema: SCHEMA, files, errors, warnings, findings })?;
    } else {
        let style = Style::stdout();
        let findings: String = checked.findings.iter().map(|finding| checked.text(finding, style)).collect();
        let count = |number: usize, word: &str| words::count(number, word);
        let sum = format!(
            "{}: {}, {}\n",
            count(checked.files.len(), "file"),
            count(errors, "error"),
            count(warnings, "warning")
        );
        output::print(&(findings + &sum))?;
    }
    Ok(ExitCode::from(u8::from(errors > 0)))
}

/// The files that were looked at, and what is wrong in them.
struct Checked {
    catalog: Catalog,
    files: Vec<PathBuf>,
    findings: Vec<Finding>,
}

impl Checked {
    /// Reads a file, with the files beside it that it may inherit, or all files of a directory.
    fn read(path: &Path, args: &Args) -> Result<Self, CliError> {
        let meta = fs::metadata(path).map_err(|error| cannot_read(path, error))?;
        if !meta.is_dir() && path.extension().is_none_or(|end| end != "toml") {
            let help = "a profile is a file `NAME.toml`; what a profile imports is checked with it".to_owned();
            return Err(CliError::usage(format!("`{}` is no profile", path.display())).with_help(help));
        }
        let dir = if meta.is_dir() { path } else { path.parent().unwrap_or(path) };
        let beside = list(dir)?;
        let files = if meta.is_dir() { beside.clone() } else { vec![path.to_owned()] };
        if files.is_empty() {
            return Err(CliError::nothing(format!("`{}` holds no profile", path.display())));
        }
        let mut checked = Self { catalog: Catalog::builtin(), files, findings: Vec::new() };
        for file in &beside {
            if let (Some(name), Ok(text)) = (name(file), text(file)) {
                checked.catalog.add_text(name, Source::file(file), text);
            }
        }
        for file in checked.files.clone() {
            let findings = checked.of_file(&file, args.ignore_owner);
            checked.findings.extend(findings);
        }
        if meta.is_dir() && !args.ignore_owner {
            let trust = trusted::list_dir(path, ".toml", bounds::FILES).err();
            checked.findings.splice(0..0, trust.map(|error| whole(path, &error, error.help())));
        }
        Ok(checked)
    }

    fn of_file(&self, file: &Path, ignore_owner: bool) -> Vec<Finding> {
        let mut findings = Vec::new();
        if !ignore_owner {
            findings.extend(trusted::check(file).err().map(|error| whole(file, &error, error.help())));
        }
        match (name(file), text(file)) {
            (None, _) => {
                let help = format!(
                    "names have up to 64 of a-z, 0-9, `_`, `.` and `-`, and are none of {}",
                    RESERVED.join(", ")
                );
                findings.push(whole(file, "no profile can have this name", Some(help)));
            }
            (_, Err(error)) => findings.push(whole(file, &error, None)),
            (Some(name), Ok(_)) => findings.extend(profile::check(&self.catalog, name)),
        }
        findings
    }

    /// One finding with the line it is about.
    fn text(&self, finding: &Finding, style: Style) -> String {
        let kind = match finding.kind {
            Kind::Error | Kind::Unknown => style.bad("error"),
            Kind::Warning => style.warn("warning"),
        };
        let mut page = format!("{kind}: {}\n", finding.message);
        let number = finding.line.to_string();
        let margin = " ".repeat(number.len());
        match (self.line(finding), finding.line) {
            (None, 0) => page.push_str(&format!("  --> {}\n", finding.file)),
            (None, _) => page.push_str(&format!("{margin}--> {}:{number}:{}\n", finding.file, finding.column)),
            (Some(line), _) => {
                let (blank, mark) = (" ".repeat(finding.column - 1), "^".repeat(finding.width));
                page.push_str(&format!("{margin}--> {}:{number}:{}\n{margin} |\n", finding.file, finding.column));
                page.push_str(&format!("{number} | {line}\n{margin} | {blank}{mark}\n"));
            }
        }
        if let Some(help) = &finding.help {
            page.push_str(&format!("help: {help}\n"));
        }
        page + "\n"
    }

    /// The line that a finding is about; none if it is about the whole file, or about one that a profile imports.
    fn line(&self, finding: &Finding) -> Option<&str> {
        let entry = self.catalog.get(name(Path::new(&*finding.file))?)?;
        let text = entry.text().filter(|_| entry.source().file == finding.file)?;
        text.lines().nth(finding.line.checked_sub(1)?)
    }
}

/// The profiles of a directory, by name.
fn list(dir: &Path) -> Result<Vec<PathBuf>, CliError> {
    let entries = fs::read_dir(dir).map_err(|error| cannot_read(dir, error))?;
    let files = entries.flatten().map(|entry| entry.path());
    let hidden = |path: &Path| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
    let mut files: Vec<PathBuf> = files
        .filter(|path| path.extension().is_some_and(|end| end == "toml") && !hidden(path))
        .take(bounds::FILES)
        .collect();
    files.sort();
    Ok(files)
}

/// A profile's name, from its file's.
fn name(file: &Path) -> Option<&str> {
    let name = file.file_stem()?.to_str()?;
    (is_name(name) && !RESERVED.contains(&name)).then_some(name)
}

fn text(file: &Path) -> io::Result<String> {
    let mut text = String::new();
    let read = regular::open(file)?.take(bounds::FILE + 1).read_to_string(&mut text)?;
    if read as u64 > bounds::FILE {
        return Err(io::Error::other(format!("more than {} bytes", bounds::FILE)));
    }
    Ok(text)
}

fn whole(file: &Path, message: impl ToString, help: Option<String>) -> Finding {
    let file = file.display().to_string().into();
    Finding { kind: Kind::Error, file, line: 0, column: 1, width: 1, message: message.to_string(), help }
}

fn object(finding: &Finding) -> FindingObject {
    FindingObject {
        level: if finding.kind == Kind::Warning { "warning" } else { "error" },
        file: finding.file.to_string(),
        line: Some(finding.line).filter(|line| *line > 0),
        column: Some(finding.column).filter(|_| finding.line > 0),
        message: finding.message.clone(),
        help: finding.help.clone(),
    }
}

fn cannot_read(path: &Path, error: io::Error) -> CliError {
    CliError::refused(format!("cannot read `{}`", path.display()), error)
}
