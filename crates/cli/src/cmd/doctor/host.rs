//! The node's files and programs, below a root that tests replace by a described node.

use crate::proc::{Proc, own_user};
use gpu_tune_engine::regular;
use gpu_tune_engine::trusted::{self, TrustError};
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Where programs are looked for.
const PLACES: [&str; 7] = [
    "usr/local/bin",
    "usr/local/sbin",
    "usr/bin",
    "usr/sbin",
    "opt/slurm/bin",
    "opt/slurm/sbin",
    "opt/slurm/current/bin",
];

/// How long a program may take. srun waits for a controller that is away.
const PATIENCE: Duration = Duration::from_secs(15);

/// A node.
#[derive(Debug, Clone)]
pub(super) struct Host {
    root: PathBuf,
}

impl Host {
    pub(super) fn at(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// The root itself.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Where an absolute path of the node is found.
    pub(super) fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// The node's own name for a path below the root.
    pub(super) fn on_node(&self, path: &Path) -> PathBuf {
        path.strip_prefix(&self.root).map_or_else(|_| path.to_owned(), |rest| Path::new("/").join(rest))
    }

    /// A file's text; `None` when it is not there, not readable, or a pipe, where a reader would wait.
    pub(super) fn read(&self, path: impl AsRef<Path>) -> Option<String> {
        self.try_read(path).ok()
    }

    /// The same, with the reason where there is none.
    pub(super) fn try_read(&self, path: impl AsRef<Path>) -> io::Result<String> {
        let mut bytes = Vec::new();
        regular::open(&self.path(path))?.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    pub(super) fn exists(&self, path: impl AsRef<Path>) -> bool {
        self.path(path).exists()
    }

    pub(super) fn proc(&self) -> Proc {
        Proc::at(self.path("/proc"))
    }

    /// The processes of this name, by `comm`, that are root's or our own: everybody can give a program any name. Root also
    /// looks at the program's file, because a set-uid program under another name is root's, too.
    pub(super) fn processes(&self, name: &str) -> Vec<u32> {
        let proc = self.proc();
        let named = |pid: &u32| self.read(format!("/proc/{pid}/comm")).is_some_and(|comm| comm.trim() == name);
        let looks = self.root == Path::new("/") && own_user() == 0;
        let file = |pid: &u32| fs::read_link(self.path(format!("/proc/{pid}/exe"))).ok();
        let is_program = |pid: &u32| file(pid).is_some_and(|file| file.file_name().is_some_and(|file| file == name));
        let ours = |pid: &u32| proc.is_trusted(*pid) && (!looks || is_program(pid));
        proc.pids().into_iter().filter(|pid| named(pid) && ours(pid)).collect()
    }

    /// The name that Slurm knows the node by: the host's, up to the first dot.
    pub(super) fn name(&self) -> String {
        let name = self.read("/proc/sys/kernel/hostname").unwrap_or_default();
        name.trim().split('.').next().unwrap_or_default().to_owned()
    }

    /// What a program of Slurm's prints, both streams; `None` when there is no such program or it takes too long. One that
    /// others can have written is not started, least of all by root.
    pub(super) fn run(
        &self,
        program: &str,
        args: &[&str],
        slurm_conf: Option<&Path>,
    ) -> Result<Option<String>, TrustError> {
        let places = PLACES.iter().map(|place| self.root.join(place).join(program));
        let Some(path) = places.into_iter().find(|path| path.is_file()) else { return Ok(None) };
        trusted::check_linked(&path)?;
        Ok(said(Command::new(path).args(args), slurm_conf))
    }
}

fn said(command: &mut Command, slurm_conf: Option<&Path>) -> Option<String> {
    if own_user() == 0 {
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    }
    command
        .envs(slurm_conf.map(|path| ("SLURM_CONF", path)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().ok()?;
    let readers = (drain(child.stdout.take()), drain(child.stderr.take()));
    let end = Instant::now() + PATIENCE;
    while child.try_wait().ok()?.is_none() {
        if Instant::now() > end {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        thread::sleep(Duration::from_millis(10));
    }
    Some(readers.0.join().ok()? + &readers.1.join().ok()?)
}

/// Reads to the end beside the process, so that a full pipe cannot stop it.
fn drain(pipe: Option<impl std::io::Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // What was read until an error is still worth showing.
            let _ = pipe.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Whether it is only kept from us, who are not root as steps are.
pub(super) fn is_denied(error: &TrustError) -> bool {
    error.is_denied() && own_user() != 0
}
