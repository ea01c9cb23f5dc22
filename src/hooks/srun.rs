//! srun: gets ready for the option, and sends a nested srun on its way without the binding that the outer step got.
#![forbid(unsafe_code)]

use crate::launch;
use crate::options;
use crate::spank::{Handle, own_env};
use gpu_tune_engine::spec::{Lock, SiteConfig};

/// The variables in which Slurm tells a task how it was bound, and in which a user asks for a binding.
const CPU_BIND: [&str; 4] = ["SLURM_CPU_BIND", "SLURM_CPU_BIND_VERBOSE", "SLURM_CPU_BIND_TYPE", "SLURM_CPU_BIND_LIST"];

pub(super) fn init(handle: &Handle<'_>) {
    launch::forget_own();
    launch::tell_total_gpus();
    let site = super::site(handle);
    if let Some(site) = &site {
        forget_outer_binding(site);
    }
    options::offer(site);
}

/// An srun inside a task inherits the mask that Slurm gave that task, and would take it for its own user's wish: its step
/// would be left alone. What the user set himself stays; it differs from what Slurm composes. Not where gpu-tune is not
/// asked for: there everything shall be as without it.
fn forget_outer_binding(site: &SiteConfig) {
    let text = |name: &str| std::env::var(name).ok();
    let by_default = site.default.is_some();
    let tuned = (by_default && site.locked(Lock::Off)) || options::is_likely(by_default);
    if text("SLURM_STEP_ID").is_none() || !tuned {
        return;
    }
    let [whole, verbose, kind, list] = CPU_BIND.map(text);
    let composed = format!("{},{}{}", verbose.unwrap_or_default(), kind.unwrap_or_default(), list.unwrap_or_default());
    if whole.is_some_and(|whole| whole == composed && whole.contains("mask_cpu:")) {
        CPU_BIND.iter().for_each(|name| own_env::remove(name));
    }
}
