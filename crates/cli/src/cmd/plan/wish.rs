//! What the user wishes: the profile's text with the options on top, resolved for this machine.

use super::Args;
use crate::CliError;
use gpu_tune_engine::machine::Nic;
use gpu_tune_engine::profile::{Catalog, Facts, ProfileError, Resolved};
use gpu_tune_engine::spec::{Choice, SiteConfig, Spec, SpecError};
use gpu_tune_engine::{Machine, Notice};

/// Reads the first argument; the options win over its keys.
pub(super) fn spec(args: &Args) -> Result<Spec, CliError> {
    let refused = |error: SpecError| CliError::usage(error.to_string()).with_help(error.help());
    let mut spec: Spec = args.profile.parse().map_err(refused)?;
    if matches!(spec.profile, Choice::Off | Choice::List) {
        return Err(CliError::usage(format!("`{}` is no profile to plan with", spec.profile)));
    }
    spec.keys.bind = args.bind.or(spec.keys.bind);
    spec.keys.mem = args.mem.or(spec.keys.mem);
    spec.keys.smt = args.smt.or(spec.keys.smt);
    Ok(spec)
}

/// The profiles to choose from. With `--topology` only a directory that is named counts as given; this node's own does not.
pub(super) fn catalog(args: &Args) -> (Catalog, Vec<Notice>) {
    match &args.profile_dir {
        Some(dir) => Catalog::load(dir),
        None if args.source.topology.is_some() => (Catalog::builtin(), Vec::new()),
        None => Catalog::load(&SiteConfig::default().profile_dir),
    }
}

/// A profile that does not exist is the user's mistake, as in `srun`; one that is broken is not.
pub(super) fn check(catalog: &Catalog, spec: &Spec, site: &SiteConfig) -> Result<(), CliError> {
    catalog.check(spec, site).map_err(refused)
}

/// What the profile comes to.
pub(super) fn resolve(catalog: &Catalog, spec: &Spec, site: &SiteConfig, facts: &Facts) -> Result<Resolved, CliError> {
    let resolved = catalog.resolve(spec, site, facts).map_err(refused)?;
    resolved.ok_or_else(|| CliError::nothing(format!("`{}` leaves every step alone", spec.profile)))
}

fn refused(error: ProfileError) -> CliError {
    let help = error.help();
    match error {
        ProfileError::Unknown { .. } => CliError::usage(error.to_string()),
        other => CliError::refused("cannot use the profile", other),
    }
    .with_help(help)
}

/// The admin's words, as far as a plan needs them.
pub(super) fn site(args: &Args) -> SiteConfig {
    SiteConfig { fabric: args.fabric.clone(), ..SiteConfig::default() }
}

/// What conditions may ask. A file does not tell the architecture.
pub(super) fn facts(args: &Args, machine: &Machine, gpus: &[usize], tasks: u32) -> Facts {
    let model = |gpu: &usize| machine.gpus.get(*gpu).and_then(|gpu| gpu.model.clone()).unwrap_or_default();
    let arch = if args.source.topology.is_some() { "" } else { std::env::consts::ARCH };
    Facts {
        gpus: gpus.iter().map(model).collect(),
        nodes: Some(args.nodes),
        tasks_per_node: Some(tasks),
        link_layers: machine.nics.iter().filter(|nic| nic.active()).filter_map(Nic::link_layer).collect(),
        container: false,
        arch: arch.to_owned(),
        slurm_version: None,
    }
}
