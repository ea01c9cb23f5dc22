//! Tells the profile from the command.

use crate::{CliError, wish};
use gpu_tune_engine::profile::Catalog;
use gpu_tune_engine::spec::{Choice, SiteConfig, Spec, is_name};
use gpu_tune_engine::text::shown;
use std::ffi::OsString;

/// The profile asked for, and the command's words. `variable` is the text of `GPU_TUNE`.
pub(super) fn split<'a>(
    words: &'a [OsString],
    variable: Option<&str>,
    catalog: &Catalog,
    site: &SiteConfig,
) -> Result<(Spec, &'a [OsString]), CliError> {
    let (first, rest) = words.split_first().ok_or_else(no_command)?;
    let text = first.to_str().unwrap_or_default();
    let (spec, command) = match rest.split_first() {
        // `PROFILE -- COMMAND`: what stands first must be one.
        Some((dashes, command)) if dashes == "--" => (parse(text, catalog, site)?, command),
        _ => match parse(text, catalog, site) {
            Ok(spec) => (spec, rest),
            // `h20,verbose train.py` is no command, `train.py` is no profile.
            Err(error) if text.contains([',', '+']) && !text.contains('/') => return Err(error),
            Err(_) => match variable.filter(|text| !text.is_empty()) {
                Some(text) => (parse(text, catalog, site).map_err(|error| error.within("`GPU_TUNE`"))?, words),
                None => (Spec::named("auto"), words),
            },
        },
    };
    if spec.profile == Choice::List {
        return Err(CliError::usage("`list` starts no command").with_help("see `gpu-tune profile list`".to_owned()));
    }
    let dashes = rest.first().is_some_and(|word| word == "--");
    match command.first() {
        None => Err(no_command()),
        Some(option) if option.as_encoded_bytes().starts_with(b"-") && !dashes => {
            let message = format!("`{}` is no command", shown(&option.to_string_lossy()));
            Err(CliError::usage(message).with_help("options of gpu-tune stand before the profile".to_owned()))
        }
        Some(_) => Ok((spec, command)),
    }
}

/// What to do about a command that cannot be started: its name may have been meant for a profile's.
pub(super) fn instead(words: &[OsString], program: &OsString) -> Option<String> {
    let first = words.first().filter(|first| *first == program)?.to_str()?;
    let meant = is_name(&first.to_ascii_lowercase());
    meant.then(|| format!("`{first}` is no profile either: `gpu-tune profile list` names them"))
}

fn parse(text: &str, catalog: &Catalog, site: &SiteConfig) -> Result<Spec, CliError> {
    let spec = wish::spec(text)?;
    catalog.check(&spec, site).map_err(wish::refused)?;
    Ok(spec)
}

fn no_command() -> CliError {
    CliError::usage("no command is given").with_help("write `gpu-tune exec [PROFILE] [--] COMMAND`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The profile and the command, or the message.
    fn told(line: &str) -> Result<(String, String), String> {
        told_with(None, line)
    }

    fn told_with(variable: Option<&str>, line: &str) -> Result<(String, String), String> {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let (spec, command) =
            split(&words, variable, &Catalog::builtin(), &SiteConfig::default()).map_err(|error| error.to_string())?;
        let command: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
        Ok((spec.to_string(), command.join(" ")))
    }

    fn check(line: &str, profile: &str, command: &str) {
        assert_eq!(told(line), Ok((profile.to_owned(), command.to_owned())), "{line}");
    }

    #[test]
    fn the_first_word_is_a_profile_if_it_names_one() {
        check("h200 torchrun --nnodes 2 t.py", "h200", "torchrun --nnodes 2 t.py");
        check("h200,verbose -- t.py -- x", "h200,verbose", "t.py -- x");
        check("off python t.py", "off", "python t.py");
        check("auto -- h200", "auto", "h200");
        check("auto -- -odd", "auto", "-odd");
    }

    #[test]
    fn otherwise_it_is_the_command() {
        check("torchrun t.py", "auto", "torchrun t.py");
        check("./h200,x t.py", "auto", "./h200,x t.py");
    }

    #[test]
    fn the_variable_stands_for_a_profile_that_is_not_named() {
        let of = |text: &str, line: &str| told_with(Some(text), line).map(|(profile, _)| profile);
        assert_eq!(of("h100,verbose", "t.py"), Ok("h100,verbose".to_owned()));
        assert_eq!(of("off", "t.py"), Ok("off".to_owned()));
        assert_eq!(of("h100", "h200 t.py"), Ok("h200".to_owned()));
        assert_eq!(of("", "t.py"), Ok("auto".to_owned()));
        assert_eq!(of("h20", "t.py"), Err("`GPU_TUNE`: unknown profile `h20`".to_owned()));
        assert_eq!(of("h20", "h200 t.py"), Ok("h200".to_owned()));
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for (line, message) in [
            ("h200", "no command is given"),
            ("h200 --", "no command is given"),
            ("nosuch -- t.py", "unknown profile `nosuch`"),
            ("h20,verbose t.py", "unknown profile `h20`"),
            ("h200,nosuch t.py", "unknown key `nosuch`"),
            ("list t.py", "`list` starts no command"),
            ("h200 --topology f env", "`--topology` is no command"),
        ] {
            assert_eq!(told(line), Err(message.to_owned()), "{line}");
        }
    }
}
