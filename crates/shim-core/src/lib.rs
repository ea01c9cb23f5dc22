//! What the preload shim decides, without a system call, so that it can be tested like any other code.
//!
//! [`env::Env`] picks the few variables that matter out of a process's environment, [`text::Plan`] reads `GPU_TUNE_PLAN`,
//! [`rank::share`] says whether the process is a rank of the launcher and which part of the plan is its own. The engine
//! reads plans with the same code, so nobody can see another plan in the text than the shim does.
//!
//! The shim has no C library, hence two rules here. No allocation. And nothing that the compiler turns into a call of
//! `memcpy`, `memset` or `memcmp`: no big value is returned or copied, and bytes are compared by [`bytes::same`]. A slip is
//! found by the linker, which refuses undefined symbols in the shim; a path that could panic is found in the same way.
#![no_std]
#![no_builtins]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod binders;
pub mod bytes;
pub mod env;
pub mod rank;
pub mod set;
pub mod text;
