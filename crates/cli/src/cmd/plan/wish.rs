//! What the user wishes: the profile's text with the options on top, resolved for this machine.

use super::Args;
use crate::CliError;
use gpu_tune_engine::env::{NCCL_CONF, NCCL_CONF_MAX, NcclConf};
use gpu_tune_engine::fabric::Fabric;
use gpu_tune_engine::profile::{Catalog, Facts, ProfileError};
use gpu_tune_engine::spec::{Choice, SiteConfig, Spec, SpecError};
use gpu_tune_engine::tune::{self, Host, Tuned};
use gpu_tune_engine::{Machine, Notice, trusted};
use std::path::Path;

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

/// What the profile comes to, with what becomes of each variable. Outside `--topology` what is exported here counts as the
/// user's own.
pub(super) fn tune(
    args: &Args,
    (catalog, spec, site): (&Catalog, &Spec, &SiteConfig),
    facts: Facts,
    machine: &Machine,
) -> Result<Tuned, CliError> {
    let replayed = args.source.topology.is_some();
    let host = Host {
        user: &|name| if replayed { None } else { std::env::var_os(name) },
        nccl_conf: &if replayed { NcclConf::default() } else { nccl_conf() },
        fabric: &|| if replayed { Fabric::of_machine(&machine.nics) } else { Fabric::read(Path::new("/")) },
    };
    let tuned = tune::tune(catalog, spec, site, facts, &host).map_err(refused)?;
    tuned.ok_or_else(|| CliError::nothing(format!("`{}` leaves every step alone", spec.profile)))
}

/// This node's file, if root alone can have written it, as the plugin takes it.
fn nccl_conf() -> NcclConf {
    let bytes = trusted::read(Path::new(NCCL_CONF), NCCL_CONF_MAX).ok();
    bytes.map(|bytes| NcclConf::parse(&bytes)).unwrap_or_default()
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
        arch: arch.to_owned(),
        ..Facts::default()
    }
}
