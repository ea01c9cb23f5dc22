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

/// A text whose lines were counted once: every key of a file is asked for its place.
pub(super) struct Lines<'a> {
    pub(super) text: &'a str,
    /// Byte offsets at which the lines after the first begin.
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, starts: text.match_indices('\n').map(|(at, _)| at + 1).collect() }
    }

    /// Line and column, both from 1, of a byte offset; a column counts characters.
    pub(super) fn position(&self, offset: usize) -> (usize, usize) {
        let before = self.starts.partition_point(|start| *start <= offset);
        let start = before.checked_sub(1).and_then(|last| self.starts.get(last)).copied().unwrap_or(0);
        let column = self.text.get(start..offset).unwrap_or_default().chars().count() + 1;
        (before + 1, column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_in_lines_and_characters() {
        let lines = Lines::new("a = 1\nü = 2\n\nlast");
        let places =
            [(0, (1, 1)), (4, (1, 5)), (5, (1, 6)), (6, (2, 1)), (8, (2, 2)), (13, (3, 1)), (14, (4, 1)), (18, (4, 5))];
        for (offset, place) in places {
            assert_eq!(lines.position(offset), place, "{offset}");
        }
        assert_eq!(Lines::new("").position(0), (1, 1));
    }
}
