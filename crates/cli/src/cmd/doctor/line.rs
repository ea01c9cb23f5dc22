//! One line of the doctor's report.

use crate::json::{DoctorDocument, DoctorLine, SCHEMA};
use crate::style::Style;

/// How it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Ok,
    /// Works, but not as well as it could, or only probably.
    Warn,
    /// Does not work.
    Fail,
    /// Could not be seen, or does not apply.
    Skip,
}

/// What was looked at and what was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) state: State,
    pub(super) subject: &'static str,
    pub(super) text: String,
    pub(super) fix: Option<String>,
}

impl Line {
    fn new(state: State, subject: &'static str, text: impl Into<String>) -> Self {
        Self { state, subject, text: text.into(), fix: None }
    }

    pub(super) fn ok(subject: &'static str, text: impl Into<String>) -> Self {
        Self::new(State::Ok, subject, text)
    }

    pub(super) fn warn(subject: &'static str, text: impl Into<String>) -> Self {
        Self::new(State::Warn, subject, text)
    }

    pub(super) fn fail(subject: &'static str, text: impl Into<String>) -> Self {
        Self::new(State::Fail, subject, text)
    }

    pub(super) fn skip(subject: &'static str, text: impl Into<String>) -> Self {
        Self::new(State::Skip, subject, text)
    }

    /// Adds what to do, where somebody knows.
    pub(super) fn fix_if(mut self, fix: Option<String>) -> Self {
        self.fix = fix.or(self.fix);
        self
    }

    /// Adds what to do.
    pub(super) fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }
}

impl State {
    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
            Self::Skip => "skip",
        }
    }

    fn styled(self, style: Style) -> String {
        let word = format!("{:<4}", self.word());
        match self {
            Self::Ok => style.good(word),
            Self::Warn => style.warn(word),
            Self::Fail => style.bad(word),
            Self::Skip => style.dim(word),
        }
    }
}

/// The report for people, with a sum at its end.
pub(super) fn text(lines: &[Line], style: Style) -> String {
    let width = lines.iter().map(|line| line.subject.len()).max().unwrap_or(0);
    let mut text = String::new();
    for line in lines {
        text += &format!("{}  {:<width$}  {}\n", line.state.styled(style), line.subject, line.text);
        if let Some(fix) = &line.fix {
            text += &format!("      {:<width$}  fix: {fix}\n", "");
        }
    }
    let count = |state: State| lines.iter().filter(|line| line.state == state).count();
    let (failed, warned) = (count(State::Fail), count(State::Warn));
    text + &format!(
        "\n{failed} failed, {warned} to look at, {} fine, {} skipped\n",
        count(State::Ok),
        count(State::Skip)
    )
}

/// The report for programs.
pub(super) fn document(lines: &[Line]) -> DoctorDocument {
    let object = |line: &Line| DoctorLine {
        state: line.state.word(),
        subject: line.subject,
        text: line.text.clone(),
        fix: line.fix.clone(),
    };
    DoctorDocument { schema: SCHEMA, lines: lines.iter().map(object).collect() }
}
