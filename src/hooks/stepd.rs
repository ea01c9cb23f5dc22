//! slurmstepd and its tasks: where a step is read, planned and tuned.
//!
//! As root before the fork the admin's files are read; with the user's effective uid the step is read and its layout made;
//! each task then only selects. Nothing that is printed before the fork reaches the user, so what he should hear is kept for
//! the tasks.
#![forbid(unsafe_code)]

use crate::spank::Handle;
use crate::step::{Prepared, Step};
use crate::{launch, logging, options, task};
use gpu_tune_engine::Notice;
use gpu_tune_engine::spec::SiteConfig;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// What is known before the fork, hook by hook.
struct Setup {
    site: Option<SiteConfig>,
    prepared: Option<Prepared>,
    faults: Vec<Notice>,
}

static SETUP: Mutex<Setup> = Mutex::new(Setup { site: None, prepared: None, faults: Vec::new() });

/// What the tasks work from. Unset: the step is none of our business. Reading it takes no lock.
static STEP: OnceLock<Step> = OnceLock::new();

fn setup() -> MutexGuard<'static, Setup> {
    SETUP.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn init(handle: &Handle<'_>) {
    setup().site = super::site(handle);
}

/// As root: reads the profiles and the snapshot, if the step asks for anything.
pub(super) fn init_post_opt(handle: &Handle<'_>) {
    let site = setup().site.clone();
    let prepared = site.and_then(|site| Prepared::read(handle, &site, options::text().as_deref()));
    setup().prepared = prepared;
}

pub(super) fn user_init(handle: &Handle<'_>) {
    let total_gpus = launch::forget_outer(handle);
    let (site, prepared, faults) = {
        let mut setup = setup();
        (setup.site.clone(), setup.prepared.take(), std::mem::take(&mut setup.faults))
    };
    let step = match (site, prepared) {
        (Some(site), Some(prepared)) => Step::read(handle, &site, prepared, total_gpus),
        _ => None,
    };
    let step = match step {
        Some(mut step) => {
            step.notices.extend(faults);
            Some(step)
        }
        None => (!faults.is_empty()).then(|| faulty(handle.local_tasks().unwrap_or(1), faults)),
    };
    if let Some(step) = step {
        let _set_once = STEP.set(step);
    }
}

/// A step of which only faults are known. `strict` holds for it if its user asked for tuning: what the cluster's
/// default would have meant for it, nobody has found out.
fn faulty(tasks: u32, faults: Vec<Notice>) -> Step {
    let asked = options::text().is_some_and(|text| text != "off");
    let strict = asked && setup().site.as_ref().is_some_and(|site| site.strict);
    Step::faulty(tasks, strict, faults)
}

pub(super) fn task_init_privileged(handle: &Handle<'_>) {
    if let Some(step) = STEP.get() {
        task::raise_limits(handle, step);
    }
}

pub(super) fn task_init(handle: &Handle<'_>) {
    if let Some(step) = STEP.get() {
        task::run(handle, step);
    }
}

/// A hook panicked. Faults before the fork are kept for the tasks to tell; one in a task is told there, by whoever comes
/// first.
pub(super) fn fault(hook: &str, notice: Notice) {
    match hook {
        "register" | "init" | "init_post_opt" | "option" => {
            // Slurm may call the option's callback twice.
            let faults = &mut setup().faults;
            if !faults.contains(&notice) {
                faults.push(notice);
            }
        }
        "user_init" => {
            let _set_once = STEP.set(faulty(1, vec![notice]));
        }
        _ => match STEP.get() {
            Some(step) => task::fault(step, &notice),
            None => logging::warn_user(&notice),
        },
    }
}
