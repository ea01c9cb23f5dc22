//! How long our hooks took, for a user who sets `GPU_TUNE_TRACE=1`.
//!
//! What is printed in slurmstepd before the fork reaches nobody, so the times are kept, and each task writes one line
//! with all of them at the end of its last hook; srun, sbatch and salloc write one of their own. Only numbers are
//! written, to the user who asked and never to the daemon's log. Without the variable a hook, and each of the two parts
//! of `task_init` that are not ours to make shorter, costs two readings of the clock more.
#![forbid(unsafe_code)]

use crate::logging::user_line;
use crate::spank::{Handle, Program};
use std::ffi::{OsStr, OsString};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The variable.
const VARIABLE: &str = "GPU_TUNE_TRACE";

/// Nanoseconds spent in each hook of this process, or of the one that it was forked from; in the order of their calls.
/// The last two are parts of `task_init`.
static TOOK: [(&str, AtomicU64); 8] = [
    ("init", AtomicU64::new(0)),
    ("option", AtomicU64::new(0)),
    ("init_post_opt", AtomicU64::new(0)),
    ("user_init", AtomicU64::new(0)),
    ("task_init_privileged", AtomicU64::new(0)),
    ("task_init", AtomicU64::new(0)),
    (BINDING, AtomicU64::new(0)),
    (VARIABLES, AtomicU64::new(0)),
];

/// The part of `task_init` in which the kernel moves the task to its CPUs and takes its memory policy.
pub(crate) const BINDING: &str = "binding";
/// The part of `task_init` in which Slurm sets the variables.
pub(crate) const VARIABLES: &str = "variables";

/// Runs a part of a hook, and keeps what it took.
pub(crate) fn part<T>(name: &'static str, work: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let value = work();
    keep(name, begun.elapsed());
    value
}

/// Keeps what one call took. The option's registration is a part of `init`.
pub(crate) fn keep(hook: &str, took: Duration) {
    let hook = if hook == "register" { "init" } else { hook };
    if let Some((_, sum)) = TOOK.iter().find(|(name, _)| *name == hook) {
        sum.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

/// Tells the user, if this was the last hook that his process sees, and if he asked.
pub(crate) fn tell(hook: &str, handle: &Handle<'_>) {
    let asked = |value: Option<OsString>| value.is_some_and(|value| value == OsStr::new("1"));
    match (hook, handle.program()) {
        ("init_post_opt", Program::Srun | Program::Alloc) if asked(std::env::var_os(VARIABLE)) => {
            user_line!("trace: submitting: {}", times());
        }
        ("task_init", _) if asked(handle.getenv(VARIABLE)) => {
            user_line!("trace: task {}: {}", handle.global_task_id().unwrap_or(0), times());
        }
        _ => {}
    }
}

/// `init 12 us, user_init 340 us`: the hooks that were called.
fn times() -> String {
    let took = TOOK.iter().map(|(name, sum)| (name, sum.load(Ordering::Relaxed)));
    let called = took.filter(|(_, nanoseconds)| *nanoseconds > 0);
    let words: Vec<String> = called.map(|(name, nanoseconds)| format!("{name} {} us", nanoseconds / 1000)).collect();
    words.join(", ")
}
