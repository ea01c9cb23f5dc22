//! What the user wishes: the profile's text with the options on top.

use super::Args;
use crate::CliError;
use gpu_tune_engine::plan::Binding;
use gpu_tune_engine::spec::{Choice, Spec};

/// What the planner needs of a profile.
#[derive(Debug)]
pub(super) struct Wish {
    /// The profile's name, with its layers.
    pub(super) name: String,
    /// How to bind.
    pub(super) binding: Binding,
}

/// Reads the first argument; the options win over its keys.
pub(super) fn spec(args: &Args) -> Result<Spec, CliError> {
    let mut spec: Spec = args.profile.parse().map_err(|error: gpu_tune_engine::spec::SpecError| {
        CliError::usage(error.to_string()).with_help(error.help())
    })?;
    if matches!(spec.profile, Choice::Off | Choice::List) {
        return Err(CliError::usage(format!("`{}` is no profile to plan with", spec.profile)));
    }
    spec.keys.bind = args.bind.or(spec.keys.bind);
    spec.keys.mem = args.mem.or(spec.keys.mem);
    spec.keys.smt = args.smt.or(spec.keys.smt);
    Ok(spec)
}

/// What the profile comes to on this machine.
pub(super) fn resolve(spec: &Spec) -> Wish {
    let binding = Binding {
        cpu: spec.keys.bind.unwrap_or_default(),
        mem: spec.keys.mem.unwrap_or_default(),
        smt: spec.keys.smt.unwrap_or_default(),
        ..Binding::default()
    };
    Wish { name: spec.profile.to_string(), binding }
}
