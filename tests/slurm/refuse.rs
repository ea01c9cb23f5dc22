//! `refuse PROGRAM [WORDS…]`: the program and all that it starts are refused `sched_setaffinity` and `set_mempolicy`
//! with EPERM, as a container's seccomp filter does.
#![allow(unsafe_code, reason = "the filter is handed to the kernel as C data")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a part of the tests")]

use std::os::unix::process::CommandExt;

/// What to answer: linux/seccomp.h.
const SECCOMP_RET_ALLOW: u32 = 0x7fff_0000;
const SECCOMP_RET_ERRNO: u32 = 0x0005_0000;

fn main() {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    let refused = [libc::SYS_sched_setaffinity, libc::SYS_set_mempolicy].map(|number| u32::try_from(number).unwrap());
    install(&[
        // The system call's number is the first word of `struct seccomp_data`.
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 2, 0, refused[0]),
        instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, 0, refused[1]),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, SECCOMP_RET_ALLOW),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, SECCOMP_RET_ERRNO | u32::try_from(libc::EPERM).unwrap()),
    ]);
    panic!("{:?}: {}", words, std::process::Command::new(&words[0]).args(&words[1..]).exec());
}

fn instruction(code: u32, yes: u8, no: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: u16::try_from(code).unwrap(), jt: yes, jf: no, k }
}

fn install(filter: &[libc::sock_filter]) {
    let program = libc::sock_fprog { len: u16::try_from(filter.len()).unwrap(), filter: filter.as_ptr().cast_mut() };
    // SAFETY: the program lives until the call returns, and the kernel copies it. Root needs no PR_SET_NO_NEW_PRIVS.
    let answer = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
    assert_eq!(answer, 0, "{}", std::io::Error::last_os_error());
}
