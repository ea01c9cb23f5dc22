//! The option `--gpu-tune` in srun, sbatch and salloc: what it says, where else it may come from, and what happens to a
//! wrong one before anything is allocated.
//!
//! The command line beats what sbatch or salloc left for the steps inside, which beats `GPU_TUNE`, which beats `default=` of
//! plugstack.conf. Slurm does most of that itself once `GPU_TUNE` is in the variable it uses for options.
#![forbid(unsafe_code)]

use crate::logging::{help, user_line};
use crate::spank::own_env;
use gpu_tune_engine::profile::{Catalog, Profile, ProfileError};
use gpu_tune_engine::spec::{Choice, SiteConfig, Spec, USER_VARIABLE};
use gpu_tune_engine::text::chain;
use std::ffi::{CStr, OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The option's name.
pub(crate) const NAME: &CStr = c"gpu-tune";
/// What `--help` calls its value.
pub(crate) const ARGUMENT: &CStr = c"PROFILE[+LAYER..][,KEY[=VALUE]..]";
/// What `--help` says about it.
pub(crate) const USAGE: &CStr = c"start every GPU rank with this profile's environment, pinned next to its GPU. \
    Profiles: auto, off, or one that --gpu-tune=list prints. Keys: verbose, dry-run, bind=exclusive|numa|socket|off, \
    mem=preferred|bind|off, smt=all|one, env=off, workers=off, rendezvous=auto|on|off. GPU_TUNE means the same";

/// The variable by which Slurm hands on an option of ours: `SLURM_SPANK_` and the plugin's and the option's name.
pub(crate) const SLURM_VARIABLE: &str = "SLURM_SPANK__SLURM_SPANK_OPTION_gpu_tune_gpu_tune";

/// Whether srun may go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Fine,
    Refused,
}

/// What this process knows about the option.
#[derive(Debug, Default)]
struct Known {
    /// The words of plugstack.conf; `None` before `init` and when they are wrong: then nothing is judged.
    site: Option<SiteConfig>,
    /// The latest text.
    text: Option<OsString>,
    /// The text that sbatch or salloc left, until Slurm has handed it to us.
    inherited: Option<OsString>,
    /// What is wrong with it. Not told before the command line had its turn, which may replace it.
    doubt: Option<String>,
    /// [`SLURM_VARIABLE`] holds what we put there.
    stood_in: bool,
}

static KNOWN: Mutex<Known> =
    Mutex::new(Known { site: None, text: None, inherited: None, doubt: None, stood_in: false });

/// Slurm's calls do not overlap; a panic in one of them must not silence the others.
fn known() -> MutexGuard<'static, Known> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The text that counts: the last one that Slurm handed over.
pub(crate) fn text() -> Option<OsString> {
    known().text.clone()
}

/// Whether this program's step will be tuned, before Slurm has read its command line: told by the variables, or by an option
/// among the words. Only a guess, for what must happen before Slurm reads its own variables.
pub(crate) fn is_likely(by_default: bool) -> bool {
    let of_words = || {
        let mut words = std::env::args_os().skip(1).peekable();
        std::iter::from_fn(move || words.next().map(|word| (word, words.peek().cloned()))).find_map(|(word, next)| {
            let word = word.into_string().ok()?;
            let rest = word.strip_prefix("--gpu-tune")?;
            match rest.strip_prefix('=') {
                Some(text) => Some(OsString::from(text)),
                None if rest.is_empty() => next,
                None => None,
            }
        })
    };
    let of_variables = || [SLURM_VARIABLE, USER_VARIABLE].iter().find_map(std::env::var_os);
    let text = of_words().or_else(of_variables);
    text.map_or(by_default, |text| text != "off")
}

/// Gets ready for the option of srun, sbatch or salloc.
pub(crate) fn offer(site: Option<SiteConfig>) {
    stand_in();
    known().site = site;
}

/// Lets `GPU_TUNE` stand for the option, unless an option was left to us.
fn stand_in() {
    let mut known = known();
    match (std::env::var_os(SLURM_VARIABLE), std::env::var_os(USER_VARIABLE)) {
        // A heterogeneous job calls `init` once per component: the variable may be our own.
        (Some(_), _) if known.stood_in => {}
        (Some(text), _) => known.inherited = Some(text),
        (None, Some(text)) if !text.is_empty() => {
            own_env::set(SLURM_VARIABLE, &text);
            known.stood_in = true;
        }
        (None, _) => {}
    }
}

/// Takes the option's text. On the compute node it is only kept: nothing printed there would be seen yet.
pub(crate) fn given(text: &OsStr, on_node: bool) -> Verdict {
    let (site, inherited) = {
        let mut known = known();
        known.text = Some(text.to_owned());
        known.doubt = None;
        (known.site.clone(), known.inherited.take())
    };
    match site {
        _ if on_node => Verdict::Fine,
        Some(site) => judge(text, &site, inherited.as_deref() == Some(text)),
        // Whoever asks for the list gets it, and does not start a job, also where plugstack.conf has a wrong word.
        None if text == "list" => list_and_stop(&SiteConfig::default()),
        None => Verdict::Fine,
    }
}

/// A job must not fail because a profile was removed while it was queued: what was inherited is warned about only.
fn judge(text: &OsStr, site: &SiteConfig, inherited: bool) -> Verdict {
    let Err((message, advice)) = check(text, site) else { return Verdict::Fine };
    if inherited {
        known().doubt = Some(message);
        return Verdict::Fine;
    }
    log::error!("{message}");
    help(advice.as_deref());
    Verdict::Refused
}

/// All options were read: tells what is wrong with an inherited one that nothing replaced.
pub(crate) fn are_read() {
    if let Some(message) = known().doubt.take() {
        log::warn!("{message}");
        user_line!("note: the value was inherited from the job; its steps go on without it");
    }
}

fn check(text: &OsStr, site: &SiteConfig) -> Result<(), (String, Option<String>)> {
    let spec = Spec::from_bytes(text.as_bytes()).map_err(|error| (error.to_string(), error.help()))?;
    match spec.profile {
        Choice::Off => return Ok(()),
        Choice::List => list_and_stop(site),
        Choice::Auto | Choice::Named(_) => {}
    }
    let (catalog, notices) = Catalog::load(&site.profile_dir);
    match catalog.check(&spec, site) {
        // What cannot be read here may be there on the compute node, where root reads it.
        Err(error) if !notices.is_empty() || error.is_denied() => {
            log::warn!("cannot check the profile here: {}", chain(&error));
            notices.iter().for_each(|notice| user_line!("note: {}", notice.message));
            help(error.help().as_deref().filter(|_| error.is_denied()));
            Ok(())
        }
        other => other.map_err(|error| (chain(&error), error.help())),
    }
}

/// `--gpu-tune=list`.
#[expect(clippy::exit, reason = "like `srun --help`: the answer is printed, nothing is to be started")]
fn list_and_stop(site: &SiteConfig) -> ! {
    let (catalog, notices) = Catalog::load(&site.profile_dir);
    let line = |(name, usable): (&str, Result<&Profile, ProfileError>)| match usable {
        Ok(profile) if profile.layer => format!("+{name:<15} {}\n", profile.description),
        Ok(profile) => format!("{name:<16} {}\n", profile.description),
        Err(error) => format!("{name:<16} cannot be used: {}\n", chain(&error)),
    };
    let lines: String = catalog.offered(site).map(line).collect();
    notices.iter().for_each(crate::logging::warn_user);
    let printed = std::io::stdout().write_all(lines.as_bytes());
    std::process::exit(i32::from(printed.is_err()))
}
