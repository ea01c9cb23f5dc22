//! Reads the option's text.

use super::{Choice, CpuPolicy, Keys, MemPolicy, Rendezvous, Smt, Spec, SpecError, Word};
use crate::text::shown;
use std::str::FromStr;

/// The most bytes of an option.
pub const OPTION_MAX: usize = 1024;
/// The most bytes of a profile's or layer's name.
pub const NAME_MAX: usize = 64;
/// The most layers.
pub const LAYERS_MAX: usize = 16;
/// First words with a meaning of their own: no profile can have such a name.
pub const RESERVED: &[&str] = &["auto", "off", "list"];

/// Every key, as it is written.
pub(super) const KEYS: &[&str] = &["verbose", "dry-run", "bind", "mem", "smt", "env", "workers", "rendezvous"];

/// Whether a text can be the name of a profile or layer: `[a-z0-9][a-z0-9_.-]*`, at most [`NAME_MAX`] bytes. Such a name is
/// also a harmless file name.
pub fn is_name(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_.-".contains(&byte);
    let begins = text.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    begins && text.len() <= NAME_MAX && text.bytes().all(inner)
}

impl Spec {
    /// Reads what C gave.
    pub fn from_bytes(text: &[u8]) -> Result<Self, SpecError> {
        if text.len() > OPTION_MAX {
            return Err(SpecError::TooLong(text.len()));
        }
        std::str::from_utf8(text).map_err(|_| SpecError::NotText)?.parse()
    }
}

impl FromStr for Spec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        if text.len() > OPTION_MAX {
            return Err(SpecError::TooLong(text.len()));
        }
        let mut parts = text.split(',');
        let (profile, layers) = names(parts.next().unwrap_or_default())?;
        let mut spec = Self { layers, ..Self::named(&profile) };
        let mut seen = Vec::new();
        for part in parts {
            key(part, &mut spec.keys, &mut seen)?;
        }
        alone(&spec)?;
        Ok(spec)
    }
}

/// `PROFILE[+LAYER…]`.
fn names(text: &str) -> Result<(String, Vec<String>), SpecError> {
    let mut names = text.split('+');
    let profile = match names.next() {
        None | Some("") => return Err(SpecError::NoProfile),
        Some(name) => checked(name)?,
    };
    let mut layers: Vec<String> = Vec::new();
    for layer in names {
        let layer = layer_name(layer)?;
        if layers.contains(&layer) {
            return Err(SpecError::LayerTwice(layer));
        }
        layers.push(layer);
    }
    if layers.len() > LAYERS_MAX { Err(SpecError::TooManyLayers) } else { Ok((profile, layers)) }
}

pub(super) fn checked(name: &str) -> Result<String, SpecError> {
    if is_name(name) { Ok(name.to_owned()) } else { Err(SpecError::BadName(shown(name))) }
}

pub(super) fn layer_name(name: &str) -> Result<String, SpecError> {
    if RESERVED.contains(&name) { Err(SpecError::ReservedLayer(name.to_owned())) } else { checked(name) }
}

/// `KEY[=VALUE]`.
fn key<'a>(part: &'a str, keys: &mut Keys, seen: &mut Vec<&'a str>) -> Result<(), SpecError> {
    let (name, value) = part.split_once('=').map_or((part, None), |(name, value)| (name, Some(value)));
    if seen.contains(&name) {
        return Err(SpecError::KeyTwice(shown(name)));
    }
    seen.push(name);
    match name {
        "verbose" => keys.verbose = bare("verbose", value)?,
        "dry-run" => keys.dry_run = bare("dry-run", value)?,
        "bind" => keys.bind = Some(word::<CpuPolicy>("bind", value)?),
        "mem" => keys.mem = Some(word::<MemPolicy>("mem", value)?),
        "smt" => keys.smt = Some(word::<Smt>("smt", value)?),
        "env" => keys.env_off = only_off("env", value)?,
        "workers" => keys.workers_off = only_off("workers", value)?,
        "rendezvous" => keys.rendezvous = Some(word::<Rendezvous>("rendezvous", value)?),
        _ => return Err(SpecError::UnknownKey(shown(name))),
    }
    Ok(())
}

fn bare(key: &'static str, value: Option<&str>) -> Result<bool, SpecError> {
    if value.is_some() { Err(SpecError::NoValue(key)) } else { Ok(true) }
}

fn word<T: Word>(key: &'static str, value: Option<&str>) -> Result<T, SpecError> {
    let value = value.unwrap_or_default();
    T::from_word(value).ok_or_else(|| SpecError::BadValue { key, value: shown(value), expected: T::expected() })
}

fn only_off(key: &'static str, value: Option<&str>) -> Result<bool, SpecError> {
    match value {
        Some("off") => Ok(true),
        _ => Err(SpecError::BadValue { key, value: shown(value.unwrap_or_default()), expected: "`off`".to_owned() }),
    }
}

/// `off` and `list` stand alone.
fn alone(spec: &Spec) -> Result<(), SpecError> {
    let word = match spec.profile {
        Choice::Off => "off",
        Choice::List => "list",
        Choice::Named(_) | Choice::Auto => return Ok(()),
    };
    if spec.layers.is_empty() && spec.keys == Keys::default() { Ok(()) } else { Err(SpecError::Alone(word)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Spec {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn said(text: &str) -> (String, String) {
        let error = text.parse::<Spec>().expect_err(text);
        (error.to_string(), error.help().unwrap_or_default())
    }

    #[test]
    fn a_profile_with_layers_and_keys_is_read_and_written_back() {
        let every =
            "h200+megatron-tp+roce,verbose,dry-run,bind=numa,mem=bind,smt=one,env=off,workers=off,rendezvous=on";
        for text in ["h200", "auto", "off", "list", "auto+ib,verbose", every] {
            assert_eq!(read(text).to_string(), text);
        }
        let spec = read(every);
        assert_eq!(spec.profile, Choice::Named("h200".into()));
        assert_eq!(spec.layers, ["megatron-tp", "roce"]);
        assert_eq!(spec.keys.bind, Some(CpuPolicy::Numa));
        assert_eq!(spec.keys.mem, Some(MemPolicy::Bind));
        assert_eq!(spec.keys.smt, Some(Smt::One));
        assert_eq!(spec.keys.rendezvous, Some(Rendezvous::On));
        assert!(spec.keys.verbose && spec.keys.dry_run && spec.keys.env_off && spec.keys.workers_off);
    }

    #[test]
    fn the_canonical_text_has_the_keys_in_one_order() {
        assert_eq!(read("h200,mem=off,verbose,bind=off").to_string(), "h200,verbose,bind=off,mem=off");
    }

    #[test]
    fn a_key_that_does_not_exist_is_named_with_the_nearest_one() {
        let (message, help) = said("h200,verbos");
        assert_eq!(message, "unknown key `verbos`");
        assert_eq!(help, "did you mean `verbose`? keys: verbose, dry-run, bind, mem, smt, env, workers, rendezvous");
    }

    #[test]
    fn a_value_that_is_no_word_is_refused_with_the_words() {
        let (message, help) = said("h200,bind=core");
        assert_eq!(message, "`bind=core` is not understood");
        assert_eq!(help, "`bind` is `exclusive`, `numa`, `socket` or `off`");
        assert_eq!(said("h200,bind").0, "`bind=` is not understood");
        assert_eq!(said("h200,env=on"), ("`env=on` is not understood".into(), "`env` is `off`".into()));
        assert_eq!(said("h200,verbose=1").0, "the key `verbose` takes no value");
    }

    #[test]
    fn what_no_grammar_has_is_refused_whole() {
        for (text, message) in [
            ("", "no profile is named"),
            (",verbose", "no profile is named"),
            ("+ib", "no profile is named"),
            ("H200", "`H200` cannot be the name of a profile or layer"),
            ("../etc", "`../etc` cannot be the name of a profile or layer"),
            ("-h", "`-h` cannot be the name of a profile or layer"),
            ("h200 ", "`h200 ` cannot be the name of a profile or layer"),
            ("h200\n", "`h200\\n` cannot be the name of a profile or layer"),
            ("h200+", "`` cannot be the name of a profile or layer"),
            ("h200+off", "`off` cannot be a layer"),
            ("h200+ib+ib", "the layer `ib` is named twice"),
            ("h200,", "unknown key ``"),
            ("h200,verbose,verbose", "the key `verbose` is given twice"),
            ("off,verbose", "`off` takes no layer and no key"),
            ("list+ib", "`list` takes no layer and no key"),
        ] {
            assert_eq!(said(text).0, message, "{text:?}");
        }
    }

    #[test]
    fn bounds_refuse_instead_of_cutting() {
        assert!(is_name(&"a".repeat(NAME_MAX)) && !is_name(&"a".repeat(NAME_MAX + 1)));
        assert_eq!("a".repeat(2000).parse::<Spec>(), Err(SpecError::TooLong(2000)));
        let layers: String = (0..=LAYERS_MAX).map(|n| format!("+l{n}")).collect();
        assert_eq!(format!("h200{layers}").parse::<Spec>(), Err(SpecError::TooManyLayers));
        assert_eq!(Spec::from_bytes(b"h200\xff"), Err(SpecError::NotText));
        assert_eq!(Spec::from_bytes(b"h200"), Ok(Spec::named("h200")));
    }
}
