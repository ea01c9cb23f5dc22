//! The option's keys and the words that their values may be.

use std::fmt;

/// Something that is written as one word of a fixed list, in the option and in profiles alike.
pub trait Word: Copy + PartialEq + 'static {
    /// Every word with its meaning; the first is the default.
    const WORDS: &'static [(&'static str, Self)];

    /// The meaning of a word.
    fn from_word(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(text, _)| *text == word).map(|(_, value)| *value)
    }

    /// The word.
    fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(_, value)| *value == self).map_or("", |(text, _)| text)
    }

    /// The words, for a message: `a, b or c`.
    fn expected() -> String {
        let words: Vec<&str> = Self::WORDS.iter().map(|(text, _)| *text).collect();
        one_of(&words)
    }
}

/// `` `a`, `b` or `c` ``.
pub(crate) fn one_of(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}

/// How CPUs are given to ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CpuPolicy {
    /// Each rank its own share of the cores nearest to its GPU; the cores of a package's GPU-less NUMA nodes are shared out.
    #[default]
    Exclusive,
    /// Every rank all allowed CPUs of its GPU's NUMA node(s).
    Numa,
    /// Every rank all allowed CPUs of its GPU's package.
    Socket,
    /// No CPU binding.
    Off,
}

impl Word for CpuPolicy {
    const WORDS: &'static [(&'static str, Self)] =
        &[("exclusive", Self::Exclusive), ("numa", Self::Numa), ("socket", Self::Socket), ("off", Self::Off)];
}

/// How memory is bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MemPolicy {
    /// Near memory first, any other when that is full.
    #[default]
    Preferred,
    /// Near memory only: a rank that needs more is killed.
    Bind,
    /// No memory policy.
    Off,
}

impl Word for MemPolicy {
    const WORDS: &'static [(&'static str, Self)] =
        &[("preferred", Self::Preferred), ("bind", Self::Bind), ("off", Self::Off)];
}

/// Which hardware threads of its cores a rank gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Smt {
    /// All threads.
    #[default]
    All,
    /// The first allowed thread of each core.
    One,
}

impl Word for Smt {
    const WORDS: &'static [(&'static str, Self)] = &[("all", Self::All), ("one", Self::One)];
}

/// When rendezvous variables are set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rendezvous {
    /// For a launcher that is alone on its node and is torchrun.
    #[default]
    Auto,
    /// Always, for example when a shell script starts torchrun.
    On,
    /// Never.
    Off,
}

impl Word for Rendezvous {
    const WORDS: &'static [(&'static str, Self)] = &[("auto", Self::Auto), ("on", Self::On), ("off", Self::Off)];
}

/// What stands behind the commas. `None`: the profile decides.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Keys {
    /// `verbose`: print one table per node.
    pub verbose: bool,
    /// `dry-run`: print the plan, change nothing.
    pub dry_run: bool,
    /// `bind=`.
    pub bind: Option<CpuPolicy>,
    /// `mem=`.
    pub mem: Option<MemPolicy>,
    /// `smt=`.
    pub smt: Option<Smt>,
    /// `env=off`: set no variable of the profile.
    pub env_off: bool,
    /// `workers=off`: leave the ranks of a launcher alone.
    pub workers_off: bool,
    /// `rendezvous=`.
    pub rendezvous: Option<Rendezvous>,
}

impl fmt::Display for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts = [
            self.verbose.then(|| "verbose".to_owned()),
            self.dry_run.then(|| "dry-run".to_owned()),
            self.bind.map(|policy| format!("bind={}", policy.word())),
            self.mem.map(|policy| format!("mem={}", policy.word())),
            self.smt.map(|smt| format!("smt={}", smt.word())),
            self.env_off.then(|| "env=off".to_owned()),
            self.workers_off.then(|| "workers=off".to_owned()),
            self.rendezvous.map(|when| format!("rendezvous={}", when.word())),
        ];
        texts.iter().flatten().try_for_each(|text| write!(f, ",{text}"))
    }
}
