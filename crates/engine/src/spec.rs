//! The option's text, `PROFILE[+LAYER…][,KEY[=VALUE]…]`, and the admin's words in `plugstack.conf`, as data.
//!
//! The same grammar reads the command line, `GPU_TUNE` and `default=`. It is strict: what comes from a user is taken only
//! if every byte of it is expected.
#![forbid(unsafe_code)]

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

/// Which hardware threads of its cores a rank gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Smt {
    /// All threads.
    #[default]
    All,
    /// The first allowed thread of each core.
    One,
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
