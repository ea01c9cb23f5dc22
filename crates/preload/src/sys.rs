//! The system calls of the shim, made directly: there is no C library here.
//!
//! A call that fails answers `false` or `None`: nobody would hear why.
#![allow(unsafe_code, reason = "system calls")]

use core::ffi::CStr;
use core::ptr::null_mut;
use gpu_tune_shim_core::set::{BITS, Set};

/// Numbers of the calls, from Linux's `arch/x86/entry/syscalls/syscall_64.tbl`.
#[cfg(target_arch = "x86_64")]
mod number {
    pub(super) const READ: usize = 0;
    pub(super) const CLOSE: usize = 3;
    pub(super) const MMAP: usize = 9;
    pub(super) const MUNMAP: usize = 11;
    pub(super) const PRCTL: usize = 157;
    pub(super) const SCHED_SETAFFINITY: usize = 203;
    pub(super) const SCHED_GETAFFINITY: usize = 204;
    pub(super) const SET_MEMPOLICY: usize = 238;
    pub(super) const GET_MEMPOLICY: usize = 239;
    pub(super) const OPENAT: usize = 257;
}

/// Numbers of the calls, from Linux's `include/uapi/asm-generic/unistd.h`.
#[cfg(target_arch = "aarch64")]
mod number {
    pub(super) const OPENAT: usize = 56;
    pub(super) const CLOSE: usize = 57;
    pub(super) const READ: usize = 63;
    pub(super) const SCHED_SETAFFINITY: usize = 122;
    pub(super) const SCHED_GETAFFINITY: usize = 123;
    pub(super) const PRCTL: usize = 167;
    pub(super) const MUNMAP: usize = 215;
    pub(super) const MMAP: usize = 222;
    pub(super) const GET_MEMPOLICY: usize = 236;
    pub(super) const SET_MEMPOLICY: usize = 237;
}

/// The most that a process's arguments and environment can take together: `_STK_LIM / 4 * 3` of Linux's fs/exec.c.
const MOST_ENVIRONMENT: usize = 6 << 20;
/// `PR_GET_NAME` of linux/prctl.h, and how many bytes it writes (`TASK_COMM_LEN`).
const PR_GET_NAME: usize = 16;
const NAME_LENGTH: usize = 16;
/// -100: a relative path starts at the working directory.
const AT_FDCWD: usize = usize::MAX - 99;
const O_RDONLY_CLOEXEC: usize = 0o2_000_000;
const PROT_READ_WRITE: usize = 3;
const MAP_PRIVATE_ANONYMOUS_NORESERVE: usize = 0x2 | 0x20 | 0x4000;

/// The CPUs that this process may use.
pub(crate) fn get_affinity(into: &mut Set) -> bool {
    let words = into.words_mut();
    let args = [0, size_of_val(words), words.as_mut_ptr() as usize, 0, 0, 0];
    // SAFETY: the kernel writes at most the size given, into memory that we hold alone.
    unsafe { call(number::SCHED_GETAFFINITY, args) }.is_some()
}

/// Restricts this process to `cpus`.
pub(crate) fn set_affinity(cpus: &Set) -> bool {
    let words = cpus.words();
    let args = [0, size_of_val(words), words.as_ptr() as usize, 0, 0, 0];
    // SAFETY: the kernel reads the words given.
    unsafe { call(number::SCHED_SETAFFINITY, args) }.is_some()
}

/// The memory policy of this process, with its mode flags, and if wanted its nodes.
pub(crate) fn get_policy(nodes: Option<&mut Set>) -> Option<i32> {
    let mut policy = 0_i32;
    // As in `set_policy`, one is taken off the number of bits.
    let (nodes, bits) = nodes.map_or((0, 0), |nodes| (nodes.words_mut().as_mut_ptr() as usize, BITS as usize + 1));
    // SAFETY: the kernel writes one int, and as many bits as a set has.
    unsafe { call(number::GET_MEMPOLICY, [&raw mut policy as usize, nodes, bits, 0, 0, 0]) }?;
    Some(policy)
}

/// Takes the memory policy of this process away.
pub(crate) fn set_default_policy() -> bool {
    // SAFETY: without nodes the kernel reads nothing; `MPOL_DEFAULT` is 0.
    unsafe { call(number::SET_MEMPOLICY, [0; 6]) }.is_some()
}

/// Sets the memory policy of this process.
pub(crate) fn set_policy(policy: i32, nodes: &Set) -> bool {
    // The kernel takes one off the number of bits, and wants all bits beyond its own nodes to be zero.
    let args = [policy.unsigned_abs() as usize, nodes.words().as_ptr() as usize, BITS as usize + 1, 0, 0, 0];
    // SAFETY: the kernel reads the words given.
    unsafe { call(number::SET_MEMPOLICY, args) }.is_some()
}

/// The name of this process, the first bytes of its program's file name, with zeros behind.
pub(crate) fn name() -> Option<[u8; NAME_LENGTH]> {
    let mut name = [0; NAME_LENGTH];
    // SAFETY: the kernel writes at most that many bytes.
    unsafe { call(number::PRCTL, [PR_GET_NAME, name.as_mut_ptr() as usize, 0, 0, 0, 0]) }?;
    Some(name)
}

/// Calls `with` with a file's bytes, at most [`MOST_ENVIRONMENT`] of them, if it can be read.
pub(crate) fn with_file(path: &CStr, with: impl FnOnce(&[u8])) {
    let args = [AT_FDCWD, path.as_ptr() as usize, O_RDONLY_CLOEXEC, 0, 0, 0];
    // SAFETY: the path is a C string.
    let Some(file) = (unsafe { call(number::OPENAT, args) }) else { return };
    // Only address space, until the kernel fills it.
    let flags = MAP_PRIVATE_ANONYMOUS_NORESERVE;
    let args = [null_mut::<u8>() as usize, MOST_ENVIRONMENT, PROT_READ_WRITE, flags, usize::MAX, 0];
    // SAFETY: a new mapping, wherever the kernel wants it.
    if let Some(memory) = unsafe { call(number::MMAP, args) } {
        let length = read_all(file, memory);
        // SAFETY: the mapping is ours, zeroed, and at least `length` long; it goes away only below.
        with(unsafe { core::slice::from_raw_parts(memory as *const u8, length) });
        // SAFETY: the mapping made above, which nobody refers to any more.
        unsafe { call(number::MUNMAP, [memory, MOST_ENVIRONMENT, 0, 0, 0, 0]) };
    }
    // SAFETY: the file opened above.
    unsafe { call(number::CLOSE, [file, 0, 0, 0, 0, 0]) };
}

/// Reads a file into the mapping at `memory`; the number of bytes that came.
fn read_all(file: usize, memory: usize) -> usize {
    let mut length = 0;
    while length < MOST_ENVIRONMENT {
        // SAFETY: the kernel writes at most into the rest of the mapping.
        let read = unsafe { call(number::READ, [file, memory + length, MOST_ENVIRONMENT - length, 0, 0, 0]) };
        match read {
            None | Some(0) => break,
            Some(more) => length += more,
        }
    }
    length.min(MOST_ENVIRONMENT)
}

/// One system call. `None` for every error.
///
/// # Safety
/// The arguments are what the call of that number wants; addresses among them are good for what it does with them.
unsafe fn call(number: usize, args: [usize; 6]) -> Option<usize> {
    // SAFETY: the caller's promise.
    let result = unsafe { raw(number, args) };
    // The kernel returns errors as -4095 to -1.
    (result <= usize::MAX - 4095).then_some(result)
}

#[cfg(target_arch = "x86_64")]
unsafe fn raw(number: usize, [a, b, c, d, e, f]: [usize; 6]) -> usize {
    let result;
    // SAFETY: the kernel's calling convention (`man 2 syscall`): it changes rax, rcx and r11 only.
    unsafe {
        core::arch::asm!("syscall", inlateout("rax") number => result, in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d,
            in("r8") e, in("r9") f, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

#[cfg(target_arch = "aarch64")]
unsafe fn raw(number: usize, [a, b, c, d, e, f]: [usize; 6]) -> usize {
    let result;
    // SAFETY: the kernel's calling convention (`man 2 syscall`): it changes x0 only.
    unsafe {
        core::arch::asm!("svc 0", in("x8") number, inlateout("x0") a => result, in("x1") b, in("x2") c, in("x3") d,
            in("x4") e, in("x5") f, options(nostack));
    }
    result
}
