//! The second witness: a task that prints what it finds in itself, without any of gpu-tune's code.
//!
//! One line, `PROBE` and a JSON object: the CPUs of /proc/self/status, what `get_mempolicy` answers, the limits of locked
//! memory, and the whole environment.
#![allow(unsafe_code, reason = "get_mempolicy has no wrapper")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a part of the tests")]

use std::collections::BTreeMap;
use std::io::Write;

fn main() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let locked: Vec<&str> = line(&limits, "Max locked memory").split_whitespace().collect();
    let (policy, nodes) = policy();
    let text = |value: std::ffi::OsString| value.to_string_lossy().into_owned();
    let env: BTreeMap<String, String> = std::env::vars_os().map(|(name, value)| (text(name), text(value))).collect();
    let found = serde_json::json!({
        "cpus": line(&status, "Cpus_allowed_list:").trim(),
        "policy": policy,
        "nodes": nodes,
        "memlock_soft": locked[0],
        "memlock_hard": locked[1],
        "env": env,
    });
    // One write: lines of several tasks do not mix.
    std::io::stdout().write_all(format!("PROBE {found}\n").as_bytes()).unwrap();
}

fn line<'a>(text: &'a str, start: &str) -> &'a str {
    text.lines().find_map(|line| line.strip_prefix(start)).unwrap()
}

fn policy() -> (i32, Vec<usize>) {
    let (mut mode, mut mask) = (0_i32, [0_u64; 512]);
    let bits = mask.len() * 64;
    // SAFETY: the kernel writes one int and at most `bits` bits, for which there is room.
    let answer = unsafe { libc::syscall(libc::SYS_get_mempolicy, &raw mut mode, mask.as_mut_ptr(), bits, 0, 0) };
    assert_eq!(answer, 0, "{}", std::io::Error::last_os_error());
    (mode, (0..bits).filter(|bit| mask[bit / 64] >> (bit % 64) & 1 == 1).collect())
}
