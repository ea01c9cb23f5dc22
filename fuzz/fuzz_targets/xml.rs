//! From an hwloc XML file to the plan, through libhwloc.
//!
//! libhwloc itself crashes on some files. In the command that happens in a process of its own; here each file is first given
//! to libhwloc alone in a forked child, and where that child dies the file is passed over. Everything else runs in this
//! process and is a finding: a crash on what libhwloc took, and every panic of our own code, caught or not.
#![no_main]

use gpu_tune_discover::{DiscoverError, read_file, read_xml};
use gpu_tune_fuzz::survivor::libhwloc_survives;
use gpu_tune_fuzz::{Input, plan};
use libfuzzer_sys::fuzz_target;
use std::panic::PanicHookInfo;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file of this process's own, in memory where there is such a place.
fn file() -> PathBuf {
    let folder = PathBuf::from("/dev/shm");
    let folder = if folder.is_dir() { folder } else { std::env::temp_dir() };
    folder.join(format!("gpu-tune-fuzz-{}.xml", std::process::id()))
}

/// Most files do not come as far as libhwloc, and need no child: one that would is seen by the reader that cannot be started.
fn passes_our_check(path: &Path) -> bool {
    matches!(read_file(path, Command::new("/nonexistent/reader")), Ok(_) | Err(DiscoverError::Apart { .. }))
}

/// Discovery catches hwlocality's panics, which are how it refuses a file, and would catch ours too: those end the run here.
fn ends_the_run_unless_hwlocalitys(info: &PanicHookInfo<'_>) {
    if !info.location().is_some_and(|place| place.file().contains("/hwlocality-")) {
        eprintln!("{info}");
        std::process::abort();
    }
}

fuzz_target!(
    init: std::panic::set_hook(Box::new(ends_the_run_unless_hwlocalitys)),
    |data: &[u8]| {
        let Some(input) = Input::new(data) else { return };
        let path = file();
        if std::fs::write(&path, input.file).is_err() || !passes_our_check(&path) || !libhwloc_survives(input.file) {
            return;
        }
        if let Ok((machine, _)) = read_xml(&path) {
            plan(&machine, &input);
        }
    }
);
