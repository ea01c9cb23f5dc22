//! From a snapshot's body to the plan. Checksum and length are made to fit, or no input would get past them.
#![no_main]

use gpu_tune_engine::snapshot::{FORMAT, decode};
use gpu_tune_fuzz::{Input, plan};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = decode(data);
    let Some(input) = Input::new(data) else { return };
    let crc = crc32fast::hash(input.file);
    let mut file = format!("gpu-tune-snapshot {FORMAT} {crc:08x} {}\n", input.file.len()).into_bytes();
    file.extend_from_slice(input.file);
    if let Ok((machine, _)) = decode(&file) {
        plan(&machine, &input);
    }
});
