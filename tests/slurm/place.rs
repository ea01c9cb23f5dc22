//! Where a test's Slurm lives: this host, or a directory tree that is entered with chroot.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use std::time::Duration;

/// A directory of a test's own, and how programs are started in it.
pub struct Place {
    root: Option<PathBuf>,
    dir: PathBuf,
}

impl Place {
    /// A fresh directory where the tests' Slurm lives.
    pub fn new() -> Self {
        Self::in_root(root())
    }

    /// A fresh directory of a tree, or of this host. Root's and closed to others, as is everything on the way to it, since
    /// that is what the plugin trusts.
    pub fn in_root(root: Option<PathBuf>) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = PathBuf::from(format!("/tmp/gpu-tune-slurm-{}-{count}", std::process::id()));
        let place = Self { root, dir };
        let outside = place.outside("");
        let _ = std::fs::remove_dir_all(&outside);
        for sub in ["bin", "lib", "etc/profiles.d", "dev", "ctld", "spool", "state"] {
            std::fs::create_dir_all(outside.join(sub)).unwrap();
        }
        let closed = Command::new("chmod").args(["-R", "go-w,a+rX"]).arg(&outside).status().unwrap();
        assert!(closed.success());
        // Where tasks of any user write.
        let open = Command::new("mkdir").args(["-m", "1777"]).arg(outside.join("out")).status().unwrap();
        assert!(open.success());
        place
    }

    /// A path as programs of the place see it.
    pub fn inside(&self, path: &str) -> PathBuf {
        self.dir.join(path)
    }

    /// The same path as this test sees it.
    pub fn outside(&self, path: &str) -> PathBuf {
        let inside = self.inside(path);
        match &self.root {
            Some(root) => root.join(inside.strip_prefix("/").unwrap()),
            None => inside,
        }
    }

    /// The root directory that programs of the place see.
    pub fn root(&self) -> PathBuf {
        self.root.clone().unwrap_or_else(|| PathBuf::from("/"))
    }

    /// Writes a file and returns its path as programs of the place see it.
    pub fn write(&self, path: &str, text: &str) -> PathBuf {
        std::fs::write(self.outside(path), text).unwrap();
        self.inside(path)
    }

    /// Writes a shell script that can be run, also in the place of a program, and returns its path as programs of the
    /// place see it.
    pub fn script(&self, path: &str, text: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let outside = self.outside(path);
        // A program that runs cannot be written to.
        let _ = std::fs::remove_file(&outside);
        std::fs::write(&outside, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(outside, std::fs::Permissions::from_mode(0o755)).unwrap();
        self.inside(path)
    }

    /// A program of the place.
    pub fn command(&self, program: &str) -> Command {
        let mut command = match &self.root {
            Some(root) => {
                let mut command = Command::new("chroot");
                command.arg(root).arg(program);
                command
            }
            None => Command::new(program),
        };
        // Nothing of a Slurm or a gpu-tune around the test gets in.
        for (name, _) in std::env::vars_os() {
            let name_text = name.to_string_lossy();
            if ["SLURM", "GPU_TUNE", "NCCL_", "OMP_"].iter().any(|start| name_text.starts_with(start)) {
                command.env_remove(&name);
            }
        }
        command.current_dir("/").env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        command
    }

    /// The ends of all logs, for a test that fails.
    pub fn logs(&self) -> String {
        let mut text = String::new();
        let logs = std::fs::read_dir(self.outside("")).into_iter().flatten().flatten().map(|entry| entry.path());
        for log in logs.filter(|path| path.extension().is_some_and(|ext| ext == "log")) {
            let lines = std::fs::read_to_string(&log).unwrap_or_default();
            let last: Vec<&str> = lines.lines().rev().take(30).collect();
            text.push_str(&format!("--- {}\n", log.display()));
            last.iter().rev().for_each(|line| text.push_str(&format!("{line}\n")));
        }
        text
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if std::thread::panicking() && std::env::var_os("GPU_TUNE_KEEP").is_some() {
            println!("kept: {}", self.outside("").display());
            return;
        }
        let _ = std::fs::remove_dir_all(self.outside(""));
    }
}

/// The tree whose Slurm is tested; `None`: this host's.
pub fn root() -> Option<PathBuf> {
    std::env::var_os("GPU_TUNE_SLURM_ROOT").map(PathBuf::from)
}

/// Times that are enough on a machine of its own, longer where everything is slower (`GPU_TUNE_PATIENCE`, a factor).
pub fn patience(seconds: u64) -> Duration {
    let factor = std::env::var("GPU_TUNE_PATIENCE").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    Duration::from_secs(seconds * factor)
}

/// What keeps a real Slurm from running here.
pub fn missing() -> Option<String> {
    if !Path::new("/proc/self/status").exists() || !is_root() {
        return Some("starting slurmd needs root".to_owned());
    }
    let there = |path: &str| root().unwrap_or_else(|| PathBuf::from("/")).join(path).exists();
    let needed = ["usr/sbin/slurmctld", "usr/sbin/slurmd", "usr/bin/srun"];
    needed.into_iter().find(|path| !there(path)).map(|path| format!("no /{path}: `make test` installs it"))
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|meta| meta.uid() == 0)
}

/// Starts the munged that all tests share, unless one answers. It is left running.
pub fn munged() {
    let answers = || Command::new("munge").arg("-n").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if answers().is_ok_and(|status| status.success()) {
        return;
    }
    let script = "mkdir -p /run/munge && chown munge:munge /run/munge && exec su -s /bin/sh munge -c /usr/sbin/munged";
    let _ = Command::new("sh").args(["-c", script]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    for _ in 0..50 {
        if answers().is_ok_and(|status| status.success()) {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("munged does not answer");
}

/// So many neighbouring ports that nobody listens on.
pub fn free_ports(count: u16) -> u16 {
    const FIRST: u16 = 20_000;
    const RANGE: u16 = 4_900;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let own = u16::try_from(std::process::id() % u32::from(RANGE)).unwrap();
    loop {
        let step = NEXT.fetch_add(count, Ordering::Relaxed);
        let first = FIRST + (own.wrapping_mul(17) % RANGE + step) % RANGE;
        if (first..first + count).all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok()) {
            return first;
        }
    }
}
