//! The option's text, `PROFILE[+LAYER…][,KEY[=VALUE]…]`, and the admin's words in `plugstack.conf`, as data.
//!
//! The same grammar reads the command line, `GPU_TUNE` and `default=`. It is strict: what comes from a user is taken only
//! if every byte of it is expected, and nothing is cut to fit. Which profiles exist is not known here: see
//! [`crate::profile::Catalog::check`].
#![forbid(unsafe_code)]

mod error;
mod keys;
mod parse;
mod site;

pub use error::SpecError;
pub(crate) use keys::one_of;
pub use keys::{CpuPolicy, Keys, MemPolicy, Rendezvous, Smt, Word};
pub use parse::{LAYERS_MAX, NAME_MAX, OPTION_MAX, RESERVED, is_name};
pub use site::{Lock, SiteConfig};

use std::fmt;

/// The variable that a user sets instead of the option.
pub const USER_VARIABLE: &str = "GPU_TUNE";

/// What the option says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// Which profile.
    pub profile: Choice,
    /// Layers to put on top, in the order given.
    pub layers: Vec<String>,
    /// The rest.
    pub keys: Keys,
}

/// The first word of the option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// A profile by its name.
    Named(String),
    /// `auto`: by GPU model, decided on the compute node.
    Auto,
    /// `off`: leave everything alone.
    Off,
    /// `list`: print the profiles and stop.
    List,
}

impl Spec {
    /// A profile without layers and keys.
    pub fn named(profile: &str) -> Self {
        let profile = match profile {
            "auto" => Choice::Auto,
            "off" => Choice::Off,
            "list" => Choice::List,
            name => Choice::Named(name.to_owned()),
        };
        Self { profile, layers: Vec::new(), keys: Keys::default() }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Named(name) => name,
            Self::Auto => "auto",
            Self::Off => "off",
            Self::List => "list",
        })
    }
}

impl fmt::Display for Spec {
    /// The canonical text: keys in a fixed order. Reading it gives an equal [`Spec`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.profile)?;
        for layer in &self.layers {
            write!(f, "+{layer}")?;
        }
        write!(f, "{}", self.keys)
    }
}
