//! Carries out one [`Share`]: two system calls, and never a reason for a process not to start.
//!
//! The mask comes first: should the kernel refuse the memory policy, first touch then still places memory near the CPUs.
//! What was refused is an [`Outcome`], so that several tasks of a node can be told about in one sentence.
#![forbid(unsafe_code)]

use crate::os::Os;
use crate::plan::{MemKind, Share};
use crate::{Code, CpuSet, Notice};
use std::io;

/// What the kernel said to the two calls, as error numbers: they fit into memory that processes share.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcome {
    /// `sched_setaffinity` was refused with this error number.
    pub affinity: Option<i32>,
    /// `set_mempolicy` was refused with this error number.
    pub mempolicy: Option<i32>,
}

/// Binds the calling thread to `share`. What `share` leaves open stays as it is.
pub fn apply(os: &mut dyn Os, share: &Share) -> Outcome {
    let affinity = share.cpus.as_ref().and_then(|cpus| refused(os.set_affinity(cpus)));
    let mempolicy = share.memory.as_ref().and_then(|memory| refused(os.set_mempolicy(memory)));
    Outcome { affinity, mempolicy }
}

fn refused(answer: io::Result<()>) -> Option<i32> {
    answer.err().map(|error| error.raw_os_error().unwrap_or(libc::EIO))
}

impl Outcome {
    /// What a person should hear. `who` begins the sentence: `task 3`, `tasks 0-7`, `the command`.
    pub fn notices(self, who: &str, share: &Share) -> Vec<Notice> {
        let affinity = self.affinity.map(|errno| affinity_denied(who, share, errno));
        let mempolicy = self.mempolicy.map(|errno| mempolicy_denied(who, share, errno));
        affinity.into_iter().chain(mempolicy).collect()
    }

    /// Whether both calls that were made went through.
    pub fn is_fine(self) -> bool {
        self == Self::default()
    }
}

fn affinity_denied(who: &str, share: &Share, errno: i32) -> Notice {
    let cpus = share.cpus.as_ref().map(CpuSet::to_string).unwrap_or_default();
    let error = io::Error::from_raw_os_error(errno);
    let notice =
        Notice::new(Code::AffinityDenied, format!("{who}: cannot bind to CPUs {cpus}: sched_setaffinity: {error}"));
    match errno {
        libc::EINVAL => {
            notice.help("the cpuset of the step changed after the plan was made, or these CPUs are offline")
        }
        _ => notice.help("a seccomp filter, usual in containers, blocks this call: allow it, or set `bind=off`"),
    }
}

fn mempolicy_denied(who: &str, share: &Share, errno: i32) -> Notice {
    let (verb, nodes) = match &share.memory {
        Some(memory) if memory.policy == MemKind::Bind => ("bind memory to", memory.nodes.to_string()),
        Some(memory) => ("prefer memory of", memory.nodes.to_string()),
        None => ("prefer memory of", String::new()),
    };
    let error = io::Error::from_raw_os_error(errno);
    let notice =
        Notice::new(Code::MempolicyDenied, format!("{who}: cannot {verb} NUMA node {nodes}: set_mempolicy: {error}"));
    match errno {
        libc::ENOSYS => notice.help("this kernel has no NUMA support: set `mem=off` to silence this"),
        libc::EINVAL => {
            notice.help("the step may not use memory of that node: look at `Mems_allowed_list` in /proc/self/status")
        }
        _ => notice.help("a seccomp filter, usual in containers, blocks this call: allow it, or set `mem=off`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NodeSet;
    use crate::os::record::{Call, Recorder};
    use crate::plan::Memory;

    fn share() -> Share {
        let memory = Memory { policy: MemKind::Preferred, nodes: NodeSet::from_iter([1]), first: 1 };
        Share { cpus: Some("48-95".parse().unwrap()), memory: Some(memory) }
    }

    fn recorder() -> Recorder {
        Recorder::new("0-95".parse().unwrap(), "0-1".parse().unwrap())
    }

    #[test]
    fn the_mask_comes_first_then_the_policy() {
        let mut os = recorder();
        assert!(apply(&mut os, &share()).is_fine());
        let Share { cpus, memory } = share();
        assert_eq!(os.calls, [Call::Affinity(cpus.unwrap()), Call::Mempolicy(memory.unwrap())]);
    }

    #[test]
    fn an_empty_share_makes_no_call() {
        let mut os = recorder();
        assert!(apply(&mut os, &Share::default()).is_fine());
        assert_eq!(os.calls, []);
    }

    #[test]
    fn a_refused_policy_keeps_the_mask_and_says_what_to_do() {
        let mut os = recorder().refusing(1, libc::EPERM);
        let outcome = apply(&mut os, &share());
        assert_eq!(outcome, Outcome { affinity: None, mempolicy: Some(libc::EPERM) });
        assert_eq!(os.affinity.to_string(), "48-95");
        let notices = outcome.notices("task 0", &share());
        let [notice] = notices.as_slice() else { panic!("{notices:?}") };
        assert_eq!(notice.code, Code::MempolicyDenied);
        assert_eq!(
            notice.message,
            "task 0: cannot prefer memory of NUMA node 1: set_mempolicy: Operation not permitted (os error 1)"
        );
        assert!(notice.help.as_ref().unwrap().contains("seccomp"));
    }

    #[test]
    fn a_refused_mask_still_sets_the_policy() {
        let mut os = recorder().refusing(0, libc::EINVAL);
        let outcome = apply(&mut os, &share());
        assert_eq!(os.calls.len(), 2);
        let said = outcome.notices("tasks 2-3", &share());
        assert_eq!(
            said[0].message,
            "tasks 2-3: cannot bind to CPUs 48-95: sched_setaffinity: Invalid argument (os error 22)"
        );
        assert_eq!(said.len(), 1);
    }
}
