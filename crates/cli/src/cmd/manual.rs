//! `gpu-tune manual PREFIX` writes the man pages and the shell completions of this very program, below a prefix as the
//! file system standard lays it out.
//!
//! It is hidden from `--help`: `make install` and the packages run it, so that the pages can never say something else
//! than the program does.

use crate::CliError;
use clap::Command;
use clap_complete::{Shell, generate};
use clap_mangen::Man;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Where each shell looks, relative to the prefix, and for which file.
const SHELLS: [(Shell, &str, &str); 3] = [
    (Shell::Bash, "share/bash-completion/completions", NAME),
    (Shell::Zsh, "share/zsh/site-functions", "_gpu-tune"),
    (Shell::Fish, "share/fish/vendor_completions.d", "gpu-tune.fish"),
];

const NAME: &str = "gpu-tune";

/// Options of `gpu-tune manual`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The prefix to write below, such as /usr/local.
    prefix: PathBuf,
}

/// Writes all pages and completions.
pub fn run(args: &Args) -> Result<ExitCode, CliError> {
    write(&args.prefix, "share/man/man1", |folder| {
        let mut command = crate::command().disable_help_subcommand(true);
        command.build();
        pages(&command, folder)
    })?;
    for (shell, place, file) in SHELLS {
        write(&args.prefix, place, |folder| fs::write(folder.join(file), completion(shell)))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn write(prefix: &Path, place: &str, fill: impl FnOnce(&Path) -> io::Result<()>) -> Result<(), CliError> {
    let folder = prefix.join(place);
    let filled = fs::create_dir_all(&folder).and_then(|()| fill(&folder));
    filled.map_err(|source| CliError::write(&folder, source))
}

/// The page of a command and those of its verbs.
fn pages(command: &Command, folder: &Path) -> io::Result<()> {
    let page = Man::new(command.clone());
    let mut bytes = Vec::new();
    page.render(&mut bytes)?;
    fs::write(folder.join(page.get_filename()), with_lists(&String::from_utf8_lossy(&bytes)))?;
    command.get_subcommands().filter(|verb| !verb.is_hide_set()).try_for_each(|verb| pages(verb, folder))
}

/// A page in which `- ` at the start of a line begins an item: the generator knows paragraphs only and lets lists run
/// together. A space at the start of a line would break it there.
fn with_lists(page: &str) -> String {
    let mut text = String::new();
    let mut listed = false;
    for line in page.lines() {
        let item = line.strip_prefix(r"\- ");
        listed = item.is_some() || (listed && !line.starts_with('.'));
        if item.is_some() {
            text += ".IP \\(bu 2\n";
        }
        text += item.unwrap_or(if listed { line.trim_start() } else { line });
        text.push('\n');
    }
    text
}

/// A shell's completion. That for bash is made for a name without a dash: the generator spells a dash in one way where it
/// looks a verb up and in another where it labels what the verb has (`fn_name` and `subcommand_details` of clap_complete's
/// bash.rs), so that behind a verb nothing would be offered. The name stands in names of functions, and at the end of the
/// lines that say which command is completed.
fn completion(shell: Shell) -> String {
    const WITHOUT_DASH: &str = "gpu_tune";
    let name = if shell == Shell::Bash { WITHOUT_DASH } else { NAME };
    let mut bytes = Vec::new();
    generate(shell, &mut public(&crate::command()), name, &mut bytes);
    let text = String::from_utf8_lossy(&bytes);
    if shell == Shell::Bash {
        return text.replace(&format!(" {WITHOUT_DASH}\n"), &format!(" {NAME}\n"));
    }
    text.into_owned()
}

/// A copy without the hidden verbs and options, which the generators would offer.
fn public(command: &Command) -> Command {
    // Without clap's feature `string` names are for ever, and this process ends soon.
    let lasting = |text: &str| -> &'static str { text.to_owned().leak() };
    let mut copy = Command::new(lasting(command.get_name()))
        .args(command.get_arguments().filter(|arg| !arg.is_hide_set()))
        .subcommands(command.get_subcommands().filter(|verb| !verb.is_hide_set()).map(public));
    if let Some(about) = command.get_about() {
        copy = copy.about(about.clone());
    }
    // Never shown, but its presence is: "see more with --help".
    if let Some(about) = command.get_long_about() {
        copy = copy.long_about(about.clone());
    }
    if let Some(version) = command.get_version() {
        copy = copy.version(lasting(version));
    }
    copy
}
