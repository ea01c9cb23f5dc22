//! What several rooms' tests share.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A directory of a test's own, removed at its end.
pub(crate) struct TempDir(PathBuf);

impl TempDir {
    /// Makes an empty one; `name` must be the test's own.
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("gpu-tune-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        close(&path, 0o755);
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file, with the directories on the way, and returns its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        let parent = path.parent().unwrap();
        fs::create_dir_all(parent).unwrap();
        close(parent, 0o755);
        fs::write(&path, text).unwrap();
        close(&path, 0o644);
        path
    }
}

/// Gives a mode that does not depend on the umask.
fn close(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
