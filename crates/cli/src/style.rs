//! Colour and weight on a terminal; nothing where the output goes to a file, a pipe, or somebody set `NO_COLOR`
//! (<https://no-color.org>).

use std::env;
use std::fmt::Display;
use std::io::{self, IsTerminal};

/// Every way to begin and to end a styled text.
const CODES: [&str; 6] = ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[32m", "\x1b[33m", "\x1b[1;31m"];

/// The code that a text begins with, if it is one of ours.
pub fn leading_code(text: &str) -> Option<&'static str> {
    CODES.into_iter().find(|code| text.starts_with(code))
}

/// Whether to style, and how.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    on: bool,
}

impl Style {
    /// For standard output.
    pub fn stdout() -> Self {
        let wanted = env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let able = env::var_os("TERM").is_none_or(|term| term != "dumb");
        Self { on: wanted && able && io::stdout().is_terminal() }
    }

    /// Names that the eye looks for.
    pub fn bold(self, text: impl Display) -> String {
        self.sgr("1", text)
    }

    /// What matters less.
    pub fn dim(self, text: impl Display) -> String {
        self.sgr("2", text)
    }

    /// As it should be.
    pub fn good(self, text: impl Display) -> String {
        self.sgr("32", text)
    }

    /// Worth a look.
    pub fn warn(self, text: impl Display) -> String {
        self.sgr("33", text)
    }

    /// Not as it should be.
    pub fn bad(self, text: impl Display) -> String {
        self.sgr("1;31", text)
    }

    fn sgr(self, code: &str, text: impl Display) -> String {
        if self.on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }
}
