//! What a person should hear, as data: the engine collects notices, the caller prints them.
#![forbid(unsafe_code)]

use std::fmt;

/// What kind of thing a [`Notice`] tells. The text of a code is stable: the JSON and people's scripts use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Code {
    /// A GPU's whole locality is outside the CPUs that may be used.
    GpuRemote,
    /// Nobody knows what is near a GPU.
    NoLocality,
    /// Ranks share cores, because there are fewer cores than ranks.
    Overlap,
    /// Several ranks on a single CPU: `srun` without `-c`.
    OneCpu,
    /// The kernel refused a memory policy.
    MempolicyDenied,
    /// The kernel refused a CPU mask.
    AffinityDenied,
    /// The GPUs are not those that the profile is for.
    ProfileGpuMismatch,
    /// Two tasks came out on one GPU though nobody asked for sharing.
    GpuShared,
    /// Tasks may open their own GPUs only, so these cannot copy to each other directly.
    PeersHidden,
    /// An entry of a list of visible devices names no GPU, or several.
    BadVisible,
    /// The user gave his own binding, or something narrowed the task: it was left alone.
    UserBinding,
    /// Everything that would have been left was reserved: the reservation was not kept.
    ReserveIgnored,
    /// `prefer = "priority"` could not be kept.
    PriorityCores,
    /// A profile file, or a part of it, was not used.
    Profile,
    /// The memory beside a rank's CPUs is not the step's: no policy.
    NoMemory,
    /// A variable was left out or left alone, and why.
    Env,
    /// No usable description of the machine: environment only.
    NoMachine,
    /// A source of facts about the machine could not be read: it is described without them.
    Discovery,
    /// The shim cannot be used: ranks of a launcher are not bound.
    NoShim,
    /// Rendezvous variables were not set, and why.
    Rendezvous,
    /// A limit could not be raised.
    Limits,
    /// Something of gpu-tune's own went wrong; the job goes on.
    Internal,
}

impl Code {
    /// The stable text, such as `gpu-remote`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::GpuRemote => "gpu-remote",
            Self::NoLocality => "no-locality",
            Self::Overlap => "overlap",
            Self::OneCpu => "one-cpu",
            Self::MempolicyDenied => "mempolicy-denied",
            Self::AffinityDenied => "affinity-denied",
            Self::ProfileGpuMismatch => "profile-gpu-mismatch",
            Self::GpuShared => "gpu-shared",
            Self::PeersHidden => "peers-hidden",
            Self::BadVisible => "bad-visible",
            Self::UserBinding => "user-binding",
            Self::ReserveIgnored => "reserve-ignored",
            Self::PriorityCores => "priority-cores",
            Self::Profile => "profile",
            Self::NoMemory => "no-memory",
            Self::Env => "env",
            Self::NoMachine => "no-machine",
            Self::Discovery => "discovery",
            Self::NoShim => "no-shim",
            Self::Rendezvous => "rendezvous",
            Self::Limits => "limits",
            Self::Internal => "internal",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One thing to tell: what happened, and what to do about it. Lower case, no final stop, names in backticks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// The kind.
    pub code: Code,
    /// What happened; stands alone.
    pub message: String,
    /// What to do, printed after `help:`.
    pub help: Option<String>,
}

impl Notice {
    /// A notice without advice.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), help: None }
    }

    /// Adds what to do.
    #[must_use]
    pub fn help(self, help: impl Into<String>) -> Self {
        self.help_if(Some(help.into()))
    }

    /// Says what to do, if anybody knows.
    #[must_use]
    pub fn help_if(self, help: Option<String>) -> Self {
        Self { help: help.or(self.help), ..self }
    }
}
