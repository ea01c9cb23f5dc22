//! The only place that prints: results to stdout, everything else to stderr.
//!
//! Names in a machine's file and what processes say of themselves may be a stranger's, so nothing that plays with a terminal
//! leaves here, except the colours of [`crate::style`].

use crate::CliError;
use crate::style;
use gpu_tune_engine::Notice;
use gpu_tune_engine::text::{chain, is_printable};
use serde::Serialize;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

/// Prints a result. Adds the final newline if the text lacks it.
pub fn print(text: &str) -> Result<(), CliError> {
    let text = harmless(text);
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| match text.ends_with('\n') || text.is_empty() {
        true => Ok(()),
        false => out.write_all(b"\n"),
    });
    written.and_then(|()| out.flush()).map_err(|source| CliError::Output { source })
}

/// Prints a result as JSON, one line, so that a log holds one record per line.
pub fn print_json(value: &impl Serialize) -> Result<(), CliError> {
    let text =
        serde_json::to_string(value).map_err(|error| CliError::refused("cannot write the result as JSON", error))?;
    print(&escaped(&text))
}

/// JSON in which what cannot be printed, such as a change of direction, is escaped; serde escapes control characters only.
fn escaped(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for letter in json.chars() {
        // All others stand inside strings.
        if letter.is_ascii() || is_printable(letter) {
            out.push(letter);
        } else {
            out.extend(letter.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    out
}

/// Writes a result to a file, or to stdout for `-`.
pub fn save(path: &Path, text: &str) -> Result<(), CliError> {
    if path == Path::new("-") {
        return print(text);
    }
    fs::write(path, text).map_err(|source| CliError::write(path, source))
}

/// Prints a notice to stderr.
pub fn warn(notice: &Notice) {
    say("warning", &notice.message, notice.help.as_deref());
}

/// Prints a line that somebody asked for (`verbose`) to stderr, where it does not mix with a command's own output.
pub fn note(line: &str) {
    let _ = writeln!(io::stderr().lock(), "gpu-tune: {}", harmless(line));
}

/// Prints an error with the whole chain of its causes to stderr.
pub fn complain(error: &CliError) {
    say("error", &chain(error), error.help());
}

/// Nobody can be told where stderr is closed: the exit status still says it.
fn say(kind: &str, message: &str, help: Option<&str>) {
    let mut err = io::stderr().lock();
    let _ = writeln!(err, "gpu-tune: {kind}: {}", harmless(message));
    if let Some(help) = help {
        let _ = writeln!(err, "gpu-tune: help: {}", harmless(help));
    }
}

/// The text with its control characters escaped, but for ends of lines, tabs and our own colours.
fn harmless(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let colour = style::leading_code(rest);
        let (kept, tail) = rest.split_at(colour.map_or(letter.len_utf8(), str::len));
        if letter.is_control() && colour.is_none() && !matches!(letter, '\n' | '\t') {
            out.extend(letter.escape_default());
        } else {
            out.push_str(kept);
        }
        rest = tail;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_shows_no_text_in_another_direction() {
        let value = "4\u{202e}2 Größe\n\u{e0001}";
        let json = escaped(&serde_json::to_string(value).unwrap());
        assert_eq!(json, "\"4\\u202e2 Größe\\n\\udb40\\udc01\"");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), value);
    }

    #[test]
    fn what_plays_with_a_terminal_is_escaped_and_our_colours_are_not() {
        let text = "\x1b[1;31mdiffers\x1b[0m\tä — ok\n";
        assert_eq!(harmless(text), text);
        assert_eq!(
            harmless("\x1b]0;title\x07\x1b[8m\x1b[2J\u{9b}"),
            "\\u{1b}]0;title\\u{7}\\u{1b}[8m\\u{1b}[2J\\u{9b}"
        );
    }
}
