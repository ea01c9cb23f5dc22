//! The second witness: a task that prints what it finds in itself, without any of gpu-tune's code.
//!
//! `probe [MIB]` touches that much fresh memory (default 1) and prints one line, `PROBE` and a JSON object: the CPUs of
//! /proc/self/status, what `get_mempolicy` answers, on which NUMA nodes the memory is (/proc/self/numa_maps), which GPU
//! device nodes may be opened, the limits of locked memory and whether locking works, and the whole environment.
#![allow(unsafe_code, reason = "get_mempolicy and mlock have no wrapper")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a part of the tests")]

use std::collections::BTreeMap;
use std::io::Write;

fn main() {
    let mib: usize = std::env::args().nth(1).map_or(1, |text| text.parse().unwrap());
    let memory = vec![1_u8; mib << 20];
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
        "pages": pages(memory.as_ptr() as u64),
        "devices": devices(),
        "locked": lock(&memory),
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

/// Pages per node of the mapping that holds this address: `N0=4000 N1=96` of the last line that begins below it.
fn pages(address: u64) -> BTreeMap<u32, u64> {
    let maps = std::fs::read_to_string("/proc/self/numa_maps").unwrap_or_default();
    let start = |line: &&str| u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap();
    let mapping = maps.lines().rfind(|line| start(line) <= address).unwrap_or_default();
    let count = |word: &str| {
        let (node, pages) = word.strip_prefix('N')?.split_once('=')?;
        Some((node.parse().ok()?, pages.parse().ok()?))
    };
    mapping.split(' ').filter_map(count).collect()
}

/// A device cgroup answers EPERM. Without a driver the node answers ENXIO: the cgroup let it through.
fn devices() -> Vec<u32> {
    let opens = |number: &u32| match std::fs::File::open(format!("/dev/nvidia{number}")) {
        Ok(_) => true,
        Err(error) => error.raw_os_error() == Some(libc::ENXIO),
    };
    (0..64).filter(opens).collect()
}

fn lock(memory: &[u8]) -> bool {
    // SAFETY: locking pages that we own changes nothing in them.
    unsafe { libc::mlock(memory.as_ptr().cast(), memory.len()) == 0 }
}
