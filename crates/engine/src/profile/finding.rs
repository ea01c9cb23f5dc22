//! Where things stand in a profile, and what is wrong there.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// The file that a profile is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Its path; for a built-in profile the path in gpu-tune's own sources.
    pub file: Arc<str>,
    /// Whether it came with gpu-tune rather than from the admin.
    pub builtin: bool,
}

impl Source {
    /// A file of the admin's.
    pub fn file(path: &Path) -> Self {
        Self { file: path.display().to_string().into(), builtin: false }
    }
}

/// Where a value was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The profile or layer.
    pub layer: Arc<str>,
    /// Its file.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// Whether the file came with gpu-tune.
    pub builtin: bool,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)?;
        if self.builtin { f.write_str(" (built in)") } else { Ok(()) }
    }
}

/// How bad a [`Finding`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The file cannot be used.
    Error,
    /// A key that this release does not know: ignored in a job, so that a newer file does not stop an older plugin; an error
    /// for `gpu-tune profile check` and with `strict`.
    Unknown,
    /// Probably not what was meant.
    Warning,
}

/// One thing that is wrong in a profile, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub kind: Kind,
    /// The file.
    pub file: Arc<str>,
    /// The line, from 1; 0 when the file as a whole is meant.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// How many characters of the line are meant.
    pub width: usize,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub help: Option<String>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, self.message),
            line => write!(f, "{}:{line}:{}: {}", self.file, self.column, self.message),
        }
    }
}

/// Line and column, both from 1, of a byte offset; a column counts characters.
pub(super) fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (line, column)
}
