//! What every verb does that takes a profile: find the profiles there are, and hold one against this node or a file.

use crate::CliError;
use crate::source::absolute;
use gpu_tune_engine::env::{NCCL_CONF, NcclConf};
use gpu_tune_engine::fabric::Fabric;
use gpu_tune_engine::launch::ours;
use gpu_tune_engine::profile::{Catalog, Facts, ProfileError};
use gpu_tune_engine::spec::{Choice, SiteConfig, Spec, SpecError};
use gpu_tune_engine::tune::{self, Host, Tuned};
use gpu_tune_engine::{Code, Machine, Notice};
use std::collections::BTreeMap;
use std::path::Path;

/// The profiles to choose from. For a machine in a file only a directory that is named counts; this node's own does not.
pub fn catalog(dir: Option<&Path>, replayed: bool) -> (Catalog, Vec<Notice>) {
    match dir {
        Some(dir) => catalog_of(dir),
        None if replayed => (Catalog::builtin(), Vec::new()),
        None => Catalog::load(&SiteConfig::default().profile_dir),
    }
}

/// Who names a directory hears it if it is not there; he may name it from where he is.
fn catalog_of(dir: &Path) -> (Catalog, Vec<Notice>) {
    let dir = absolute(dir);
    let (catalog, mut notices) = Catalog::load(&dir);
    if !dir.exists() {
        let message = format!("`{}` is not there: only built-in profiles are used", dir.display());
        notices.push(Notice::new(Code::Profile, message));
    }
    (catalog, notices)
}

/// Reads what would stand behind `--gpu-tune=`.
pub fn spec(text: &str) -> Result<Spec, CliError> {
    text.parse().map_err(|error: SpecError| CliError::usage(error.to_string()).with_help(error.help()))
}

/// The same, where there must be something to show.
pub fn profile(text: &str) -> Result<Spec, CliError> {
    let spec = spec(text)?;
    match spec.profile {
        Choice::Off | Choice::List => {
            let help = "`gpu-tune profile list` names them".to_owned();
            Err(CliError::usage(format!("`{}` is no profile", spec.profile)).with_help(help))
        }
        Choice::Named(_) | Choice::Auto => Ok(spec),
    }
}

/// Whether what is named can be used, `--fabric` included.
pub fn check(catalog: &Catalog, spec: &Spec, site: &SiteConfig) -> Result<(), CliError> {
    catalog.check(spec, site).map_err(refused)?;
    fabric(catalog, site)
}

/// Whether `--fabric` can be used. In a job a wrong `fabric=` is told and passed over: it is not the user's fault there.
pub fn fabric(catalog: &Catalog, site: &SiteConfig) -> Result<(), CliError> {
    let known = |layer: &String| catalog.lineage(layer).map(drop);
    site.fabric.iter().try_for_each(known).map_err(|error| refused(error).within("`--fabric`"))
}

/// A profile that does not exist is the user's mistake, as in `srun`; one that is broken is not.
pub fn refused(error: ProfileError) -> CliError {
    let help = error.help();
    match error {
        ProfileError::Unknown { .. } => CliError::usage(error.to_string()),
        other => CliError::refused("cannot use the profile", other),
    }
    .with_help(help)
}

/// What conditions may ask. A file does not tell the architecture.
pub fn facts(replayed: bool, machine: &Machine, gpus: &[usize], nodes: u32, tasks: u32) -> Facts {
    let arch = if replayed { "" } else { std::env::consts::ARCH };
    Facts {
        gpus: machine.models(gpus),
        nodes: Some(nodes),
        tasks_per_node: Some(tasks),
        arch: arch.to_owned(),
        ..Facts::default()
    }
}

/// What the profile comes to, with what becomes of each variable. On this node what is exported here counts as the user's
/// own.
pub fn tune(
    replayed: bool,
    (catalog, spec, site): (&Catalog, &Spec, &SiteConfig),
    facts: Facts,
    machine: &Machine,
) -> Result<Tuned, CliError> {
    // A file that others could have written does not count, as in a job.
    let nccl_conf = || NcclConf::load(Path::new(NCCL_CONF)).unwrap_or_default();
    // Inside a job some of it is gpu-tune's own, and does not count.
    let ours: BTreeMap<_, _> = ours::undo(|name| std::env::var_os(name)).into_iter().collect();
    let exported = |name: &str| ours.get(name).cloned().unwrap_or_else(|| std::env::var_os(name));
    let host = Host {
        user: &|name| if replayed { None } else { exported(name) },
        nccl_conf: &if replayed { NcclConf::default() } else { nccl_conf() },
        fabric: &|| if replayed { Fabric::of_machine(&machine.nics) } else { Fabric::read(Path::new("/")) },
    };
    let tuned = tune::tune(catalog, spec, site, facts, &host).map_err(refused)?;
    tuned.ok_or_else(|| CliError::nothing(format!("`{}` leaves every step alone", spec.profile)))
}
