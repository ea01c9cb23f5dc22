//! Keeps panics inside: one that crossed into Slurm's C code would abort srun, slurmd or slurmstepd.
#![forbid(unsafe_code)]

use gpu_tune_engine::text::panic_words;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, set_hook};
use std::sync::{Mutex, Once};

/// A panic that was caught.
#[derive(Debug, Clone)]
pub(crate) struct Panicked {
    /// The hook in which it happened.
    pub(crate) hook: &'static str,
    /// What it said, and where.
    pub(crate) what: String,
}

/// Where the panic hook leaves the words of the latest panic for [`run`].
static LATEST: Mutex<Option<String>> = Mutex::new(None);

/// Runs what Slurm called us for. The caller tells about a panic.
pub(crate) fn run<T>(hook: &'static str, work: impl FnOnce() -> T) -> Result<T, Panicked> {
    static QUIET: Once = Once::new();
    // Rust's own hook would write to a standard error that is not ours. This runtime is ours alone: it is linked into the
    // plugin file.
    QUIET.call_once(|| set_hook(Box::new(remember)));
    // Unwind safe: whatever a panic may leave half done is dropped, the step goes on untuned.
    let guarded = AssertUnwindSafe(|| {
        injected_panic(hook);
        work()
    });
    catch_unwind(guarded).map_err(|_| {
        let what = LATEST.try_lock().ok().and_then(|mut latest| latest.take());
        Panicked { hook, what: what.unwrap_or_else(|| "unknown panic".to_owned()) }
    })
}

fn remember(info: &PanicHookInfo<'_>) {
    let said = panic_words(info.payload()).unwrap_or("panic");
    let place = info.location().map(|at| format!(" at {}:{}", at.file(), at.line())).unwrap_or_default();
    if let Ok(mut latest) = LATEST.try_lock() {
        *latest = Some(format!("{said}{place}"));
    }
}

/// Tests of the guard ask for a panic by naming the hook in a variable of the program that loaded us. Only debug builds
/// contain this: no user can make a released plugin panic.
#[cfg(debug_assertions)]
#[expect(clippy::panic, reason = "this is its purpose")]
fn injected_panic(hook: &str) {
    let asked = std::env::var_os("GPU_TUNE_TEST_PANIC");
    if asked.is_some_and(|hooks| hooks.to_string_lossy().split(',').any(|asked| asked == hook)) {
        panic!("injected into `{hook}`");
    }
}

#[cfg(not(debug_assertions))]
fn injected_panic(_hook: &str) {}
