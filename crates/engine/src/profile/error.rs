//! Why a profile cannot be used: one variant per thing that a person can fix.

use super::Finding;
use crate::text::did_you_mean;
use crate::trusted::TrustError;
use std::sync::Arc;

/// Why a profile cannot be used.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ProfileError {
    /// No such profile or layer.
    #[error("unknown profile `{name}`")]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        installed: Vec<String>,
    },
    /// `allow=` does not have it.
    #[error("profile `{name}` is not allowed on this cluster")]
    NotAllowed {
        /// What was asked for.
        name: String,
        /// What users may name.
        allowed: Vec<String>,
    },
    /// The file must not be read.
    #[error("profile `{name}` is not used")]
    Unreadable {
        /// The profile.
        name: String,
        /// Why its file is not read.
        #[source]
        source: Arc<TrustError>,
    },
    /// The file is not text.
    #[error("profile `{name}` is not used: `{file}` is not UTF-8")]
    NotText {
        /// The profile.
        name: String,
        /// Its file.
        file: Arc<str>,
    },
    /// The file has a fault.
    #[error("profile `{name}` is not used: {finding}")]
    Invalid {
        /// The profile.
        name: String,
        /// The first fault.
        finding: Box<Finding>,
    },
    /// It inherits from what is not there.
    #[error("profile `{name}` inherits the unknown profile `{parent}` ({file}:{line})")]
    Parent {
        /// The profile.
        name: String,
        /// What it inherits.
        parent: String,
        /// Where it says so.
        file: Arc<str>,
        /// The line.
        line: usize,
        /// What there is.
        installed: Vec<String>,
    },
    /// It inherits itself.
    #[error("profile `{}` inherits itself: {} ({file}:{line})", names.first().map_or("", String::as_str), names.join(" → "))]
    Loop {
        /// The way round, the first name again at its end.
        names: Vec<String>,
        /// The file that closes the loop.
        file: Arc<str>,
        /// The line.
        line: usize,
    },
    /// A word of plugstack.conf names it: the user did not.
    #[error("`{word}=` in plugstack.conf")]
    Word {
        /// The word.
        word: &'static str,
        /// What is wrong with what it names.
        #[source]
        source: Box<ProfileError>,
    },
    /// It inherits too many.
    #[error("profile `{name}` inherits more than {} profiles", super::bounds::INHERITED)]
    TooDeep {
        /// The profile.
        name: String,
    },
}

impl ProfileError {
    /// The same, with the word of plugstack.conf that names the profile.
    #[must_use]
    pub fn of_word(self, word: &'static str) -> Self {
        match self {
            Self::Word { .. } => self,
            source => Self::Word { word, source: Box::new(source) },
        }
    }

    /// Whether only the permission to read a file is missing, which another user may have.
    pub fn is_denied(&self) -> bool {
        matches!(self, Self::Unreadable { source, .. } if source.is_denied())
    }

    /// The way out, printed on a line of its own.
    pub fn help(&self) -> Option<String> {
        match self {
            Self::Unknown { name, installed } | Self::Parent { parent: name, installed, .. } => {
                let near = did_you_mean(name, installed.iter().map(String::as_str));
                Some(format!("{near}installed: {}", installed.join(", ")))
            }
            Self::NotAllowed { allowed, .. } => Some(format!("allowed: {}", allowed.join(", "))),
            Self::Unreadable { source, .. } => source.help(),
            Self::Word { source, .. } => source.help(),
            Self::Invalid { finding, .. } => finding.help.clone(),
            Self::Loop { .. } => {
                Some("a profile of the same name replaces the one built in: give it another".to_owned())
            }
            Self::NotText { .. } | Self::TooDeep { .. } => None,
        }
    }
}
