//! The shim's part of `LD_PRELOAD`, and of the options of a library that minds it.
//!
//! The value is a list that spaces or colons separate (`man ld.so`). The shim comes last: who preloads something has a
//! reason to come first.
#![forbid(unsafe_code)]

use std::path::Path;

/// The shim's file name, by which it is found in a list, wherever it lies on another node.
pub const FILE: &str = "libgpu_tune_preload.so";

/// The variable.
pub const LD_PRELOAD: &str = "LD_PRELOAD";
/// AddressSanitizer's options. A program built with gcc's `-fsanitize=address` refuses to start if any library is loaded
/// before the sanitizer's own, unless it is told not to look.
pub const ASAN_OPTIONS: &str = "ASAN_OPTIONS";
const LET_US_BE: &str = "verify_asan_link_order";

/// The user's list with the shim behind it. `None` if the shim's path cannot stand in such a list.
pub fn with_shim(list: &str, shim: &Path) -> Option<String> {
    let shim = shim.to_str().filter(|path| path.starts_with('/') && !path.contains([' ', ':']))?;
    Some(if list.is_empty() { shim.to_string() } else { format!("{list}:{shim}") })
}

/// The list as it was before the shim came into it; `None` if the shim is not in it.
pub fn without_shim(list: &str) -> Option<String> {
    let is_shim = |entry: &str| entry.rsplit('/').next() == Some(FILE);
    if !list.split([' ', ':']).any(is_shim) {
        return None;
    }
    // Each entry keeps the separator before it, so that what is not ours stays as it was.
    let mut left = String::new();
    let mut rest = list;
    let mut separator = "";
    loop {
        let end = rest.find([' ', ':']).unwrap_or(rest.len());
        let (entry, tail) = rest.split_at_checked(end).unwrap_or((rest, ""));
        if !is_shim(entry) {
            left.push_str(separator);
            left.push_str(entry);
        }
        let Some((next, behind)) = tail.split_at_checked(1) else { break };
        (separator, rest) = (next, behind);
    }
    Some(left.trim_start_matches([' ', ':']).to_string())
}

/// AddressSanitizer's options with the one that lets the shim be; `None` if the user said something about that himself.
pub fn sanitizer_options(options: &str) -> Option<String> {
    match options {
        "" => Some(format!("{LET_US_BE}=0")),
        options if options.contains(LET_US_BE) => None,
        options => Some(format!("{options}:{LET_US_BE}=0")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHIM: &str = "/usr/lib/gpu-tune/libgpu_tune_preload.so";

    #[test]
    fn what_is_put_in_comes_out_and_leaves_the_rest() {
        for list in ["", "/a/libasan.so", "/a.so:/b.so", "/a.so /b.so", "libx.so", "/a.so:"] {
            let with = with_shim(list, Path::new(SHIM)).unwrap();
            assert!(with.ends_with(SHIM), "{with}");
            assert!(with.starts_with(list), "{with}");
            assert_eq!(without_shim(&with).unwrap(), list);
        }
    }

    #[test]
    fn the_shim_is_found_wherever_it_stands_and_lies() {
        for (list, left) in [
            ("/other/libgpu_tune_preload.so:/a.so", "/a.so"),
            ("/a.so:/other/libgpu_tune_preload.so:/b.so", "/a.so:/b.so"),
            ("/a.so libgpu_tune_preload.so", "/a.so"),
            ("/x/libgpu_tune_preload.so:/y/libgpu_tune_preload.so", ""),
        ] {
            assert_eq!(without_shim(list).as_deref(), Some(left), "{list}");
        }
    }

    #[test]
    fn a_list_without_the_shim_is_not_touched() {
        for list in ["", "/a.so", "/libgpu_tune_preload.so.bak", "/libgpu_tune_preload.so/x"] {
            assert_eq!(without_shim(list), None, "{list}");
        }
    }

    #[test]
    fn a_path_that_cannot_stand_in_a_list_is_refused() {
        for path in ["relative.so", "/with space/x.so", "/with:colon/x.so"] {
            assert_eq!(with_shim("", Path::new(path)), None, "{path}");
        }
    }

    #[test]
    fn the_sanitizers_own_users_word_stands() {
        assert_eq!(sanitizer_options("").as_deref(), Some("verify_asan_link_order=0"));
        assert_eq!(sanitizer_options("detect_leaks=0").as_deref(), Some("detect_leaks=0:verify_asan_link_order=0"));
        assert_eq!(sanitizer_options("verify_asan_link_order=1"), None);
    }
}
