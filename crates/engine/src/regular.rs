//! Files that a person names: a regular one, or an error at once.
//!
//! Not for what decides what root does: [`crate::trusted`].
#![forbid(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Opens a regular file, or a link to one, for reading.
///
/// # Errors
/// Those of open(2), and one for whatever else the path leads to.
pub fn open(path: &Path) -> io::Result<File> {
    // O_NONBLOCK: opening a pipe would wait for a writer.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("not a regular file")),
    }
}
