//! Programs by which a user binds what they run in their own place: numactl, and taskset.
//!
//! What counts is what the command line binds: `numactl --membind=1` places memory and leaves the CPUs to whoever bound them.
use crate::bytes::{cut, same};

/// What a program binds before it runs another one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Binds {
    /// CPUs.
    pub cpus: bool,
    /// Memory.
    pub memory: bool,
}

const NOTHING: Binds = Binds { cpus: false, memory: false };
const CPUS: Binds = Binds { cpus: true, memory: false };
const MEMORY: Binds = Binds { cpus: false, memory: true };

/// An option of numactl.
struct Known {
    name: &'static [u8],
    letter: u8,
    takes_value: bool,
    binds: Binds,
}

const fn known(name: &'static [u8], letter: u8, takes_value: bool, binds: Binds) -> Known {
    Known { name, letter, takes_value, binds }
}

/// Those of numactl(8), 2.0.19, that may stand before a program.
static OPTIONS: [Known; 11] = [
    known(b"all", b'a', false, NOTHING),
    known(b"balancing", b'b', false, MEMORY),
    known(b"cpubind", b'c', true, CPUS),
    known(b"cpunodebind", b'N', true, CPUS),
    known(b"interleave", b'i', true, MEMORY),
    known(b"localalloc", b'l', false, MEMORY),
    known(b"membind", b'm', true, MEMORY),
    known(b"physcpubind", b'C', true, CPUS),
    known(b"preferred", b'p', true, MEMORY),
    known(b"preferred-many", b'P', true, MEMORY),
    known(b"weighted-interleave", b'w', true, MEMORY),
];

/// Whether a process of this name is such a program; the name ends at the first zero.
pub fn is_binder(name: &[u8]) -> bool {
    let (name, _) = cut(name, 0);
    same(name, b"numactl") || same(name, b"taskset")
}

/// What such a process binds, by its command line, each word with a zero behind it.
pub fn of_process(name: &[u8], cmdline: &[u8]) -> Binds {
    let (name, _) = cut(name, 0);
    if same(name, b"taskset") { CPUS } else { of_numactl(cmdline.split(|&byte| byte == 0).skip(1)) }
}

/// What numactl binds; `words` are its arguments, at least as far as the program that it runs.
pub fn of_numactl<'a>(words: impl Iterator<Item = &'a [u8]>) -> Binds {
    let mut binds = NOTHING;
    let mut is_value = false;
    for word in words {
        let found = match word {
            _ if is_value => Found { binds: NOTHING, wants_value: false },
            [b'-', b'-', name @ ..] if !name.is_empty() => long(name),
            [b'-', letters @ ..] if !letters.is_empty() && !same(word, b"--") => short(letters),
            _ => break,
        };
        binds = binds.and(found.binds);
        is_value = found.wants_value;
    }
    binds
}

/// What a word with options says.
struct Found {
    binds: Binds,
    /// The next word is its value.
    wants_value: bool,
}

/// getopt takes every beginning of a name.
fn long(word: &[u8]) -> Found {
    let (name, value) = cut(word, b'=');
    let mut found = Found { binds: NOTHING, wants_value: false };
    for option in OPTIONS.iter().filter(|option| begins(option.name, name)) {
        found.binds = found.binds.and(option.binds);
        found.wants_value |= option.takes_value && value.is_none();
    }
    found
}

/// Letters may stand together; the first one that takes a value ends them.
fn short(letters: &[u8]) -> Found {
    let mut binds = NOTHING;
    let mut rest = letters;
    while let [letter, tail @ ..] = rest {
        if let Some(option) = OPTIONS.iter().find(|option| option.letter == *letter) {
            binds = binds.and(option.binds);
            if option.takes_value {
                return Found { binds, wants_value: tail.is_empty() };
            }
        }
        rest = tail;
    }
    Found { binds, wants_value: false }
}

/// Whether a text begins with this one.
fn begins(text: &[u8], start: &[u8]) -> bool {
    text.split_at_checked(start.len()).is_some_and(|(head, _)| same(head, start))
}

impl Binds {
    /// Both together.
    fn and(self, other: Self) -> Self {
        Self { cpus: self.cpus | other.cpus, memory: self.memory | other.memory }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::String;

    fn check(name: &str, line: &str, expect: Binds) {
        let cmdline: String = line.split_whitespace().flat_map(|word| [word, "\0"]).collect();
        assert_eq!(of_process(name.as_bytes(), cmdline.as_bytes()), expect, "{line}");
    }

    #[test]
    fn numactl_binds_what_its_options_say() {
        let both = CPUS.and(MEMORY);
        for (line, expect) in [
            ("numactl -C 0-7 python train.py", CPUS),
            ("numactl --cpunode 1 --memb 0 ./a.out", both),
            ("/usr/bin/numactl -m 0 -N1 ./a.out", both),
            ("numactl -alC 0 ./a.out", both),
            ("numactl --interleave=all ./a.out -C 1", MEMORY),
            ("numactl -m 0 ./a.out --physcpubind=1", MEMORY),
            ("numactl -l -- -C", MEMORY),
            ("numactl --all ./a.out", NOTHING),
            ("numactl --show", NOTHING),
            ("numactl -H", NOTHING),
            ("numactl", NOTHING),
            // The interpreter of a script of that name.
            ("/bin/sh /opt/bin/numactl -C 0 ./a.out", NOTHING),
        ] {
            check("numactl\0\0", line, expect);
        }
        check("taskset\0rest", "taskset -c 0 ./a.out", CPUS);
    }

    #[test]
    fn programs_are_known_by_their_whole_names() {
        assert!(is_binder(b"numactl\0\0\0\0\0\0\0\0\0") && is_binder(b"taskset\0rest"));
        assert!(!is_binder(b"numactls\0") && !is_binder(b"numact") && !is_binder(b"") && !is_binder(b"bash\0"));
    }
}
