//! The one place that touches `slurm-spank`: the functions that Slurm calls, and a safe handle on what it offers.
//!
//! The crate's own `SPANK_PLUGIN!` is not used: it fixes the release at build time (see [`crate::stamp`]), its mutex is
//! poisoned by the first panic, and its option callback always succeeds, which would let a wrong option pass. Its
//! [`SpankHandle`] does the work.
#![allow(unsafe_code, reason = "SPANK is a C interface")]

use crate::{guard, hooks, logging, options, trace};
use slurm_spank::{Context, OptionCache, SpankHandle, spank_sys};
use std::ffi::{CStr, OsStr, OsString, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::time::Instant;

/// Who loaded the plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    /// srun.
    Srun,
    /// sbatch or salloc.
    Alloc,
    /// The node's daemon.
    Slurmd,
    /// The process that runs a step on a node.
    Stepd,
    /// The job scripts (prolog, epilog), or something we do not know.
    Other,
}

/// Why SPANK did not do as asked. The crate's error prints its whole story.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Refused(slurm_spank::SpankError);

/// What Slurm offers to a hook while it runs.
pub(crate) struct Handle<'a> {
    spank: spank_sys::spank_t,
    inner: SpankHandle<'a>,
}

impl Handle<'_> {
    pub(crate) fn program(&self) -> Program {
        match self.inner.context() {
            Ok(Context::Local) => Program::Srun,
            Ok(Context::Allocator) => Program::Alloc,
            Ok(Context::Slurmd) => Program::Slurmd,
            Ok(Context::Remote) => Program::Stepd,
            _ => Program::Other,
        }
    }

    /// The words after our path in plugstack.conf.
    pub(crate) fn words(&self) -> Result<Vec<String>, Refused> {
        let words = self.inner.plugin_argv().map_err(Refused)?;
        Ok(words.into_iter().map(str::to_owned).collect())
    }

    /// Registers `--gpu-tune` in the programs that read options. To be called from `init` only.
    fn register_option(&self) {
        if !matches!(self.program(), Program::Srun | Program::Alloc | Program::Stepd) {
            return;
        }
        let mut option = spank_sys::spank_option {
            name: options::NAME.as_ptr(),
            arginfo: options::ARGUMENT.as_ptr(),
            usage: options::USAGE.as_ptr(),
            has_arg: 1,
            val: 0,
            cb: Some(on_option),
        };
        // SAFETY: the handle is valid while the hook runs; Slurm copies the strings.
        let answer = unsafe { spank_sys::spank_option_register(self.spank, &raw mut option) };
        if answer != spank_sys::ESPANK_SUCCESS {
            log::warn!("cannot register the option `--gpu-tune`: Slurm's error {answer}");
        }
    }

    /// A variable of the job (in slurmstepd) as it is now.
    pub(crate) fn getenv(&self, name: &str) -> Option<OsString> {
        self.inner.getenv_os(name).ok().flatten()
    }

    /// A variable of the job that can only be plain text.
    pub(crate) fn getenv_text(&self, name: &str) -> Option<String> {
        self.getenv(name)?.into_string().ok()
    }

    /// Sets a variable of the job, over any value, or removes it; one that is not there is fine. Setting takes
    /// microseconds: Slurm clears a buffer of 256 KiB each time (`setenvf` in its src/common/env.c).
    pub(crate) fn put(&self, name: &str, value: Option<&OsStr>) -> Result<(), Refused> {
        let done = match value {
            Some(value) => self.inner.setenv(name, value, true),
            None => self.inner.unsetenv(name),
        };
        done.map_err(Refused)
    }

    /// The command that Slurm will run.
    pub(crate) fn command(&self) -> Vec<OsString> {
        self.inner.job_argv_os().unwrap_or_default().into_iter().map(OsStr::to_owned).collect()
    }

    pub(crate) fn job_id(&self) -> Option<u32> {
        self.inner.job_id().ok()
    }

    pub(crate) fn step_id(&self) -> Option<u32> {
        self.inner.job_stepid().ok()
    }

    /// Nodes of the step; `None` in a batch step, where Slurm says 0.
    pub(crate) fn nodes(&self) -> Option<u32> {
        self.inner.job_nnodes().ok().filter(|nodes| *nodes > 0)
    }

    /// This node's number within the step.
    pub(crate) fn node_id(&self) -> Option<u32> {
        self.inner.job_nodeid().ok()
    }

    /// Tasks of the step on this node.
    pub(crate) fn local_tasks(&self) -> Option<u32> {
        self.inner.job_local_task_count().ok()
    }

    /// Tasks of the step on all nodes.
    pub(crate) fn total_tasks(&self) -> Option<u32> {
        self.inner.job_total_task_count().ok()
    }

    /// `SLURM_LOCALID` of the task whose hook runs.
    pub(crate) fn task_id(&self) -> Option<u32> {
        self.inner.task_id().ok().and_then(|id| u32::try_from(id).ok())
    }

    /// `SLURM_PROCID` of the task whose hook runs.
    pub(crate) fn global_task_id(&self) -> Option<u32> {
        self.inner.task_global_id().ok()
    }

    /// The step's cores on this node by Slurm's abstract numbers, as a list.
    pub(crate) fn step_cores(&self) -> Option<String> {
        self.inner.step_alloc_cores().ok().map(str::to_owned)
    }
}

/// Writes one line where the given reader finds it.
pub(crate) mod say {
    use slurm_spank::LogLevel;

    /// For the user, as an error.
    pub(crate) fn error(line: &str) {
        slurm_spank::spank_log(LogLevel::Error, line);
    }

    /// For the user, without the word "error".
    pub(crate) fn user(line: &str) {
        slurm_spank::slurm_spank_log(line);
    }

    /// For the admin, in the daemon's log.
    pub(crate) fn info(line: &str) {
        slurm_spank::spank_log(LogLevel::Info, line);
    }

    /// For somebody who turned debugging on.
    pub(crate) fn debug(line: &str) {
        slurm_spank::spank_log(LogLevel::Debug, line);
    }
}

/// The environment of the process that loaded us. Only for srun, sbatch and salloc, and only from `init` and the option
/// callback: they run before those programs start a thread.
pub(crate) mod own_env {
    use std::ffi::OsStr;

    /// Sets a variable.
    pub(crate) fn set(name: &str, value: &OsStr) {
        // SAFETY: no other thread exists yet that could read the environment (see the module's words).
        unsafe { std::env::set_var(name, value) };
    }

    /// Removes a variable.
    pub(crate) fn remove(name: &str) {
        // SAFETY: as in `set`.
        unsafe { std::env::remove_var(name) };
    }
}

/// Slurm hands over the option's text, in every program. A non-zero answer stops srun, sbatch and salloc.
extern "C" fn on_option(_val: c_int, text: *const c_char, remote: c_int) -> c_int {
    let begun = Instant::now();
    let verdict = guard::run("option", || {
        if text.is_null() {
            return options::Verdict::Fine;
        }
        // SAFETY: Slurm passes a C string that lives while the callback runs.
        let text = unsafe { CStr::from_ptr(text) };
        options::given(OsStr::from_bytes(text.to_bytes()), remote != 0)
    });
    trace::keep("option", begun.elapsed());
    match verdict {
        Ok(options::Verdict::Refused) => -1,
        Ok(options::Verdict::Fine) => 0,
        Err(panicked) => {
            tell(&panicked);
            0
        }
    }
}

/// Runs one hook in the guard. The answer is always 0: a failing hook of an `optional` plugin is ignored anyway, and on a
/// `required` line it would drain nodes and end jobs for the sake of tuning.
fn hook(
    name: &'static str,
    spank: spank_sys::spank_t,
    argc: c_int,
    argv: *const *const c_char,
    run: fn(&Handle<'_>),
) -> c_int {
    let begun = Instant::now();
    logging::start();
    let outcome = guard::run(name, || {
        let mut options = OptionCache::default();
        let inner = slurm_spank::init_spank_handle(spank, argc, argv, &mut options);
        let handle = Handle { spank, inner };
        run(&handle);
        trace::keep(name, begun.elapsed());
        trace::tell(name, &handle);
    });
    if let Err(panicked) = outcome {
        tell(&panicked);
    }
    0
}

/// Tells about a panic, in a guard of its own: what caused it may stand in the way of telling, too.
fn tell(panicked: &guard::Panicked) {
    let _untold = guard::run("panicked", || hooks::panicked(panicked));
}

macro_rules! hooks {
    ($($symbol:ident => $name:literal, $run:path;)*) => {
        $(
            /// Called by Slurm (see spank(7)).
            #[unsafe(no_mangle)]
            pub extern "C" fn $symbol(spank: spank_sys::spank_t, argc: c_int, argv: *const *const c_char) -> c_int {
                hook($name, spank, argc, argv, $run)
            }
        )*
    };
}

/// Called by Slurm after it loaded the plugin. The option comes first, on its own: whatever else fails, a job that names it
/// must still run.
#[unsafe(no_mangle)]
pub extern "C" fn slurm_spank_init(spank: spank_sys::spank_t, argc: c_int, argv: *const *const c_char) -> c_int {
    hook("register", spank, argc, argv, |handle| handle.register_option());
    hook("init", spank, argc, argv, hooks::init)
}

hooks! {
    slurm_spank_init_post_opt => "init_post_opt", hooks::init_post_opt;
    slurm_spank_user_init => "user_init", hooks::user_init;
    slurm_spank_task_init_privileged => "task_init_privileged", hooks::task_init_privileged;
    slurm_spank_task_init => "task_init", hooks::task_init;
}
