//! The profiles that come with gpu-tune: the files of `profiles/`, embedded.

macro_rules! builtin {
    ($($name:literal),* $(,)?) => {
        /// Name and text of each.
        pub(super) const BUILTIN: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../../../profiles/", $name, ".toml")))),*];
    };
}

builtin!["base", "classic", "h100", "h200"];
