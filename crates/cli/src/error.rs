//! Why a verb could not do its work: what is printed, what helps, and the exit status.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// An error that ends the command. A `Display` never repeats its source: [`crate::output::complain`] walks the chain.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CliError {
    /// The command line cannot be meant; exit status 2.
    #[error("{message}")]
    Usage {
        /// What is wrong with it.
        message: String,
        /// The way out.
        help: Option<String>,
    },
    /// The command line is fine, but there is no result; exit status 1.
    #[error("{message}")]
    Nothing {
        /// Why not.
        message: String,
        /// The way out.
        help: Option<String>,
    },
    /// A room of the engine or of discovery refused; exit status 1.
    #[error("{what}")]
    Refused {
        /// What was being done, such as "cannot read the machine".
        what: String,
        /// The way out.
        help: Option<String>,
        /// Why.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// A command could not be started; exit status 127 if it was not found, else 126.
    #[error("cannot start `{command}`")]
    Start {
        /// As typed.
        command: String,
        /// The way out.
        help: Option<String>,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A file could not be written.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The result could not be printed.
    #[error("cannot write to standard output")]
    Output {
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl CliError {
    /// Wrong usage.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::Usage { message: message.into(), help: None }
    }

    /// No result.
    pub fn nothing(message: impl Into<String>) -> Self {
        Self::Nothing { message: message.into(), help: None }
    }

    /// Somebody else's refusal, with what was being done.
    pub fn refused(what: impl Into<String>, source: impl Error + Send + Sync + 'static) -> Self {
        Self::Refused { what: what.into(), help: None, source: Box::new(source) }
    }

    /// A file that could not be written.
    pub fn write(path: &Path, source: io::Error) -> Self {
        Self::Write { path: path.to_owned(), source }
    }

    /// Adds the way out. Errors of the system have none.
    #[must_use]
    pub fn with_help(mut self, text: impl Into<Option<String>>) -> Self {
        match &mut self {
            Self::Usage { help, .. }
            | Self::Nothing { help, .. }
            | Self::Refused { help, .. }
            | Self::Start { help, .. } => *help = text.into(),
            Self::Write { .. } | Self::Output { .. } => {}
        }
        self
    }

    /// Says where the wrong word stands, when that is not the command's first argument: `--fabric`, a variable.
    #[must_use]
    pub fn within(mut self, place: &str) -> Self {
        match &mut self {
            Self::Usage { message: text, .. }
            | Self::Nothing { message: text, .. }
            | Self::Refused { what: text, .. } => {
                *text = format!("{place}: {text}");
            }
            Self::Start { .. } | Self::Write { .. } | Self::Output { .. } => {}
        }
        self
    }

    /// The way out, printed on a line of its own.
    pub fn help(&self) -> Option<&str> {
        match self {
            Self::Usage { help, .. }
            | Self::Nothing { help, .. }
            | Self::Refused { help, .. }
            | Self::Start { help, .. } => help.as_deref(),
            Self::Write { .. } | Self::Output { .. } => None,
        }
    }

    /// 2 for wrong usage; for a command that could not be started what `env` and `nohup` say; else 1.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Usage { .. } => 2,
            Self::Start { source, .. } if source.kind() == io::ErrorKind::NotFound => 127,
            Self::Start { .. } => 126,
            Self::Nothing { .. } | Self::Refused { .. } | Self::Write { .. } | Self::Output { .. } => 1,
        })
    }

    /// Whoever read our output has heard enough (`gpu-tune topo | head -3`): no reason to complain.
    pub fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Output { source } if source.kind() == io::ErrorKind::BrokenPipe)
    }
}
