//! The shared collection of machines, which is no part of the project.

use std::path::{Path, PathBuf};

/// A file of the collection (`GPU_TUNE_SHARED`, or `shared` beside the repository); `None`, and said so, when it is not
/// there.
pub(crate) fn file(name: &str) -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let path = std::env::var_os("GPU_TUNE_SHARED").map_or_else(beside, PathBuf::from).join(name);
    let found = path.exists();
    if !found {
        println!("skipped: no {} (GPU_TUNE_SHARED names another folder)", path.display());
    }
    found.then_some(path)
}
