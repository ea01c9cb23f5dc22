//! The first host of a node list as Slurm prints it.
//!
//! Only that host is ever needed, to name the place where a step's processes meet, and of each bracket it takes the first
//! number: a few lines instead of a library that expands whole lists. The tests on a real Slurm compare the answers with
//! those of `scontrol show hostnames`.
#![forbid(unsafe_code)]

use crate::text::is_digits;

/// The longest name that the domain name system knows (RFC 1035, 2.3.4).
const LONGEST: usize = 255;

/// The first host of a list such as `n[001-004,7],gpu-a[1-2]b`. `None` if its first entry has not the form that Slurm
/// prints: letters, digits, `.`, `_` and `-`, between them brackets with numbers and ranges of them.
pub fn first(list: &str) -> Option<String> {
    let mut host = String::new();
    let mut rest = list;
    loop {
        let plain = rest.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(byte)).count();
        let (name, tail) = rest.split_at_checked(plain)?;
        host.push_str(name);
        match tail.bytes().next() {
            None | Some(b',') => break,
            Some(b'[') => {
                let (bracket, behind) = tail.get(1..)?.split_once(']')?;
                host.push_str(first_number(bracket)?);
                rest = behind;
            }
            Some(_) => return None,
        }
    }
    (!host.is_empty() && host.len() <= LONGEST && !host.starts_with(['-', '.'])).then_some(host)
}

/// The first number of `001-004,7`, with its zeros; `None` if anything else is in there.
fn first_number(bracket: &str) -> Option<&str> {
    let is_item =
        |item: &str| item.split_once('-').map_or(is_digits(item), |(low, high)| is_digits(low) && is_digits(high));
    if !bracket.split(',').all(is_item) {
        return None;
    }
    bracket.split([',', '-']).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_that_slurm_prints_is_read() {
        for (list, host) in [
            ("n1", "n1"),
            ("n1,n2", "n1"),
            ("n[1-4]", "n1"),
            ("n[001-004,7],gpu-a[1-2]b", "n001"),
            ("gpu-a[1-2]b,n3", "gpu-a1b"),
            ("n[07,09-12]", "n07"),
            ("rack[1-2]node[03-04]", "rack1node03"),
            ("r[3]c[0-7]n[0-1].cluster.example", "r3c0n0.cluster.example"),
            ("dgx-01.example.org", "dgx-01.example.org"),
            ("node_1,other", "node_1"),
            ("[1-3]", "1"),
        ] {
            assert_eq!(first(list).as_deref(), Some(host), "{list}");
        }
    }

    #[test]
    fn what_slurm_does_not_print_is_refused() {
        for list in [
            "",
            ",n1",
            "n[1-2",
            "n[]",
            "n[a-b]",
            "n[1-]",
            "n[1,,2]",
            "n[1[2]]",
            "n 1",
            "n1;reboot",
            "(null)",
            "-n1",
            "n]1",
        ] {
            assert_eq!(first(list), None, "{list:?}");
        }
        assert_eq!(first(&"n".repeat(256)), None);
    }
}
