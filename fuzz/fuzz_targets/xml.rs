//! From an hwloc XML file to the plan, through libhwloc.
#![no_main]

use gpu_tune_discover::read_xml;
use gpu_tune_fuzz::{Input, plan};
use libfuzzer_sys::fuzz_target;
use std::path::PathBuf;

/// A file of this process's own, in memory where there is such a place.
fn file() -> PathBuf {
    let folder = PathBuf::from("/dev/shm");
    let folder = if folder.is_dir() { folder } else { std::env::temp_dir() };
    folder.join(format!("gpu-tune-fuzz-{}.xml", std::process::id()))
}

fuzz_target!(
    // Discovery catches hwlocality's panics; libFuzzer's hook would abort before that. A panic that nobody catches still
    // ends the run.
    init: std::panic::set_hook(Box::new(|info| eprintln!("{info}"))),
    |data: &[u8]| {
        let Some(input) = Input::new(data) else { return };
        let path = file();
        if std::fs::write(&path, input.file).is_err() {
            return;
        }
        if let Ok((machine, _)) = read_xml(&path) {
            plan(&machine, &input);
        }
    }
);
