//! Whether libhwloc itself survives a file, found out in a forked child.
//!
//! The fuzzer's process has no thread but one of libFuzzer's that looks at the memory in use once a second, so the child may
//! do what it likes. It runs nothing of ours but this file.
#![allow(unsafe_code, reason = "forks, and sets signals and limits of the child")]

use hwlocality::topology::builder::{BuildFlags, TopologyBuilder, TypeFilter};
use std::error::Error;

/// Signals by which a crash ends a process; libFuzzer catches them to report a finding.
const CRASHES: [libc::c_int; 7] =
    [libc::SIGABRT, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGSEGV, libc::SIGTRAP, libc::SIGALRM];

/// Seconds of a CPU that a file may take.
const MOST_SECONDS: libc::rlim_t = 10;

/// Gives a file to libhwloc alone, as discovery would. True also where libhwloc refuses it: what then happens is ours.
pub fn libhwloc_survives(file: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(file) else { return true };
    // SAFETY: see the module; the child leaves by `_exit`.
    match unsafe { libc::fork() } {
        -1 => panic!("cannot fork: {}", std::io::Error::last_os_error()),
        0 => in_the_child(text),
        child => ended_well(child),
    }
}

fn in_the_child(text: &str) -> ! {
    let most = libc::rlimit { rlim_cur: MOST_SECONDS, rlim_max: MOST_SECONDS };
    for signal in CRASHES {
        // SAFETY: no handler of ours is taken away.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    // SAFETY: `most` is a limit, and the process is this function's own.
    unsafe { libc::setrlimit(libc::RLIMIT_CPU, &most) };
    // SAFETY: nothing here owns standard error.
    unsafe { libc::close(libc::STDERR_FILENO) };
    // A panic of hwlocality's is no crash: discovery meets it in its turn.
    std::panic::set_hook(Box::new(|_| {}));
    let _refusal = std::panic::catch_unwind(|| load(text));
    // SAFETY: ends the process without the handlers that belong to the parent.
    unsafe { libc::_exit(0) }
}

/// The flags are those of `gpu-tune-discover`: otherwise a crash would be found there, and ends the run.
fn load(text: &str) -> Result<(), Box<dyn Error>> {
    let builder = TopologyBuilder::new().from_xml(text)?;
    let builder = builder.with_flags(BuildFlags::INCLUDE_DISALLOWED)?.with_io_type_filter(TypeFilter::KeepAll)?;
    drop(builder.build()?);
    Ok(())
}

fn ended_well(child: libc::pid_t) -> bool {
    let mut status = 0;
    loop {
        // SAFETY: `child` is ours, and nobody else waits for it.
        let waited = unsafe { libc::waitpid(child, &mut status, 0) };
        if waited == child {
            return libc::WIFEXITED(status);
        }
        // libFuzzer's clock interrupts.
        let error = std::io::Error::last_os_error();
        assert_eq!(error.kind(), std::io::ErrorKind::Interrupted, "{error}");
    }
}
