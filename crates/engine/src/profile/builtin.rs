//! The profiles that come with gpu-tune: the files of `profiles/`, embedded.

macro_rules! builtin {
    ($($name:literal),* $(,)?) => {
        /// Name and text of each.
        pub(super) const BUILTIN: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../../../profiles/", $name, ".toml")))),*];
    };
}

builtin![
    "a100",
    "b200",
    "b300",
    "base",
    "classic",
    "debug",
    "fsdp",
    "gb200",
    "gh200",
    "h100",
    "h200",
    "ib",
    "lowmem",
    "megatron-tp",
    "moe",
    "roce",
];
