//! `auto`: the profile by GPU model.

use super::{Catalog, Facts, Profile, ProfileError};
use crate::text::{chain, shown};
use crate::{Code, Notice};

/// The profile when no other fits.
const FALLBACK: &str = "base";

/// The profile that is for all of the step's GPUs; [`FALLBACK`] for mixed or unknown models, with the reason. A file of the
/// admin's that cannot be used may have been the one: that is told, and with `strict` it is an error.
pub(super) fn pick(catalog: &Catalog, facts: &Facts, strict: bool) -> Result<(String, Vec<Notice>), ProfileError> {
    let mut models: Vec<&str> = facts.gpus.iter().map(String::as_str).collect();
    models.sort_unstable();
    models.dedup();
    let mut picks: Vec<Option<&str>> = models.iter().map(|model| for_model(catalog, model)).collect();
    picks.sort_unstable();
    picks.dedup();
    let reason = match picks.as_slice() {
        [Some(name)] => return Ok(((*name).to_owned(), Vec::new())),
        [] => return Ok((FALLBACK.to_owned(), Vec::new())),
        [None] if models.iter().all(|model| model.is_empty()) => "the GPU model is not known".to_owned(),
        [None] => format!("no profile is for {}", quoted(&models)),
        _ => format!("the GPUs are mixed: {}", quoted(&models)),
    };
    let unusable = catalog
        .entries()
        .filter(|(_, entry)| !entry.source().builtin)
        .filter_map(|(name, _)| catalog.lineage(name).err());
    let mut notices = Vec::new();
    for error in unusable {
        if strict {
            return Err(error);
        }
        notices.push(Notice::new(Code::Profile, chain(&error)).help_if(error.help()));
    }
    notices.push(Notice::new(Code::Profile, format!("`auto` takes `{FALLBACK}`: {reason}")));
    Ok((FALLBACK.to_owned(), notices))
}

/// The profile whose own `gpu` says most about a model. The admin's files come before built-in ones, the name decides last.
pub(super) fn for_model<'c>(catalog: &'c Catalog, model: &str) -> Option<&'c str> {
    let fitting = |name: &'c str, profile: &Profile| {
        let weight = profile.gpu.iter().filter(|glob| glob.fits_model(model)).map(super::Glob::weight).max();
        weight.map(|weight| (!profile.source.builtin, weight, std::cmp::Reverse(name)))
    };
    catalog
        .entries()
        .filter_map(|(name, entry)| Some((name, entry.profile(name).ok()?)))
        .filter(|(_, profile)| !profile.layer && !model.is_empty())
        .filter_map(|(name, profile)| fitting(name, profile))
        .max()
        .map(|(_, _, name)| name.0)
}

fn quoted(models: &[&str]) -> String {
    let word =
        |model: &&str| if model.is_empty() { "an unknown one".to_owned() } else { format!("`{}`", shown(model)) };
    models.iter().map(word).collect::<Vec<_>>().join(", ")
}
