//! What can be wrong with the option or with a word of `plugstack.conf`.

use super::parse::{KEYS, LAYERS_MAX, NAME_MAX, OPTION_MAX, is_name};
use super::site::{LOCKS, WORDS};
use crate::text::did_you_mean;

/// Why a text is no option, or a word of `plugstack.conf` is not taken. The message says what is wrong, [`SpecError::help`]
/// what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// Longer than [`OPTION_MAX`] bytes.
    #[error("the value has {0} bytes, at most {OPTION_MAX} are taken")]
    TooLong(usize),
    /// Not UTF-8.
    #[error("the value is not text")]
    NotText,
    /// Nothing, or nothing before the first comma.
    #[error("no profile is named")]
    NoProfile,
    /// A name with bytes that no name has, or too long, or empty.
    #[error("`{0}` cannot be the name of a profile or layer")]
    BadName(String),
    /// `auto`, `off` or `list` as a layer.
    #[error("`{0}` cannot be a layer")]
    ReservedLayer(String),
    /// The same layer twice: its second turn would change nothing, so something else was meant.
    #[error("the layer `{0}` is named twice")]
    LayerTwice(String),
    /// More than [`LAYERS_MAX`] layers.
    #[error("more than {LAYERS_MAX} layers")]
    TooManyLayers,
    /// `off` or `list` with layers or keys.
    #[error("`{0}` takes no layer and no key")]
    Alone(&'static str),
    /// A key that does not exist.
    #[error("unknown key `{0}`")]
    UnknownKey(String),
    /// A key twice.
    #[error("the key `{0}` is given twice")]
    KeyTwice(String),
    /// A key without the value it needs, or with a value that is none of its words.
    #[error("`{key}={value}` is not understood")]
    BadValue {
        /// The key.
        key: &'static str,
        /// What was given; empty when nothing was.
        value: String,
        /// What it may be, as text for a message.
        expected: String,
    },
    /// A key that takes no value.
    #[error("the key `{0}` takes no value")]
    NoValue(&'static str),
    /// A word of `plugstack.conf` that does not exist.
    #[error("unknown word `{0}` in plugstack.conf")]
    UnknownWord(String),
    /// A word of `plugstack.conf` twice.
    #[error("the word `{0}` is given twice in plugstack.conf")]
    WordTwice(&'static str),
    /// A word of `plugstack.conf` without its value, or with one though it takes none.
    #[error("the word `{word}` in plugstack.conf {}", if *.takes { "needs a value" } else { "takes no value" })]
    WordValue {
        /// The word.
        word: &'static str,
        /// Whether it takes one.
        takes: bool,
    },
    /// A path that is not absolute.
    #[error("`{word}={path}` in plugstack.conf is not an absolute path")]
    RelativePath {
        /// The word.
        word: &'static str,
        /// What was given.
        path: String,
    },
    /// Something in `lock=` that cannot be locked.
    #[error("`{0}` in `lock=` in plugstack.conf cannot be locked")]
    UnknownLock(String),
    /// `lock=off` or `lock=profile` without a profile to fall back to.
    #[error("`lock={0}` in plugstack.conf needs a `default=` profile to hold on to")]
    LockNeedsDefault(&'static str),
    /// The value of `default=` is no option.
    #[error("`default=` in plugstack.conf is not understood")]
    Default(#[source] Box<SpecError>),
    /// `default=list`.
    #[error("`default=list` in plugstack.conf makes no sense")]
    DefaultList,
}

impl SpecError {
    /// The way out, printed on a line of its own.
    pub fn help(&self) -> Option<String> {
        match self {
            Self::TooLong(_) | Self::NotText | Self::NoProfile | Self::TooManyLayers => {
                Some("write `PROFILE[+LAYER…][,KEY[=VALUE]…]`, such as `h200+megatron-tp,verbose`".to_owned())
            }
            Self::BadName(name) => Some(format!(
                "{}names have up to {NAME_MAX} of the characters a-z, 0-9, `_`, `.` and `-`, and begin with a letter or digit",
                in_lower_case(name)
            )),
            Self::ReservedLayer(_) => Some("`auto`, `off` and `list` stand first".to_owned()),
            Self::LayerTwice(_) | Self::KeyTwice(_) | Self::WordTwice(_) => Some("name it once".to_owned()),
            Self::Alone(word) => Some(format!("write only `{word}`")),
            Self::UnknownKey(key) => Some(known(key, KEYS, "keys")),
            Self::BadValue { key, expected, .. } => Some(format!("`{key}` is {expected}")),
            Self::NoValue(key) => Some(format!("write only `{key}`")),
            Self::UnknownWord(word) => Some(known(word, WORDS, "words")),
            Self::RelativePath { .. } => Some("write the path from `/` on".to_owned()),
            Self::UnknownLock(word) => Some(known(word, LOCKS, "locks")),
            Self::LockNeedsDefault(_) => Some("add `default=PROFILE`".to_owned()),
            Self::Default(source) => source.help(),
            Self::DefaultList | Self::WordValue { .. } => None,
        }
    }
}

/// Models are written in capitals, profiles are not.
fn in_lower_case(name: &str) -> String {
    let lower = name.to_ascii_lowercase();
    if is_name(&lower) { format!("did you mean `{lower}`? ") } else { String::new() }
}

fn known(name: &str, all: &[&str], what: &str) -> String {
    format!("{}{what}: {}", did_you_mean(name, all.iter().copied()), all.join(", "))
}
