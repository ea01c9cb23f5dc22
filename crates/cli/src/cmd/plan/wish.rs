//! What the user wishes: the profile's text with the options on top, resolved for this machine.

use super::Args;
use crate::{CliError, wish};
use gpu_tune_engine::profile::{Catalog, Facts};
use gpu_tune_engine::spec::{SiteConfig, Spec};
use gpu_tune_engine::tune::Tuned;
use gpu_tune_engine::{Machine, Notice};

/// Reads the first argument; the options win over its keys.
pub(super) fn spec(args: &Args) -> Result<Spec, CliError> {
    let mut spec = wish::profile(&args.profile)?;
    spec.keys.bind = args.bind.or(spec.keys.bind);
    spec.keys.mem = args.mem.or(spec.keys.mem);
    spec.keys.smt = args.smt.or(spec.keys.smt);
    Ok(spec)
}

/// The profiles to choose from.
pub(super) fn catalog(args: &Args) -> (Catalog, Vec<Notice>) {
    wish::catalog(args.profile_dir.as_deref(), args.source.topology.is_some())
}

/// What the profile comes to, with what becomes of each variable.
pub(super) fn tune(
    args: &Args,
    profile: (&Catalog, &Spec, &SiteConfig),
    facts: Facts,
    machine: &Machine,
) -> Result<Tuned, CliError> {
    wish::tune(args.source.topology.is_some(), profile, facts, machine)
}

/// The admin's words, as far as a plan needs them.
pub(super) fn site(args: &Args) -> SiteConfig {
    SiteConfig { fabric: args.fabric.clone(), ..SiteConfig::default() }
}

/// What conditions may ask.
pub(super) fn facts(args: &Args, machine: &Machine, gpus: &[usize], tasks: u32) -> Facts {
    wish::facts(args.source.topology.is_some(), machine, gpus, args.nodes, tasks)
}
