//! What the kernel tells about other processes, below a root that tests replace by a tree of their own.
//!
//! Every file is read up to a bound: a process may declare any part of its memory its arguments and environment
//! (`PR_SET_MM_MAP`, prctl(2)), gigabytes of it, and root reads what every user's processes have there.

use gpu_tune_engine::CpuSet;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// How far up the line of a process is worth a look. Some bound there must be: a number that was given anew while we read can
/// make two processes each other's parent.
pub const GENERATIONS: usize = 16;

/// A longer environment is an error. The kernel starts no program with more than 6 MiB of arguments and environment together
/// (fs/exec.c, `bprm_stack_limits`).
const ENVIRON: u64 = 8 << 20;
/// And so is one of more variables: taken apart, small ones are many times their size.
const VARIABLES: usize = 1 << 16;
/// Of a longer command line the words within it.
const CMDLINE: u64 = 1 << 20;
/// For files in which the kernel writes a few lines. `Groups` in a status may name 65536.
const FEW_LINES: u64 = 1 << 20;
/// `numa_maps` has a line of about a hundred bytes for each mapping, and a process some ten thousand at most by default
/// (`vm.max_map_count`).
const NUMA_MAPS: u64 = 64 << 20;

/// A `/proc`.
#[derive(Debug, Clone)]
pub struct Proc {
    root: PathBuf,
}

/// An environment as the process was started with it; later changes of its own do not show.
pub type Environ = BTreeMap<String, String>;

/// One thread and where it may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    /// Its id; the process's own for the first thread.
    pub tid: u32,
    /// Its name, which libraries set (`pt_autograd_0`, `NCCL Progress 1`).
    pub name: String,
    /// `Cpus_allowed_list`.
    pub cpus: CpuSet,
}

/// What `numa_maps` tells of a process's memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    /// The process's own policy, that of its stack, as the kernel writes it (`default`, `prefer:1`, `bind:0-1`).
    pub policy: String,
    /// Bytes on each NUMA node.
    pub bytes: BTreeMap<u32, u64>,
}

impl Proc {
    /// The one at this place: `/proc`, or a copy.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// All processes, ascending.
    pub fn pids(&self) -> Vec<u32> {
        numbers(&self.root)
    }

    /// The environment. Only root and the process's own user may read it. `FileTooLarge`: it is bigger than any that a program
    /// is started with.
    pub fn environ(&self, pid: u32) -> io::Result<Environ> {
        let bytes = whole(&self.file(pid, "environ"), ENVIRON)?;
        let entries = bytes.split(|byte| *byte == 0).filter(|entry| !entry.is_empty());
        if entries.clone().count() > VARIABLES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let entries = entries.map(String::from_utf8_lossy);
        Ok(entries.filter_map(|entry| entry.split_once('=').map(|(n, v)| (n.to_owned(), v.to_owned()))).collect())
    }

    /// The command line; of one longer than 1 MiB what is before that.
    pub fn cmdline(&self, pid: u32) -> io::Result<Vec<String>> {
        let bytes = start(&self.file(pid, "cmdline"), CMDLINE)?;
        let args = bytes.split(|byte| *byte == 0).map(|arg| String::from_utf8_lossy(arg).into_owned());
        let mut args: Vec<String> = args.collect();
        if args.last().is_some_and(String::is_empty) {
            args.pop();
        }
        Ok(args)
    }

    /// Its control groups, one line for each hierarchy; empty where there are none.
    pub fn cgroup(&self, pid: u32) -> String {
        text(&self.file(pid, "cgroup"), FEW_LINES).unwrap_or_default()
    }

    /// The parent's pid; 0 for the first process and for one that is gone.
    pub fn parent(&self, pid: u32) -> u32 {
        let status = text(&self.file(pid, "status"), FEW_LINES).unwrap_or_default();
        field(&status, "PPid").and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    /// The process and what is above it, without the first of all. It may have no end ([`GENERATIONS`]).
    pub fn line(&self, pid: u32) -> impl Iterator<Item = u32> {
        std::iter::successors(Some(pid), |pid| Some(self.parent(*pid)).filter(|parent| *parent > 1))
    }

    /// Its user: the real one, whom a set-uid program keeps. `None` when it is gone.
    pub fn user(&self, pid: u32) -> Option<u32> {
        self.users(pid)?.first().copied()
    }

    /// Whether nobody but root or our own user had a hand in it, so that its name and its words are no stranger's.
    pub fn is_trusted(&self, pid: u32) -> bool {
        let trusted = |user: &u32| *user == 0 || *user == own_user();
        self.users(pid).is_some_and(|users| users.len() == 4 && users.iter().all(trusted))
    }

    /// Real, effective, saved and file system user.
    fn users(&self, pid: u32) -> Option<Vec<u32>> {
        let status = text(&self.file(pid, "status"), FEW_LINES).ok()?;
        field(&status, "Uid")?.split_whitespace().map(|id| id.parse().ok()).collect()
    }

    /// All threads, the first one first. Threads that end meanwhile are left out.
    pub fn threads(&self, pid: u32) -> io::Result<Vec<Thread>> {
        let folder = self.file(pid, "task");
        fs::metadata(&folder)?;
        let read = |tid: u32| {
            let status = text(&folder.join(tid.to_string()).join("status"), FEW_LINES).ok()?;
            let cpus = field(&status, "Cpus_allowed_list")?.parse().ok()?;
            Some(Thread { tid, name: field(&status, "Name").unwrap_or_default().to_owned(), cpus })
        };
        Ok(numbers(&folder).into_iter().filter_map(read).collect())
    }

    /// Its memory policy and where its memory is. Kernels without NUMA have no such file.
    pub fn memory(&self, pid: u32) -> io::Result<Memory> {
        Ok(memory(&text(&self.file(pid, "numa_maps"), NUMA_MAPS)?))
    }

    fn file(&self, pid: u32, name: &str) -> PathBuf {
        self.root.join(pid.to_string()).join(name)
    }
}

/// The first bytes of a file, all where there are no more.
fn start(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A file that has no more bytes than this.
fn whole(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let bytes = start(path, most + 1)?;
    let fits = u64::try_from(bytes.len()).is_ok_and(|length| length <= most);
    fits.then_some(bytes).ok_or_else(|| io::ErrorKind::FileTooLarge.into())
}

/// The same as text. Names in it may be any bytes.
fn text(path: &Path, most: u64) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&whole(path, most)?).into_owned())
}

/// Our effective user, whose our own directory in /proc is; nobody's number where there is no /proc.
pub fn own_user() -> u32 {
    fs::metadata("/proc/self").map_or(u32::MAX, |meta| meta.uid())
}

/// The names in a directory that are numbers, ascending.
fn numbers(folder: &Path) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut numbers: Vec<u32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

/// The value of `NAME:\tvalue` in a status file.
fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// A line is `ADDRESS POLICY WORD…`, for each mapping (Documentation/filesystems/proc.rst; mm/mempolicy.c). A mapping
/// without a policy of its own shows the process's, so the stack, to which nobody gives one, tells the process's policy.
fn memory(maps: &str) -> Memory {
    let mut memory = Memory::default();
    let mut first = None;
    for line in maps.lines() {
        let Some((policy, words)) = line.split_once(' ').map(|(_, rest)| split_policy(rest)) else { continue };
        first.get_or_insert(policy);
        if words.split(' ').any(|word| word == "stack") {
            memory.policy = policy.to_owned();
        }
        add_pages(&mut memory.bytes, words);
    }
    if memory.policy.is_empty() {
        memory.policy = first.unwrap_or_default().to_owned();
    }
    memory
}

/// `prefer (many):0-1` is the one policy with a blank in it.
fn split_policy(rest: &str) -> (&str, &str) {
    let start = if rest.starts_with("prefer (many)") { "prefer (many)".len() } else { 0 };
    let end = rest.get(start..).and_then(|tail| tail.find(' ')).map_or(rest.len(), |at| start + at);
    (rest.get(..end).unwrap_or_default(), rest.get(end..).unwrap_or_default())
}

/// `N0=12 N1=3 kernelpagesize_kB=4`.
fn add_pages(bytes: &mut BTreeMap<u32, u64>, words: &str) {
    let value = |name: &str| words.split(' ').find_map(|word| word.strip_prefix(name)?.parse::<u64>().ok());
    let page = value("kernelpagesize_kB=").unwrap_or(4) * 1024;
    for word in words.split(' ') {
        let count = word.strip_prefix('N').and_then(|rest| rest.split_once('='));
        if let Some((Ok(node), Ok(pages))) = count.map(|(node, pages)| (node.parse::<u32>(), pages.parse::<u64>())) {
            *bytes.entry(node).or_default() += pages * page;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numa_maps_gives_the_stacks_policy_and_all_pages() {
        let text = "\
            7f0000000000 bind:0 anon=4 dirty=4 N0=4 kernelpagesize_kB=4\n\
            7f0000200000 prefer (many):0-1 anon=2 N0=1 N1=1 kernelpagesize_kB=2048\n\
            7ffc00000000 prefer (many):0-1 stack anon=3 dirty=3 N1=3 kernelpagesize_kB=4\n";
        let read = memory(text);
        assert_eq!(read.policy, "prefer (many):0-1");
        assert_eq!(read.bytes, BTreeMap::from([(0, 4 * 4096 + (2 << 20)), (1, 3 * 4096 + (2 << 20))]));
    }

    #[test]
    fn without_a_stack_the_first_mapping_tells() {
        assert_eq!(memory("5500 default file=/bin/x mapped=1 N0=1 kernelpagesize_kB=4\n").policy, "default");
        assert_eq!(memory("").policy, "");
    }

    #[test]
    fn every_file_is_read_up_to_a_bound() {
        let root = std::env::temp_dir().join(format!("gpu-tune-proc-{}", std::process::id()));
        let proc = Proc::at(&root);
        fs::create_dir_all(root.join("7")).unwrap();
        let write = |name: &str, bytes: &[u8]| fs::write(root.join("7").join(name), bytes).unwrap();
        let of_length = |start: &[u8], length: u64| [start, &vec![b'x'; usize::try_from(length).unwrap()]].concat();
        write("environ", &of_length(b"A=", ENVIRON - 2));
        assert_eq!(proc.environ(7).unwrap().len(), 1);
        write("environ", &of_length(b"A=", ENVIRON - 1));
        assert_eq!(proc.environ(7).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        write("environ", (0..VARIABLES).map(|number| format!("{number}=\0")).collect::<String>().as_bytes());
        assert_eq!(proc.environ(7).unwrap().len(), VARIABLES);
        write("environ", "A=\0".repeat(VARIABLES + 1).as_bytes());
        assert_eq!(proc.environ(7).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        write("cmdline", &of_length(b"mpirun\0", 2 * CMDLINE));
        let words = proc.cmdline(7).unwrap();
        assert_eq!((words[0].as_str(), words.len(), words[1].len()), ("mpirun", 2, (1 << 20) - 7));
        write("status", &of_length(b"PPid:\t3\n", FEW_LINES));
        assert_eq!((proc.parent(7), proc.user(7)), (0, None));
        write("cgroup", &of_length(b"0::/slurm", FEW_LINES));
        assert_eq!(proc.cgroup(7), "");
        write("numa_maps", &of_length(b"7f00 default N0=1 ", NUMA_MAPS));
        assert_eq!(proc.memory(7).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn this_process_can_be_read() {
        let (proc, pid) = (Proc::at("/proc"), std::process::id());
        assert!(proc.pids().contains(&pid));
        assert!(proc.threads(pid).unwrap().iter().any(|thread| thread.tid == pid && !thread.cpus.is_empty()));
        assert_eq!(proc.environ(pid).unwrap().contains_key("PATH"), std::env::var_os("PATH").is_some());
        assert!(proc.parent(pid) > 0);
        assert!(!proc.cmdline(pid).unwrap().is_empty());
        assert!(proc.is_trusted(pid) && proc.user(pid) == Some(own_user()));
    }
}
