//! What the tests of the built program share.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

/// Runs the program without colour and without anything of this host that could matter.
pub(crate) fn gpu_tune(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpu-tune"));
    command.args(args).env_remove("GPU_TUNE").output().expect("the program starts")
}

/// Exit status, stdout and stderr as one text to compare.
pub(crate) fn told(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let status = output.status.code().map_or("killed".to_owned(), |code| code.to_string());
    format!("exit {status}\n--- stdout\n{}--- stderr\n{}", text(&output.stdout), text(&output.stderr))
}

/// An empty directory of this test's own.
pub(crate) fn scratch(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).expect("a scratch directory");
    path
}

/// A pipe that nobody writes into.
pub(crate) fn pipe(path: PathBuf) -> PathBuf {
    assert!(Command::new("mkfifo").arg(&path).status().expect("mkfifo starts").success());
    path
}

/// Where the collection of real machines is, which is not part of the project.
fn collection() -> PathBuf {
    let shared = std::env::var_os("GPU_TUNE_SHARED").map(PathBuf::from);
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    shared.unwrap_or_else(beside).join("topologies")
}

/// All its files; none, with a line, where it is absent.
pub(crate) fn topologies() -> Vec<String> {
    let folder = collection();
    let entries = fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let files: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|end| end == "xml")).collect();
    if files.is_empty() {
        println!("skipped: {} is not here", folder.display());
    }
    files.iter().filter_map(|path| path.to_str().map(str::to_owned)).collect()
}

/// One of its files; `None`, with a line, where it is absent.
pub(crate) fn topology(name: &str) -> Option<String> {
    let path = collection().join(name);
    if path.exists() {
        return path.to_str().map(str::to_owned);
    }
    println!("skipped: {} is not here", path.display());
    None
}
