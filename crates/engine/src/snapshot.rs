//! A [`Machine`] as a file: what discovery found, kept for the steps of one boot.
//!
//! The first line is `gpu-tune-snapshot FORMAT CRC BYTES`: the format's number, the CRC-32 of everything after that line in
//! eight hexadecimal digits, and its length. Then comes one JSON object with the [`Key`] and the machine. A file is only
//! ever replaced whole, so a reader sees an old or a new one, and the CRC finds what a disk or a hand did to it.
//!
//! The plugin reads snapshots as root, hence through [`crate::trusted`].
#![forbid(unsafe_code)]

mod key;

pub use key::{Key, driver};

use crate::machine::Machine;
use crate::trusted::{self, TrustError};
use serde::{Deserialize, Serialize};
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

/// The file's name in the state directory.
pub const FILE_NAME: &str = "machine.snapshot";

/// The format written here, and the only one read.
pub const FORMAT: u32 = 1;

/// The first word of a snapshot.
const MAGIC: &str = "gpu-tune-snapshot";

/// The largest snapshot taken, in bytes. A 1024-CPU node has about 60 KiB.
const MOST: u64 = 4 * 1024 * 1024;

/// What an unfinished file's name begins with.
const UNFINISHED: &str = ".machine.snapshot.";

/// An unfinished file this old was left by a process that died.
const LEFT_OVER: Duration = Duration::from_secs(600);

/// Why a snapshot is not used, or was not written.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// There is none.
    #[error("no snapshot at `{}`", .0.display())]
    Missing(PathBuf),
    /// Not a file that only root can have written, or not readable.
    #[error("the snapshot cannot be trusted")]
    Untrusted(#[source] TrustError),
    /// Something else than a snapshot.
    #[error("not a snapshot of gpu-tune")]
    NotASnapshot,
    /// Another format than this version's.
    #[error("a snapshot of format {0}, expected {FORMAT}")]
    Format(u32),
    /// Cut off, or changed since it was written.
    #[error("the snapshot is damaged: {0}")]
    Damaged(String),
    /// Of another boot, driver or set of GPUs.
    #[error("the snapshot is out of date: {0}")]
    Stale(String),
    /// It could not be written.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl SnapshotError {
    /// What to do about it.
    pub fn help(&self) -> Option<String> {
        match self {
            Self::Untrusted(error) => error.help(),
            Self::Write { .. } => Some("`state=` in plugstack.conf names the directory".to_owned()),
            _ => Some("`gpu-tune snapshot` writes a new one".to_owned()),
        }
    }
}

#[derive(Serialize)]
struct Written<'a> {
    key: &'a Key,
    machine: &'a Machine,
}

#[derive(Deserialize)]
struct Body {
    key: Key,
    machine: Machine,
}

/// Whether a file's first bytes are a snapshot's.
pub fn is_snapshot(bytes: &[u8]) -> bool {
    bytes.strip_prefix(MAGIC.as_bytes()).is_some_and(|rest| rest.first() == Some(&b' '))
}

/// The file's text.
pub fn encode(machine: &Machine, key: &Key) -> String {
    let mut body = serde_json::to_string(&Written { key, machine }).unwrap_or_default();
    body.push('\n');
    format!("{MAGIC} {FORMAT} {:08x} {}\n{body}", crc32fast::hash(body.as_bytes()), body.len())
}

/// Reads a file's bytes back, without asking whether the machine is this one.
pub fn decode(bytes: &[u8]) -> Result<(Machine, Key), SnapshotError> {
    let damaged = |what: &str| SnapshotError::Damaged(what.to_owned());
    if !is_snapshot(bytes) {
        return Err(SnapshotError::NotASnapshot);
    }
    let end = bytes.iter().position(|byte| *byte == b'\n').ok_or_else(|| damaged("its first line is cut off"))?;
    let (head, body) = bytes.split_at(end);
    let body = body.get(1..).unwrap_or_default();
    let head = std::str::from_utf8(head).map_err(|_| damaged("its first line is no text"))?;
    let Some([_, format, crc, length]) = words(head) else { return Err(damaged("its first line has other words")) };
    match format.parse() {
        Ok(FORMAT) => {}
        Ok(other) => return Err(SnapshotError::Format(other)),
        Err(_) => return Err(damaged("its format is no number")),
    }
    if length != body.len().to_string() {
        return Err(SnapshotError::Damaged(format!("it has {} bytes of {length}", body.len())));
    }
    if crc != format!("{:08x}", crc32fast::hash(body)) {
        return Err(damaged("its checksum is wrong"));
    }
    let Body { key, machine } =
        serde_json::from_slice(body).map_err(|error| SnapshotError::Damaged(error.to_string()))?;
    Ok((machine, key))
}

/// Exactly four words with one space between them.
fn words(head: &str) -> Option<[&str; 4]> {
    head.split(' ').collect::<Vec<_>>().try_into().ok()
}

/// The machine kept in a state directory, if it is this one's: `now` is [`Key::of_this_host`].
pub fn load(directory: &Path, now: &Key) -> Result<Machine, SnapshotError> {
    let path = directory.join(FILE_NAME);
    let bytes = trusted::read(&path, MOST).map_err(|error| match error.is_missing() {
        true => SnapshotError::Missing(path.clone()),
        false => SnapshotError::Untrusted(error),
    })?;
    let (machine, key) = decode(&bytes)?;
    match key.difference(now) {
        Some(difference) => Err(SnapshotError::Stale(difference)),
        None => Ok(machine),
    }
}

/// Keeps a machine in a state directory, which is made when it is not there. Returns the file's path. Nothing is
/// written into a directory from which nothing would be read.
pub fn store(directory: &Path, machine: &Machine, key: &Key) -> Result<PathBuf, SnapshotError> {
    make(directory)?;
    trusted::check_dir(directory).map_err(SnapshotError::Untrusted)?;
    sweep(directory);
    let path = directory.join(FILE_NAME);
    replace(&path, machine, key)?;
    Ok(path)
}

/// Makes the directories that are not there, each in one that only root can write: what others put on the way could lead
/// anywhere.
fn make(directory: &Path) -> Result<(), SnapshotError> {
    let missing: Vec<&Path> = directory.ancestors().take_while(|path| !path.exists()).collect();
    for path in missing.into_iter().rev() {
        if let Some(parent) = path.parent() {
            trusted::check_dir(parent).map_err(SnapshotError::Untrusted)?;
        }
        let made = fs::DirBuilder::new().mode(0o755).create(path);
        made.map_err(|source| SnapshotError::Write { path: path.into(), source })?;
    }
    Ok(())
}

/// Writes a snapshot to `path`, a new name or a regular file's. What is neither, such as a device or a link, would be gone:
/// it is refused.
pub fn write(path: &Path, machine: &Machine, key: &Key) -> Result<(), SnapshotError> {
    match path.symlink_metadata() {
        Ok(meta) if !meta.is_file() => {
            let source = io::Error::other("it exists and is no regular file");
            Err(SnapshotError::Write { path: path.into(), source })
        }
        _ => replace(path, machine, key),
    }
}

/// A reader, or a second writer, never meets half a file: it gets its name when it is whole.
fn replace(path: &Path, machine: &Machine, key: &Key) -> Result<(), SnapshotError> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let unfinished = path.with_file_name(format!("{UNFINISHED}{}.{number}", std::process::id()));
    let written = fill(&unfinished, encode(machine, key).as_bytes()).and_then(|()| fs::rename(&unfinished, path));
    written.map_err(|source| {
        // What could not be finished is of no use; if it cannot be removed either, `sweep` comes by later.
        let _ = fs::remove_file(&unfinished);
        SnapshotError::Write { path: path.into(), source }
    })
}

fn fill(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(path)?;
    // The caller's umask must not decide whether a snapshot can be read, or written by others.
    file.set_permissions(Permissions::from_mode(0o644))?;
    file.write_all(bytes)?;
    // Otherwise a crash of the node could leave the name with nothing behind it.
    file.sync_all()
}

/// Removes what writers that died left behind.
fn sweep(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let unfinished = entry.file_name().to_str().is_some_and(|name| name.starts_with(UNFINISHED));
        let written = entry.metadata().and_then(|meta| meta.modified());
        let age = written.ok().and_then(|written| SystemTime::now().duration_since(written).ok());
        if unfinished && age.is_some_and(|age| age > LEFT_OVER) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests;
