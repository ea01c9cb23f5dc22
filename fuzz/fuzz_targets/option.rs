//! The option's text, as it comes from a user, and the words of `plugstack.conf`.
#![no_main]

use gpu_tune_engine::spec::{LAYERS_MAX, OPTION_MAX, SiteConfig, Spec, SpecError, is_name};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    match Spec::from_bytes(data) {
        Ok(spec) => {
            assert!(data.len() <= OPTION_MAX && spec.layers.len() <= LAYERS_MAX);
            assert!(spec.layers.iter().all(|layer| is_name(layer)));
            assert_eq!(spec.to_string().parse::<Spec>().as_ref(), Ok(&spec), "its own text means the same");
        }
        Err(error) => tell(&error),
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    let words: Vec<&str> = text.split(' ').collect();
    match SiteConfig::parse(&words) {
        Ok(site) => {
            assert!(site.profile_dir.is_absolute() && site.state.is_absolute());
            assert!(site.command.is_absolute() && site.shim.is_absolute());
        }
        Err(error) => tell(&error),
    }
});

/// What is said about hostile text fits on a line and plays no tricks with a terminal.
fn tell(error: &SpecError) {
    let said = error.to_string() + &error.help().unwrap_or_default();
    assert!(said.len() < 4096 && !said.chars().any(char::is_control), "{said:?}");
}
