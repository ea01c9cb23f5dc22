//! Where a constructor finds the environment that its process was started with.
//!
//! glibc passes `main`'s arguments to constructors. musl passes nothing: the registers hold whatever they held. The two are
//! told apart by the shape that the kernel gives the arguments: `argv` lies above us on the stack, and `envp` begins behind
//! its `argc` pointers and the null that ends them. Where that does not hold, `/proc/self/environ` tells the same, at the
//! price of a few system calls.
use crate::sys;
use gpu_tune_shim_core::env::Env;

/// Calls `act` with the environment, if there is a way to it.
///
/// # Safety
/// To be called from a constructor, with the arguments that it was called with, before any thread runs.
#[allow(unsafe_code, reason = "walks what the kernel laid out")]
pub(crate) unsafe fn with(argc: i32, argv: *const *const u8, envp: *const *const u8, act: fn(&Env<'_>)) {
    if !are_arguments(argc, argv, envp) {
        return from_proc(act);
    }
    let mut env = Env::default();
    let mut entries = envp;
    loop {
        // SAFETY: `envp` has the shape of the kernel's array of strings, which ends with a null.
        let start = unsafe { *entries };
        // SAFETY: the array's entries are C strings of the whole process's life; no thread changes them.
        let Some(entry) = (unsafe { text(start) }) else { break };
        env.see(entry);
        // SAFETY: the entry was not the null that ends the array.
        entries = unsafe { entries.add(1) };
    }
    act(&env);
}

/// Whether these are the arguments that the kernel laid out at the bottom of this stack.
fn are_arguments(argc: i32, argv: *const *const u8, envp: *const *const u8) -> bool {
    let here = 0_u8;
    let (stack, argv, envp) = (&raw const here as usize, argv as usize, envp as usize);
    let behind = |argc: usize| argv.wrapping_add(argc.wrapping_add(1).wrapping_mul(size_of::<usize>()));
    argv % align_of::<usize>() == 0 && argv > stack && usize::try_from(argc).is_ok_and(|argc| behind(argc) == envp)
}

/// A C string's bytes, `None` for a null pointer.
///
/// # Safety
/// The pointer is null or a C string that lives and stays as it is for `'a`.
#[allow(unsafe_code, reason = "reads C strings")]
unsafe fn text<'a>(start: *const u8) -> Option<&'a [u8]> {
    if start.is_null() {
        return None;
    }
    let mut length = 0;
    let mut next = start;
    // SAFETY: everything up to the zero byte belongs to the string. (`CStr` would call `strlen`.)
    while unsafe { next.read() } != 0 {
        length += 1;
        // SAFETY: the byte just read was not the last one.
        next = unsafe { next.add(1) };
    }
    // SAFETY: `length` bytes were just read there.
    Some(unsafe { core::slice::from_raw_parts(start, length) })
}

fn from_proc(act: fn(&Env<'_>)) {
    sys::with_file(c"/proc/self/environ", |bytes| {
        let mut env = Env::default();
        bytes.split(|&byte| byte == 0).for_each(|entry| env.see(entry));
        act(&env);
    });
}
