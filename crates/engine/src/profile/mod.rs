//! Profiles: what the admin wishes, from TOML to the flat list of values that holds for one step.
//!
//! [`Catalog`] knows which profiles there are: those built in, and the files of the admin's directory. [`Catalog::resolve`]
//! puts inherited profiles, the fabric and the layers on top of each other, keeps what applies to this step's [`Facts`], and
//! hands back a [`Resolved`] in which every value still knows the file and line it came from. What becomes of each variable
//! next to the user's environment is decided in [`crate::env`].
//!
//! Only [`Catalog::load`] reads files, through [`crate::trusted`]; everything else is a pure function.
#![forbid(unsafe_code)]

mod auto;
mod builtin;
mod catalog;
mod check;
mod env_table;
mod error;
mod file;
mod finding;
mod flat;
mod glob;
mod import;
pub mod known;
mod lock;
mod refused;
mod resolve;
mod rule;
mod template;
mod toml_reader;
mod when;

pub use catalog::{Catalog, Entry};
pub use check::check;
pub use error::ProfileError;
pub use file::{BindPart, Import, Inherits, Memlock, Profile};
pub use finding::{Finding, Kind, Origin, Source};
pub use flat::Flat;
pub use glob::Glob;
pub use resolve::{Resolved, Skipped};
pub use rule::{Action, Rule};
pub use template::{Missing, Placeholder, Template};
pub use when::{Facts, When};

/// Bounds on what a profile may hold. Beyond them a file is refused, not cut.
pub mod bounds {
    /// Bytes of a file.
    pub const FILE: u64 = 256 * 1024;
    /// Files in the admin's directory.
    pub const FILES: usize = 1024;
    /// Variables in one file.
    pub const VARIABLES: usize = 256;
    /// Bytes of a variable's name.
    pub const NAME: usize = 128;
    /// Bytes of a value.
    pub const VALUE: usize = 4096;
    /// Items of any list.
    pub const LIST: usize = 64;
    /// Profiles that one inherits, directly and through others.
    pub const INHERITED: usize = 16;
}

#[cfg(test)]
mod tests;
