//! Keeps what C libraries print on stderr away from the user's terminal, and hands it to the caller.
//!
//! libhwloc prints banners of many lines when firmware contradicts itself, and a switch for that exists only as an
//! environment variable, which a Rust program cannot set safely once it runs. So fd 2 points to a memory file while such a
//! library runs.

use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io::{Read, Seek, stderr};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

/// fd 2 belongs to the whole process: one at a time.
static STDERR: Mutex<()> = Mutex::new(());

/// The most that is kept of what a library prints, in bytes.
const MOST: u64 = 64 * 1024;

/// Runs `work`; whatever it or a library prints on stderr comes back as text. Where stderr cannot be redirected, `work`
/// runs all the same.
pub(crate) fn run<T>(work: impl FnOnce() -> T) -> (T, String) {
    let _one_at_a_time = STDERR.lock().unwrap_or_else(PoisonError::into_inner);
    let Ok(mut redirected) = Redirected::new() else { return (work(), String::new()) };
    let result = work();
    let text = redirected.text();
    (result, text)
}

/// fd 2 redirected to a memory file, until dropped.
struct Redirected {
    before: OwnedFd,
    file: File,
}

impl Redirected {
    fn new() -> std::io::Result<Self> {
        let before = rustix::io::fcntl_dupfd_cloexec(stderr(), 3)?;
        let file = File::from(memfd_create("gpu-tune-stderr", MemfdFlags::CLOEXEC)?);
        rustix::stdio::dup2_stderr(&file)?;
        Ok(Self { before, file })
    }

    fn text(&mut self) -> String {
        let mut bytes = Vec::new();
        let read = self.file.rewind().and_then(|()| (&mut self.file).take(MOST).read_to_end(&mut bytes));
        read.map(|_| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }
}

impl Drop for Redirected {
    fn drop(&mut self) {
        // If this fails there is no stderr left to say so on.
        let _ = rustix::stdio::dup2_stderr(&self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn what_is_written_to_stderr_comes_back_as_text() {
        let ((), text) = run(|| writeln!(stderr(), "* hwloc has encountered something").unwrap());
        assert_eq!(text, "* hwloc has encountered something\n");
    }
}
