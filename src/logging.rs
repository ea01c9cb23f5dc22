//! `log`, bridged to Slurm's own logging, and macros named by who shall read the line.
//!
//! Slurm has three places that matter to us: `slurm_error` reaches the user and means that the step fails,
//! `slurm_spank_log` reaches the user without the word "error", `slurm_info` goes to the daemon's log only. `log`'s levels
//! say which: error, warn, info; debug and trace need Slurm's debugging turned on. Lines for the user that are no warning
//! (the table of `verbose`) go by a target of their own.
#![forbid(unsafe_code)]

use crate::spank::say;
use gpu_tune_engine::{Code, Notice};
use log::{Level, LevelFilter, Log, Metadata, Record};

/// The target of lines that the user asked for.
pub(crate) const ANSWER: &str = "gpu_tune::answer";

struct SlurmLog;

static LOG: SlurmLog = SlurmLog;

impl Log for SlurmLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= Level::Debug
    }

    fn log(&self, record: &Record<'_>) {
        let text = record.args().to_string();
        // One call a line: Slurm puts its prefix before each.
        for line in text.lines() {
            match (record.level(), record.target()) {
                (_, ANSWER) => say::user(&format!("gpu-tune: {line}")),
                (Level::Error, _) => say::error(&format!("gpu-tune: {line}")),
                (Level::Warn, _) => say::user(&format!("gpu-tune: warning: {line}")),
                (Level::Info, _) => say::info(&format!("gpu-tune: {line}")),
                (Level::Debug | Level::Trace, _) => say::debug(&format!("gpu-tune: {line}")),
            }
        }
    }

    fn flush(&self) {}
}

/// Makes `log` write to Slurm. Called before every hook: the first one may have ended in a panic.
pub(crate) fn start() {
    if log::set_logger(&LOG).is_ok() {
        log::set_max_level(LevelFilter::Debug);
    }
}

/// A line that the user asked for.
macro_rules! user_line {
    ($($arg:tt)*) => { log::info!(target: crate::logging::ANSWER, $($arg)*) };
}
pub(crate) use user_line;

/// A notice for the user: the message as a warning, its advice on a line of its own.
pub(crate) fn warn_user(notice: &Notice) {
    log::warn!("{}", notice.message);
    help(notice.help.as_deref());
}

/// Advice for the user.
pub(crate) fn help(text: Option<&str>) {
    for line in text.into_iter().flat_map(str::lines) {
        user_line!("help: {line}");
    }
}

/// A fault of our own, for the user.
pub(crate) fn internal(hook: &str, what: &str) -> Notice {
    let notice = Notice::new(Code::Internal, format!("internal fault in `{hook}`: {what}; the job goes on"));
    notice.help("please report this line with the version of gpu-tune and of Slurm")
}
