//! The preload shim: binds the ranks that a launcher starts, before their first instruction.
//!
//! The dynamic loader of every program that inherits `LD_PRELOAD` maps this file and calls its one constructor. In almost
//! all of them it looks through the environment, finds that the process is no rank, and is done without a system call. In a
//! rank that still has its launcher's CPUs and the default memory policy it sets both as `GPU_TUNE_PLAN` says. Programs by which
//! a user binds a rank himself, numactl and taskset, get what the launcher had. It never prints, never fails, and touches
//! nothing but its own process.
//!
//! No C library, no allocation, no exported symbol: programs of every libc can load it, and it changes no name that they
//! see. `gpu-tune-shim-core` decides; here are only the constructor ([`start`]), [`environ`] and the system calls ([`sys`]).
#![no_std]
#![no_builtins]

mod environ;
mod sys;

use core::cell::UnsafeCell;
use gpu_tune_shim_core::binders::{self, Binds};
use gpu_tune_shim_core::env::Env;
use gpu_tune_shim_core::rank;
use gpu_tune_shim_core::set::Set;
use gpu_tune_shim_core::text::{Memory, Plan, Share};

/// The memory policy of a process that was given none (`MPOL_DEFAULT`, linux/mempolicy.h), and those that ranks get.
const DEFAULT: i32 = 0;
const PREFERRED: i32 = 1;
const BIND: i32 = 2;
const PREFERRED_MANY: i32 = 5;

type Constructor = unsafe extern "C" fn(i32, *const *const u8, *const *const u8);

#[allow(unsafe_code, reason = "the loader finds a constructor by its section")]
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: Constructor = start;

/// Called by the dynamic loader before `main`. glibc passes the arguments that `main` will get, musl passes nothing.
#[allow(unsafe_code, reason = "called by the loader")]
unsafe extern "C" fn start(argc: i32, argv: *const *const u8, envp: *const *const u8) {
    // SAFETY: these are the constructor's own arguments, and no other thread runs before `main`.
    unsafe { environ::with(argc, argv, envp, act) }
}

/// Binds this process if it is a rank that nobody has bound yet.
fn act(env: &Env<'_>) {
    let Some((plan, share)) = rank::share(env) else { return };
    let users = will_bind();
    if users.cpus || users.memory {
        return give_back(&plan, &share, users);
    }
    if !has_launchers_cpus(&plan) {
        return;
    }
    let policy = share.memory.and_then(|_| sys::get_policy(None));
    if policy.is_some_and(|policy| policy != DEFAULT) || (!share.cpus.is_empty() && !bind_cpus(&share)) {
        return;
    }
    // Without an answer about the present policy, a seccomp filter forbids asking for one, too.
    if let (Some(memory), Some(_)) = (share.memory, policy) {
        bind_memory(&memory);
    }
}

/// Whether the process still has its launcher's CPUs. A rank's own children and whatever a user narrowed have others, or a
/// memory policy; that counts only where one is planned, since else a policy is the launcher's own (`--mem-bind`).
fn has_launchers_cpus(plan: &Plan<'_>) -> bool {
    let (own, launcher) = (OWN.take(), LAUNCHER.take());
    launcher.read(plan.launcher) && sys::get_affinity(own) && own.same(launcher)
}

/// What the user has this process bind, if it is numactl or taskset.
fn will_bind() -> Binds {
    let mut binds = Binds::default();
    if let Some(name) = sys::name().filter(|name| binders::is_binder(name)) {
        sys::with_file(c"/proc/self/cmdline", |cmdline| binds = binders::of_process(&name, cmdline));
    }
    binds
}

/// In numactl and taskset, which will run the rank in their own place: what the shell that started them was bound to goes back
/// to what the launcher had. numactl refuses CPUs that it may not use itself, and a memory policy of ours would stay with a
/// rank that the user sends elsewhere. Who places memory only keeps the CPUs. If they change nothing, the rank is bound after
/// them.
fn give_back(plan: &Plan<'_>, share: &Share<'_>, users: Binds) {
    let (found, wanted, launcher) = (OWN.take(), CPUS.take(), LAUNCHER.take());
    let bound = wanted.read(share.cpus) && sys::get_affinity(found) && found.same(wanted);
    let free = share.cpus.is_empty()
        || (bound && (!users.cpus || (launcher.read(plan.launcher) && sys::set_affinity(launcher))));
    if free && share.memory.is_some_and(|memory| is_set(&memory, found)) {
        let _ = sys::set_default_policy();
    }
}

/// Whether the memory policy is this one. `found` is overwritten.
fn is_set(memory: &Memory<'_>, found: &mut Set) -> bool {
    let (nodes, first) = (NODES.take(), FIRST.take());
    let Some(policy) = sys::get_policy(Some(found)) else { return false };
    match memory {
        Memory::Bind(list) => policy == BIND && nodes.read(list) && found.same(nodes),
        Memory::Prefer { first: one, nodes: list } => match policy {
            PREFERRED => first.read(one) && found.same(first),
            PREFERRED_MANY => nodes.read(list) && found.same(nodes),
            _ => false,
        },
    }
}

fn bind_cpus(share: &Share<'_>) -> bool {
    let cpus = CPUS.take();
    cpus.read(share.cpus) && sys::set_affinity(cpus)
}

fn bind_memory(memory: &Memory<'_>) {
    let (nodes, first) = (NODES.take(), FIRST.take());
    match memory {
        Memory::Bind(list) => {
            let _ = nodes.read(list) && sys::set_policy(BIND, nodes);
        }
        Memory::Prefer { first: one, nodes: list } => {
            let fine = first.read(one) && nodes.read(list);
            let many = fine && !nodes.same(first) && sys::set_policy(PREFERRED_MANY, nodes);
            let _ = fine && !many && sys::set_policy(PREFERRED, first);
        }
    }
}

/// A set in zeroed memory of the shim's own: on the stack it would need a C library's `memset`.
struct Scratch(UnsafeCell<Set>);

static OWN: Scratch = Scratch(UnsafeCell::new(Set::empty()));
static LAUNCHER: Scratch = Scratch(UnsafeCell::new(Set::empty()));
static CPUS: Scratch = Scratch(UnsafeCell::new(Set::empty()));
static NODES: Scratch = Scratch(UnsafeCell::new(Set::empty()));
static FIRST: Scratch = Scratch(UnsafeCell::new(Set::empty()));

// SAFETY: only the constructor uses the sets, and it runs once, before any thread.
#[allow(unsafe_code, reason = "statics must be Sync")]
unsafe impl Sync for Scratch {}

impl Scratch {
    /// The empty set. The one run of the constructor takes each of them at most once.
    #[allow(clippy::mut_from_ref, reason = "what an UnsafeCell is for")]
    fn take(&'static self) -> &'static mut Set {
        #[allow(unsafe_code, reason = "zeroed memory without a C library")]
        // SAFETY: `act` runs once and takes each set at most once, so no other reference exists.
        unsafe {
            &mut *self.0.get()
        }
    }
}

/// Nothing here can panic, and the linker proves it: this symbol exists nowhere, so a path that panics does not link.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    #[allow(unsafe_code, reason = "names a symbol that does not exist")]
    // SAFETY: never called, see above.
    unsafe extern "C" {
        safe fn gpu_tune_preload_has_a_path_that_can_panic() -> !;
    }
    gpu_tune_preload_has_a_path_that_can_panic()
}
