//! Slurm's hooks, dispatched to one file per program that loads the plugin.
#![forbid(unsafe_code)]

mod alloc;
mod slurmd;
mod srun;
mod stepd;

use crate::guard::Panicked;
use crate::logging::{self, help};
use crate::options;
use crate::spank::{Handle, Program};
use gpu_tune_engine::spec::SiteConfig;
use gpu_tune_engine::text::chain;

/// After the plugin is loaded, in every program.
pub(crate) fn init(handle: &Handle<'_>) {
    match handle.program() {
        Program::Srun => srun::init(handle),
        Program::Alloc => alloc::init(handle),
        Program::Slurmd => slurmd::init(handle),
        Program::Stepd => stepd::init(handle),
        Program::Other => {}
    }
}

/// After the options were read, in every program.
pub(crate) fn init_post_opt(handle: &Handle<'_>) {
    match handle.program() {
        Program::Stepd => stepd::init_post_opt(handle),
        Program::Srun | Program::Alloc => options::are_read(),
        Program::Slurmd | Program::Other => {}
    }
}

/// In slurmstepd, with the user's effective uid, before any task is forked.
pub(crate) fn user_init(handle: &Handle<'_>) {
    stepd::user_init(handle);
}

/// In each task, still root.
pub(crate) fn task_init_privileged(handle: &Handle<'_>) {
    stepd::task_init_privileged(handle);
}

/// In each task, as the user, just before its command.
pub(crate) fn task_init(handle: &Handle<'_>) {
    stepd::task_init(handle);
}

/// A hook ended in a panic. Before the fork nobody would see what is printed: the tasks tell it then.
pub(crate) fn panicked(panicked: &Panicked) {
    let notice = logging::internal(panicked.hook, &panicked.what);
    log::info!("{}", notice.message);
    stepd::fault(panicked.hook, notice);
}

/// The words of plugstack.conf. Wrong ones are told, and the plugin then stays out of the way; its option stays known, so
/// that a job which names it still runs.
fn site(handle: &Handle<'_>) -> Option<SiteConfig> {
    let words = match handle.words() {
        Ok(words) => words,
        Err(error) => {
            log::error!("the words in plugstack.conf are no text: {error}; gpu-tune stays out of the way");
            return None;
        }
    };
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match SiteConfig::parse(&words) {
        Ok(site) => Some(site),
        Err(error) => {
            log::error!("{}; gpu-tune stays out of the way", chain(&error));
            help(error.help().as_deref());
            None
        }
    }
}
