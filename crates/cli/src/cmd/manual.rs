//! `gpu-tune manual PREFIX` writes the man pages and the shell completions of this very program, below a prefix as the
//! file system standard lays it out.
//!
//! It is hidden from `--help`: `make install` and the packages run it, so that the pages can never say something else
//! than the program does.

use crate::CliError;
use clap_complete::{Shell, generate_to};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Where each shell looks, relative to the prefix.
const SHELLS: [(Shell, &str); 3] = [
    (Shell::Bash, "share/bash-completion/completions"),
    (Shell::Zsh, "share/zsh/site-functions"),
    (Shell::Fish, "share/fish/vendor_completions.d"),
];

/// Options of `gpu-tune manual`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The prefix to write below, such as /usr/local.
    prefix: PathBuf,
}

/// Writes all pages and completions.
pub fn run(args: &Args) -> Result<ExitCode, CliError> {
    write(&args.prefix, "share/man/man1", |folder| clap_mangen::generate_to(crate::command(), folder))?;
    for (shell, place) in SHELLS {
        write(&args.prefix, place, |folder| completion(shell, folder))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn write(prefix: &Path, place: &str, fill: impl FnOnce(&Path) -> io::Result<()>) -> Result<(), CliError> {
    let folder = prefix.join(place);
    let filled = fs::create_dir_all(&folder).and_then(|()| fill(&folder));
    filled.map_err(|source| CliError::write(&folder, source))
}

fn completion(shell: Shell, folder: &Path) -> io::Result<()> {
    let path = generate_to(shell, &mut crate::command(), "gpu-tune", folder)?;
    // The generator writes `gpu-tune.bash`; bash-completion looks for the command's own name.
    if shell == Shell::Bash { fs::rename(path, folder.join("gpu-tune")) } else { Ok(()) }
}
