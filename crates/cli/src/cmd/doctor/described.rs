//! The file of `topology=` in plugstack.conf: steps know the machine from it, and nothing of the node where it cannot be used.

use super::host::{Host, is_denied};
use super::line::Line;
use crate::cmd::read_xml;
use crate::words;
use gpu_tune_discover::{DiscoverError, read_file};
use gpu_tune_engine::text::chain;
use gpu_tune_engine::trusted::{self, TrustError};
use gpu_tune_engine::{Machine, Notice, snapshot};
use std::path::{Path, PathBuf};

const SUBJECT: &str = "topology";

/// The largest file that steps read.
const MOST: u64 = 64 * 1024 * 1024;

/// The file, and the machine in it.
#[derive(Debug)]
pub(super) struct Described {
    /// As on the node.
    pub(super) file: PathBuf,
    /// The machine, and what was odd while it was read; without one the line that tells why.
    pub(super) machine: Result<(Machine, Vec<Notice>), Line>,
    /// It is a snapshot, which steps read as it is. Of other files they read the snapshot that was made of them.
    pub(super) is_snapshot: bool,
}

impl Described {
    /// Reads the file as steps do.
    pub(super) fn read(host: &Host, file: &Path) -> Self {
        let place = host.path(file);
        let bytes = trusted::read(&place, MOST);
        let is_snapshot = bytes.as_ref().is_ok_and(|bytes| snapshot::is_snapshot(bytes));
        let machine = match bytes {
            Ok(_) => read_file(&place, read_xml::command()).map_err(|error| unusable(file, &error)),
            Err(error) => Err(refused(&error)),
        };
        Self { file: file.to_owned(), machine, is_snapshot }
    }

    /// The line about it.
    pub(super) fn check(&self) -> Line {
        match &self.machine {
            Ok((machine, _)) => Line::ok(SUBJECT, format!("{}: {}", self.file.display(), words::summary(machine))),
            Err(line) => line.clone(),
        }
    }
}

fn refused(error: &TrustError) -> Line {
    if is_denied(error) {
        return Line::skip(SUBJECT, "only root can see it");
    }
    Line::fail(SUBJECT, said(&chain(error))).fix(error.help().unwrap_or_else(correct))
}

fn unusable(file: &Path, error: &DiscoverError) -> Line {
    let fix = match error {
        DiscoverError::Snapshot { .. } => Some(format!("`gpu-tune snapshot -o {}` writes a new one", file.display())),
        _ => error.help(),
    };
    Line::fail(SUBJECT, said(&chain(error))).fix(fix.unwrap_or_else(correct))
}

fn said(why: &str) -> String {
    format!("{why}: nothing is known of this node, ranks are not bound")
}

fn correct() -> String {
    "correct `topology=` in plugstack.conf, or leave it out: then the node itself is looked at".to_owned()
}
