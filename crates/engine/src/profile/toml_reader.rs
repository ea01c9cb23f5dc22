//! Walks a parsed TOML file and keeps what is wrong with it, each with its line and column.
//!
//! The tree is walked by hand instead of by `serde`, because every value must keep its place, and because one file may have
//! several faults that an admin wants to see at once.

use super::finding::Lines;
use super::{Finding, Kind, Source, bounds};
use crate::spec::Word;
use crate::text::{did_you_mean, shown};
use std::collections::BTreeMap;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeInteger, DeString, DeTable, DeValue};

pub(super) type Key<'t> = Spanned<DeString<'t>>;
pub(super) type Value<'t> = Spanned<DeValue<'t>>;

/// One file being read.
pub(super) struct Reader<'a> {
    lines: Lines<'a>,
    source: &'a Source,
    pub(super) findings: Vec<Finding>,
    /// Line and column of keys that the file's reader wants to find again.
    pub(super) places: BTreeMap<String, (usize, usize)>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a str, source: &'a Source) -> Self {
        Self { lines: Lines::new(text), source, findings: Vec::new(), places: BTreeMap::new() }
    }

    /// The file as a tree; `None` and a finding if it is not TOML.
    pub(super) fn parse(&mut self) -> Option<DeTable<'a>> {
        match DeTable::parse(self.lines.text) {
            Ok(table) => Some(table.into_inner()),
            Err(error) => {
                let message = error.message().lines().collect::<Vec<_>>().join(", ");
                self.error(error.span().unwrap_or(0..0), message, None);
                None
            }
        }
    }

    /// Line and column of a place, from 1.
    pub(super) fn position(&self, span: &Range<usize>) -> (usize, usize) {
        self.lines.position(span.start)
    }

    fn report(&mut self, kind: Kind, span: Range<usize>, message: String, help: Option<String>) {
        let (line, column) = self.position(&span);
        let meant = self.lines.text.get(span).unwrap_or_default().lines().next().unwrap_or_default();
        let width = meant.chars().count().max(1);
        self.findings.push(Finding { kind, file: self.source.file.clone(), line, column, width, message, help });
    }

    /// The file cannot be used.
    pub(super) fn error(&mut self, span: Range<usize>, message: impl Into<String>, help: Option<String>) {
        self.report(Kind::Error, span, message.into(), help);
    }

    /// A key that is none of `known`.
    pub(super) fn unknown(&mut self, key: &Key<'_>, place: &str, known: &[&str]) {
        let help = format!("{}known keys: {}", did_you_mean(key.get_ref(), known.iter().copied()), known.join(", "));
        let message = format!("unknown key `{}` {place}", shown(key.get_ref()));
        self.report(Kind::Unknown, key.span(), message, Some(help));
    }

    fn expected(&mut self, value: &Value<'_>, what: &str) {
        self.error(value.span(), format!("expected {what}, found {}", described(value.get_ref())), None);
    }

    pub(super) fn table<'v, 't>(&mut self, value: &'v Value<'t>) -> Option<&'v DeTable<'t>> {
        let table = value.get_ref().as_table();
        if table.is_none() {
            self.expected(value, "a table");
        }
        table
    }

    pub(super) fn boolean(&mut self, value: &Value<'_>) -> Option<bool> {
        let boolean = value.get_ref().as_bool();
        if boolean.is_none() {
            self.expected(value, "`true` or `false`");
        }
        boolean
    }

    /// A text of at most `most` bytes without control characters.
    pub(super) fn string(&mut self, value: &Value<'_>, most: usize) -> Option<String> {
        let Some(text) = value.get_ref().as_str() else {
            self.expected(value, "a string");
            return None;
        };
        self.bounded(text, value.span(), most)
    }

    /// A text, or a whole number, which is taken as its decimal text: environment variables are texts anyway.
    pub(super) fn scalar(&mut self, value: &Value<'_>) -> Option<String> {
        match value.get_ref() {
            DeValue::Integer(number) if integer(number).is_some() => integer(number).map(|number| number.to_string()),
            DeValue::Boolean(_) => {
                let help = Some("write \"1\" or \"0\", or whatever the program takes".to_owned());
                self.error(value.span(), "expected a string, found a boolean", help);
                None
            }
            _ => self.string(value, bounds::VALUE),
        }
    }

    fn bounded(&mut self, text: &str, span: Range<usize>, most: usize) -> Option<String> {
        if text.len() > most {
            self.error(span, format!("{} bytes, at most {most} are taken", text.len()), None);
            return None;
        }
        if text.chars().any(char::is_control) {
            self.error(span, "a control character", None);
            return None;
        }
        Some(text.to_owned())
    }

    /// One text, or a list of texts.
    pub(super) fn strings(&mut self, value: &Value<'_>) -> Option<Vec<String>> {
        let Some(items) = value.get_ref().as_array() else {
            return self.string(value, bounds::VALUE).map(|one| vec![one]);
        };
        if items.len() > bounds::LIST {
            self.error(value.span(), format!("{} items, at most {} are taken", items.len(), bounds::LIST), None);
            return None;
        }
        items.iter().map(|item| self.string(item, bounds::VALUE)).collect()
    }

    /// A whole number that is not negative.
    pub(super) fn number(&mut self, value: &Value<'_>) -> Option<u64> {
        let number = value.get_ref().as_integer().and_then(integer).and_then(|number| u64::try_from(number).ok());
        if number.is_none() {
            self.expected(value, "a whole number");
        }
        number
    }

    /// One of a fixed list of words.
    pub(super) fn word<T: Word>(&mut self, value: &Value<'_>) -> Option<T> {
        let text = self.string(value, bounds::VALUE)?;
        let word = T::from_word(&text);
        if word.is_none() {
            let near = did_you_mean(&text, T::WORDS.iter().map(|(word, _)| *word));
            let help = (!near.is_empty()).then(|| near.trim_end().to_owned());
            self.error(value.span(), format!("expected {}, found `{}`", T::expected(), shown(&text)), help);
        }
        word
    }
}

fn integer(number: &DeInteger<'_>) -> Option<i64> {
    i64::from_str_radix(number.as_str(), number.radix()).ok()
}

fn described(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("`{}`", shown(text)),
        DeValue::Integer(number) => format!("`{}`", shown(&number.to_string())),
        DeValue::Float(number) => format!("`{}`", shown(&number.to_string())),
        DeValue::Boolean(boolean) => format!("`{boolean}`"),
        DeValue::Datetime(_) => "a date".to_owned(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}
