//! Puts the stand-in where a test wants it.

use std::io;
use std::path::{Path, PathBuf};

/// Copies the stand-in into `folder` as `libnvidia-ml.so.1`, with `description` beside it, and returns the library's path.
/// For tests that cargo builds: the stand-in then lies beside their own program.
pub fn install(folder: &Path, description: &str) -> io::Result<PathBuf> {
    let built = std::env::current_exe()?.with_file_name("libfake_nvml.so");
    let library = folder.join("libnvidia-ml.so.1");
    std::fs::copy(&built, &library).map_err(|error| io::Error::other(format!("{}: {error}", built.display())))?;
    std::fs::write(folder.join("libnvidia-ml.so.1.json"), description)?;
    Ok(library)
}
