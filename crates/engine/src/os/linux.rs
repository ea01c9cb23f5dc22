//! The kernel itself.
//!
//! glibc has no wrapper for the memory policy calls, and its `cpu_set_t` ends at CPU 1023, so all four calls go through
//! `syscall(2)` with bit masks of whatever length is needed.
#![allow(unsafe_code, reason = "system calls")]

use super::{Kind, Os, Policy};
use crate::plan::{MemKind, Memory};
use crate::{CpuSet, IdSet, NodeSet};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::atomic::AtomicU64;

/// The calling thread, by the running kernel.
#[derive(Debug, Default, Clone, Copy)]
pub struct Linux;

/// One word of a kernel bit mask (`unsigned long`).
type Word = libc::c_ulong;
const WORD_BITS: u32 = Word::BITS;
/// Words of the first buffer offered to the kernel: 1024 ids.
const FIRST_WORDS: usize = 1024 / WORD_BITS as usize;
/// Words at which we stop growing the buffer: 64 Ki ids, as [`crate::idset::MAX_ID`].
const MOST_WORDS: usize = 65_536 / WORD_BITS as usize;

// linux/mempolicy.h. A part of the kernel's ABI; libc lacks the newer ones on some targets.
const MPOL_DEFAULT: i32 = 0;
const MPOL_PREFERRED: i32 = 1;
const MPOL_BIND: i32 = 2;
const MPOL_PREFERRED_MANY: i32 = 5;
/// For `get_mempolicy`: the nodes on which the cpuset lets the thread have memory.
const MPOL_F_MEMS_ALLOWED: libc::c_ulong = 4;
/// Flags such as `MPOL_F_STATIC_NODES` that travel in the mode's upper bits.
const MPOL_MODE_FLAGS: i32 = 0xe000;

impl Os for Linux {
    fn set_affinity(&mut self, cpus: &CpuSet) -> io::Result<()> {
        let mask = to_mask(cpus);
        let bytes = std::mem::size_of_val(mask.as_slice());
        // SAFETY: the kernel reads `bytes` bytes from the mask, which lives until the call returns.
        let answer = unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, bytes, mask.as_ptr()) };
        check(answer).map(drop)
    }

    fn get_affinity(&mut self) -> io::Result<CpuSet> {
        // The kernel refuses a buffer shorter than its number of possible CPUs with EINVAL, and says how many bytes it wrote.
        grow(|mask| {
            let bytes = std::mem::size_of_val(mask);
            // SAFETY: the kernel writes at most `bytes` bytes into the mask, which is that long.
            let answer = unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, bytes, mask.as_mut_ptr()) };
            check(answer).map(|_| ())
        })
        .map(|((), cpus)| cpus)
    }

    fn set_mempolicy(&mut self, memory: &Memory) -> io::Result<()> {
        match memory.policy {
            MemKind::Bind => mempolicy(MPOL_BIND, &memory.nodes),
            MemKind::Preferred if memory.nodes.len() == 1 => mempolicy(MPOL_PREFERRED, &memory.nodes),
            // Before Linux 5.15 the kernel can prefer only a single node, and answers EINVAL to the newer mode.
            MemKind::Preferred => {
                mempolicy(MPOL_PREFERRED_MANY, &memory.nodes).or_else(|error| match error.raw_os_error() {
                    Some(libc::EINVAL) => mempolicy(MPOL_PREFERRED, &NodeSet::from_iter([memory.first])),
                    _ => Err(error),
                })
            }
        }
    }

    fn get_mempolicy(&mut self) -> io::Result<Policy> {
        let (mode, nodes) = ask_mempolicy(0)?;
        let kind = match mode & !MPOL_MODE_FLAGS {
            MPOL_DEFAULT => Kind::Default,
            MPOL_PREFERRED | MPOL_PREFERRED_MANY => Kind::Preferred,
            MPOL_BIND => Kind::Bind,
            other => Kind::Other(other),
        };
        Ok(Policy { kind, nodes })
    }

    fn mems_allowed(&mut self) -> io::Result<NodeSet> {
        // The same set as in /proc/self/status, which takes the kernel 50 µs to write. Container runtimes refuse the call.
        ask_mempolicy(MPOL_F_MEMS_ALLOWED).map(|(_, nodes)| nodes).or_else(|_| mems_of_status())
    }
}

/// The mode and the nodes of the thread's policy, or with [`MPOL_F_MEMS_ALLOWED`] no mode and its cpuset's nodes.
fn ask_mempolicy(flags: libc::c_ulong) -> io::Result<(i32, NodeSet)> {
    // As with CPUs, a mask shorter than the kernel's number of nodes is EINVAL.
    grow(|mask| {
        let mut mode = 0_i32;
        let bits = mask.len() * WORD_BITS as usize;
        // SAFETY: the kernel writes one int to `mode` and at most `bits` bits to the mask, which holds that many; with
        // neither flags nor this one it does not use the address.
        let answer =
            unsafe { libc::syscall(libc::SYS_get_mempolicy, &raw mut mode, mask.as_mut_ptr(), bits, 0, flags) };
        check(answer).map(|_| mode)
    })
}

fn mems_of_status() -> io::Result<NodeSet> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let list = status.lines().find_map(|line| line.strip_prefix("Mems_allowed_list:"));
    let list =
        list.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no `Mems_allowed_list` in /proc/self/status"))?;
    list.parse().map_err(|bad| io::Error::new(io::ErrorKind::InvalidData, bad))
}

fn mempolicy(mode: i32, nodes: &NodeSet) -> io::Result<()> {
    let mask = to_mask(nodes);
    // The kernel takes one bit less than `maxnode` says, a quirk as old as the call.
    let bits = mask.len() * WORD_BITS as usize + 1;
    // SAFETY: the kernel reads `bits - 1` bits from the mask, which lives until the call returns.
    check(unsafe { libc::syscall(libc::SYS_set_mempolicy, mode, mask.as_ptr(), bits) }).map(drop)
}

/// Asks with longer and longer masks until the kernel takes one.
fn grow<T>(mut ask: impl FnMut(&mut [Word]) -> io::Result<T>) -> io::Result<(T, IdSet)> {
    let mut words = FIRST_WORDS;
    loop {
        let mut mask: Vec<Word> = vec![0; words];
        match ask(&mut mask) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) && words < MOST_WORDS => words *= 2,
            other => return other.map(|value| (value, from_mask(&mask))),
        }
    }
}

/// The shortest mask that holds the set; one word for the empty set.
fn to_mask(set: &IdSet) -> Vec<Word> {
    let words = set.last().map_or(1, |last| (last / WORD_BITS) as usize + 1);
    let mut mask: Vec<Word> = vec![0; words];
    for id in set.iter() {
        if let Some(word) = mask.get_mut((id / WORD_BITS) as usize) {
            *word |= 1 << (id % WORD_BITS);
        }
    }
    mask
}

fn from_mask(mask: &[Word]) -> IdSet {
    let bits = |(at, word): (u32, &Word)| {
        let word = *word;
        (0..WORD_BITS).filter(move |bit| word & (1 << bit) != 0).map(move |bit| at * WORD_BITS + bit)
    };
    (0..).zip(mask).flat_map(bits).collect()
}

fn check(answer: libc::c_long) -> io::Result<libc::c_long> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer) }
}

/// Sets both the soft and the hard limit of locked memory (`RLIMIT_MEMLOCK`) of the calling process, in bytes;
/// `None` is without limit.
///
/// # Errors
/// `EPERM` when the hard limit would rise and the process lacks `CAP_SYS_RESOURCE`.
pub fn set_memlock(bytes: Option<u64>) -> io::Result<()> {
    let value = bytes.unwrap_or(libc::RLIM_INFINITY);
    let limit = libc::rlimit { rlim_cur: value, rlim_max: value };
    // SAFETY: the kernel reads one `rlimit`, which lives until the call returns.
    check(libc::c_long::from(unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const limit) })).map(drop)
}

/// Soft and hard limit of locked memory in bytes; `None` is without limit.
///
/// # Errors
/// What the kernel says.
pub fn memlock() -> io::Result<(Option<u64>, Option<u64>)> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes one `rlimit` to the variable.
    check(libc::c_long::from(unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit) }))?;
    let known = |value| (value != libc::RLIM_INFINITY).then_some(value);
    Ok((known(limit.rlim_cur), known(limit.rlim_max)))
}

/// Makes a command start on its own: in a session of its own, and with no file of ours but the three standard ones. slurmd's
/// listening sockets, for one, must not live on in it.
pub fn alone(command: &mut Command) -> &mut Command {
    // SAFETY: the closure runs between fork and exec and makes two system calls; it allocates nothing and takes no lock.
    unsafe { command.pre_exec(own_session) }
}

/// Kills a child that was started [`alone`], with all that it started itself. The child is still to be waited for.
///
/// # Errors
/// `ESRCH` when nobody is there any more.
pub fn kill_session(child: &Child) -> io::Result<()> {
    let group = libc::pid_t::try_from(child.id()).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?;
    // SAFETY: plain numbers. The child has not been waited for, so its number cannot be another's by now.
    check(libc::c_long::from(unsafe { libc::kill(-group, libc::SIGKILL) })).map(drop)
}

/// Makes a command start as [`alone`] does and also with no parent: what was spawned ends at once (wait for it, that takes no
/// time), the command is init's child.
pub fn detach(command: &mut Command) -> &mut Command {
    // SAFETY: as in `alone`; the closure's own fork is followed by `_exit` on one side and exec on the other.
    unsafe { alone(command).pre_exec(leave_parent) }
}

fn own_session() -> io::Result<()> {
    // SAFETY: no argument. A process that leads a session already is none the worse for the refusal.
    unsafe { libc::setsid() };
    // SAFETY: plain numbers. Before Linux 5.11 the flag is unknown: then files that lack O_CLOEXEC are handed on.
    unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    Ok(())
}

fn leave_parent() -> io::Result<()> {
    // SAFETY: the child goes on to exec; nothing but async-signal-safe calls happens on either side.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(()),
        _ => end_now(0),
    }
}

/// Ends the process at once: no destructor, no `atexit`. For a child between fork and exec, where those belong to somebody
/// else.
pub fn end_now(code: i32) -> ! {
    // SAFETY: it does not return and touches no memory of ours.
    unsafe { libc::_exit(code) }
}

/// Words of memory that a process shares with the children it will fork. All start as 0. The memory is given back when the
/// value is dropped in the process that made it, or when a process ends.
#[derive(Debug)]
pub struct SharedWords {
    start: *const AtomicU64,
    len: usize,
}

// SAFETY: the memory is only ever used through atomics, and the mapping belongs to this value.
unsafe impl Send for SharedWords {}
// SAFETY: as above.
unsafe impl Sync for SharedWords {}

impl SharedWords {
    /// Maps `len` words, at least one.
    ///
    /// # Errors
    /// `ENOMEM`, or `EINVAL` for a length beyond what the machine can address.
    pub fn new(len: usize) -> io::Result<Self> {
        let len = len.max(1);
        let bytes =
            len.checked_mul(size_of::<AtomicU64>()).ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
        let (prot, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice overlaps nothing.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, prot, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { start: start.cast_const().cast(), len })
    }
}

impl std::ops::Deref for SharedWords {
    type Target = [AtomicU64];

    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is page aligned, `len` words long, zeroed by the kernel, and lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made in `new`, and no reference to it outlives `self`.
        unsafe { libc::munmap(self.start.cast_mut().cast(), self.len * size_of::<AtomicU64>()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_hold_ids_far_beyond_1024() {
        for list in ["0", "63-64", "0-7,1023-1025,8191", "65535"] {
            let set: IdSet = list.parse().unwrap();
            assert_eq!(from_mask(&to_mask(&set)), set, "{list}");
        }
        assert_eq!(to_mask(&IdSet::new()), [0]);
    }

    #[test]
    fn a_buffer_grows_until_the_kernel_takes_it() {
        let mut asked = Vec::new();
        let (value, set) = grow(|mask| {
            asked.push(mask.len());
            if mask.len() < 4 * FIRST_WORDS {
                return Err(io::Error::from_raw_os_error(libc::EINVAL));
            }
            mask[3 * FIRST_WORDS] = 1;
            Ok("taken")
        })
        .unwrap();
        assert_eq!((value, set.to_string().as_str()), ("taken", "3072"));
        assert_eq!(asked, [FIRST_WORDS, 2 * FIRST_WORDS, 4 * FIRST_WORDS]);
        let endless = grow(|_| -> io::Result<()> { Err(io::Error::from_raw_os_error(libc::EINVAL)) });
        assert_eq!(endless.unwrap_err().raw_os_error(), Some(libc::EINVAL));
    }

    /// Runs in a thread of its own: masks and policies are per thread.
    fn in_a_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
        std::thread::spawn(work).join().unwrap()
    }

    fn status(key: &str) -> String {
        let text = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        text.lines().find_map(|line| line.strip_prefix(key)).unwrap().trim().to_owned()
    }

    #[test]
    fn the_kernel_shows_the_mask_that_was_set() {
        in_a_thread(|| {
            let before = Linux.get_affinity().unwrap();
            assert_eq!(before.to_string(), status("Cpus_allowed_list:"));
            let last = CpuSet::from_iter([before.last().unwrap()]);
            Linux.set_affinity(&last).unwrap();
            assert_eq!(status("Cpus_allowed_list:"), last.to_string());
            assert_eq!(Linux.get_affinity().unwrap(), last);
            let none = Linux.set_affinity(&CpuSet::from_iter([60_000])).unwrap_err();
            assert_eq!(none.raw_os_error(), Some(libc::EINVAL));
        });
    }

    /// Whether memory policies can be tested here.
    fn has_policies() -> bool {
        let missing = Linux.get_mempolicy().is_err_and(|error| error.raw_os_error() == Some(libc::ENOSYS));
        if missing {
            println!("skipped: no calls for memory policies here (an emulator, or a kernel without NUMA)");
        }
        !missing
    }

    #[test]
    fn the_kernel_shows_the_policy_that_was_set() {
        in_a_thread(|| {
            if !has_policies() {
                return;
            }
            let nodes = Linux.mems_allowed().unwrap();
            assert_eq!(nodes, mems_of_status().unwrap());
            assert_eq!(nodes.to_string(), status("Mems_allowed_list:"));
            assert_eq!(Linux.get_mempolicy().unwrap(), Policy { kind: Kind::Default, nodes: NodeSet::new() });
            let first = nodes.first().unwrap();
            for policy in [MemKind::Preferred, MemKind::Bind] {
                let memory = Memory { policy, nodes: NodeSet::from_iter([first]), first };
                Linux.set_mempolicy(&memory).unwrap();
                assert_eq!(Linux.get_mempolicy().unwrap(), Policy::from(&memory));
            }
        });
    }

    #[test]
    fn nodes_that_the_kernel_does_not_have_are_refused() {
        in_a_thread(|| {
            if !has_policies() {
                return;
            }
            let nodes = NodeSet::from_iter([60_000, 60_001]);
            let missing = Memory { policy: MemKind::Preferred, nodes, first: 60_000 };
            assert_eq!(Linux.set_mempolicy(&missing).unwrap_err().raw_os_error(), Some(libc::EINVAL));
        });
    }

    #[test]
    fn a_detached_command_has_no_parent_that_would_have_to_wait_for_it() {
        // Another process reads it: emulators make up what a process reads of itself.
        let shell = "set -- $(cat /proc/$$/stat); echo $4 $6 $$";
        let mut command = Command::new("sh");
        command.args(["-c", shell]).stdout(std::process::Stdio::piped());
        let mut child = detach(&mut command).spawn().unwrap();
        let spawned = child.id();
        assert!(child.wait().unwrap().success());
        let said = io::read_to_string(child.stdout.take().unwrap()).unwrap();
        let numbers: Vec<u32> = said.split_whitespace().map(|number| number.parse().unwrap()).collect();
        let [parent, session, own] = numbers.as_slice() else { panic!("{said}") };
        assert_ne!(*parent, std::process::id());
        assert_eq!(*session, spawned, "it is in the session that the first fork made");
        assert_ne!(*own, spawned);
    }

    #[test]
    fn shared_words_begin_at_zero_and_are_really_there() {
        use std::sync::atomic::Ordering::Relaxed;
        let words = SharedWords::new(3).unwrap();
        assert_eq!(words.len(), 3);
        assert!(words.iter().all(|word| word.load(Relaxed) == 0));
        words[2].fetch_add(7, Relaxed);
        assert_eq!(words[2].load(Relaxed), 7);
        assert!(SharedWords::new(usize::MAX).is_err());
    }
}
