//! Holds a user's option against the admin's `allow=` and `lock=`.
//!
//! This runs on the compute node: what `srun` sends can be forged, so what `srun` refused is refused here again.

use super::ProfileError;
use crate::spec::{Choice, Keys, Lock, SiteConfig, Spec};
use crate::{Code, Notice};

/// Whether the user may name what he named.
pub(super) fn allowed(spec: &Spec, site: &SiteConfig) -> Result<(), ProfileError> {
    let Some(allowed) = &site.allow else { return Ok(()) };
    let word = match &spec.profile {
        Choice::Named(name) => Some(name.clone()),
        Choice::Auto => Some("auto".to_owned()),
        Choice::Off | Choice::List => None,
    };
    let default = site.default.as_ref();
    // What the admin names himself needs no permission, where he names it: his layer in the profile's place would be a way
    // round the profile.
    let profile = |name: &String| default.is_some_and(|spec| spec.profile.to_string() == *name);
    let layer =
        |name: &String| site.fabric.as_ref() == Some(name) || default.is_some_and(|spec| spec.layers.contains(name));
    let refused = |name: &&String, own: bool| !allowed.contains(name) && !own;
    let first = word.as_ref().filter(|name| refused(name, profile(name)));
    match first.or_else(|| spec.layers.iter().find(|name| refused(name, profile(name) || layer(name)))) {
        Some(name) => Err(ProfileError::NotAllowed { name: name.clone(), allowed: allowed.clone() }),
        None => Ok(()),
    }
}

/// The option that counts: whatever is locked is as in `default=`, or as if not said. What was asked for in vain is told.
pub(super) fn effective(spec: &Spec, site: &SiteConfig) -> (Spec, Vec<Notice>) {
    let mut notices = Vec::new();
    let mut held = |what: &str, differs: bool| {
        if differs {
            notices.push(Notice::new(Code::Profile, format!("{what} is ignored: this cluster has locked it")));
        }
    };
    let mut out = spec.clone();
    if let (Some(default), Choice::Off, true) = (&site.default, &spec.profile, site.locked(Lock::Off)) {
        held("`off`", true);
        return (default.clone(), notices);
    }
    if let (Some(default), true) = (&site.default, site.locked(Lock::Profile) && spec.profile != Choice::Off) {
        held(&format!("profile `{}`", spec.profile), spec.profile != default.profile);
        out.profile.clone_from(&default.profile);
    }
    if site.locked(Lock::Layers) {
        let layers = site.default.as_ref().map(|default| default.layers.clone()).unwrap_or_default();
        held(&format!("`+{}`", spec.layers.join("+")), spec.layers != layers && !spec.layers.is_empty());
        out.layers = layers;
    }
    let keys = site.default.as_ref().map(|default| default.keys.clone()).unwrap_or_default();
    hold_keys(&mut out.keys, &keys, site, &mut held);
    (out, notices)
}

/// Puts the locked keys back to what `default=` says.
fn hold_keys(keys: &mut Keys, default: &Keys, site: &SiteConfig, held: &mut impl FnMut(&str, bool)) {
    macro_rules! hold {
        ($($lock:ident $field:ident $word:literal $unsaid:expr),* $(,)?) => {$(
            if site.locked(Lock::$lock) {
                held(concat!("`", $word, "`"), keys.$field != default.$field && keys.$field != $unsaid);
                keys.$field.clone_from(&default.$field);
            }
        )*};
    }
    // What dry-run would have printed is still printed.
    keys.verbose |= keys.dry_run && site.locked(Lock::DryRun);
    hold!(
        Bind bind "bind=" None,
        Mem mem "mem=" None,
        Smt smt "smt=" None,
        Env env_off "env=off" false,
        Workers workers_off "workers=off" false,
        Rendezvous rendezvous "rendezvous=" None,
        DryRun dry_run "dry-run" false,
    );
}
