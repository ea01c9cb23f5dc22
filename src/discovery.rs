//! Starts `gpu-tune snapshot`, the only program that the plugin ever starts, and reads what it leaves.
//!
//! It runs with a clean environment, from an exact path that only root can have written. A crash or a hang there is a
//! missing snapshot here, never a missing slurmd or slurmstepd.
#![forbid(unsafe_code)]

use gpu_tune_engine::os::linux::{alone, detach, kill_session};
use gpu_tune_engine::snapshot::{self, Key, SnapshotError};
use gpu_tune_engine::spec::SiteConfig;
use gpu_tune_engine::text::{chain, shown_up_to};
use gpu_tune_engine::trusted::{self, TrustError};
use gpu_tune_engine::{Code, Machine, Notice};
use std::error::Error;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long a step waits for a snapshot that slurmd has not made.
const STEP_WAITS: Duration = Duration::from_secs(3);
/// How long the discovery that slurmd starts may take: nobody waits for it.
const SLURMD_ALLOWS: Duration = Duration::from_secs(120);
/// The largest file of `topology=` that is read. hwloc's XML of the biggest machines has a few MiB.
const TOPOLOGY_MOST: u64 = 64 * 1024 * 1024;
/// How many bytes of what the command says are kept.
const WORDS_KEPT: usize = 2000;
/// How many characters of one of its lines are told.
const TOLD: usize = 400;

/// Starts discovery and does not wait: slurmd goes on at once, and has no child to wait for either.
pub(crate) fn start(site: &SiteConfig) {
    let run = |mut command: Command| detach(&mut command).spawn().and_then(|mut child| child.wait());
    let started = command(site, SLURMD_ALLOWS).map(run);
    match started {
        Ok(Ok(_)) => log::debug!("started `{} snapshot`", site.command.display()),
        Ok(Err(error)) => log::info!("cannot start `{} snapshot`: {error}", site.command.display()),
        Err(notice) => log::info!("no snapshot ahead of the first step: {}", notice.message),
    }
}

/// The machine: from the snapshot, or from a discovery that is waited for a few seconds. A snapshot named by `topology=`
/// needs neither. Unless somebody asked for this very step, a node that shows no GPU is not looked at again and again.
pub(crate) fn machine(site: &SiteConfig, asked: bool) -> Result<Machine, Notice> {
    let described = site.topology.as_deref().map(described).transpose()?;
    if let Some(machine) = described.flatten() {
        return Ok(machine);
    }
    let key = Key::of_this_host(Path::new("/")).described_by(Path::new("/"), site.topology.as_deref());
    match snapshot::load(&site.state, &key) {
        Ok(machine) => return Ok(machine),
        Err(error) => log::info!("no usable snapshot in `{}`: {}", site.state.display(), chain(&error)),
    }
    if !asked && site.topology.is_none() && key.gpus.is_empty() {
        let message = "no GPU is seen on this node, ranks are not bound";
        return Err(Notice::new(Code::NoMachine, message).help("`gpu-tune doctor` on the node tells what is missing"));
    }
    discover(site)?;
    let unusable = |error: SnapshotError| no_machine(site, &format!("left nothing usable: {}", chain(&error)));
    snapshot::load(&site.state, &key).map_err(unusable)
}

/// The machine of a file that is a snapshot itself; `None` for another kind of file.
fn described(file: &Path) -> Result<Option<Machine>, Notice> {
    let unusable = |error: &dyn Error, help: Option<String>| {
        let (file, why) = (file.display(), chain(error));
        let message = format!("nothing is known of this node, ranks are not bound: `topology={file}`: {why}");
        Notice::new(Code::NoMachine, message).help_if(help)
    };
    let bytes = trusted::read(file, TOPOLOGY_MOST).map_err(|error| unusable(&error, error.help()))?;
    if !snapshot::is_snapshot(&bytes) {
        return Ok(None);
    }
    let help = Some(format!("`gpu-tune snapshot -o {}` on the node writes a new one", file.display()));
    snapshot::decode(&bytes).map(|(machine, _)| Some(machine)).map_err(|error| unusable(&error, help))
}

fn discover(site: &SiteConfig) -> Result<(), Notice> {
    let mut command = command(site, STEP_WAITS)?;
    let cannot = |error: std::io::Error| no_machine(site, &format!("cannot be started: {error}"));
    let mut said = Said::of(&mut command).map_err(cannot)?;
    let child = alone(&mut command).spawn().map_err(cannot);
    // The other end of `said` must be the child's alone.
    drop(command);
    match wait(&mut child?, &mut said, STEP_WAITS) {
        Some(status) if status.success() => Ok(()),
        Some(status) => {
            Err(no_machine(site, &format!("ended with {status}: {}", said.first_line())).help_if(said.help()))
        }
        None => Err(no_machine(site, &format!("did not end within {} s", STEP_WAITS.as_secs()))),
    }
}

/// The command with its words. Nothing of the caller's environment goes with it, and nothing of a user's.
fn command(site: &SiteConfig, deadline: Duration) -> Result<Command, Notice> {
    trusted::check(&site.command)
        .map_err(|error| no_machine(site, &format!("cannot be used: {}", chain(&error))).help_if(error.help()))?;
    if let Some(nvml) = &site.nvml {
        loadable(nvml).map_err(|error| {
            no_machine(site, &format!("is not started: `nvml=`: {}", chain(&error))).help_if(error.help())
        })?;
    }
    if let Some(topology) = &site.topology {
        trusted::check(topology).map_err(|error| {
            no_machine(site, &format!("is not started: `topology=`: {}", chain(&error))).help_if(error.help())
        })?;
    }
    let mut command = Command::new(&site.command);
    command.arg("snapshot").arg("--state").arg(&site.state).arg("--deadline").arg(deadline.as_secs().to_string());
    // A file tells of the GPUs, too.
    match (&site.topology, &site.nvml) {
        (Some(file), _) => command.arg("--topology").arg(file),
        (None, Some(library)) => command.arg("--nvml").arg(library),
        (None, None) => &mut command,
    };
    command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(command)
}

/// Waits no longer than `most`, then kills. `None` for a child that had to be killed.
fn wait(child: &mut Child, said: &mut Said, most: Duration) -> Option<ExitStatus> {
    let deadline = Instant::now() + most;
    let mut pause = Duration::from_millis(1);
    while Instant::now() < deadline {
        let ended = child.try_wait();
        said.listen();
        if let Ok(Some(status)) = ended {
            return Some(status);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
    let killed = kill_session(child);
    log::info!(
        "discovery did not end in time: {}",
        killed.map_or_else(|error| error.to_string(), |()| "killed".to_owned())
    );
    // A process that a driver keeps in the kernel does not die: it is left to init.
    std::thread::sleep(Duration::from_millis(20));
    let _still_there = child.try_wait();
    None
}

/// What the command says on its standard error. Reading never waits: what the command started in its turn may keep the other
/// end open for ever. All is read, so that nobody is stuck in writing, and the beginning is kept.
struct Said {
    from: UnixStream,
    kept: Vec<u8>,
}

impl Said {
    fn of(command: &mut Command) -> std::io::Result<Self> {
        let (from, to) = UnixStream::pair()?;
        from.set_nonblocking(true)?;
        command.stderr(OwnedFd::from(to));
        Ok(Self { from, kept: Vec::new() })
    }

    fn listen(&mut self) {
        let mut buffer = [0; 4096];
        // Somebody who writes without end gets no more than a turn.
        for _ in 0..64 {
            let Ok(count @ 1..) = self.from.read(&mut buffer) else { return };
            let free = WORDS_KEPT.saturating_sub(self.kept.len());
            self.kept.extend(buffer.iter().take(count.min(free)));
        }
    }

    fn first_line(&self) -> String {
        let said = String::from_utf8_lossy(&self.kept);
        let line = said.lines().next().unwrap_or("no reason given");
        shown_up_to(line.strip_prefix("gpu-tune: error: ").unwrap_or(line), TOLD)
    }

    /// Its advice, which knows what went wrong.
    fn help(&self) -> Option<String> {
        let said = String::from_utf8_lossy(&self.kept);
        let line = said.lines().find_map(|line| line.strip_prefix("gpu-tune: help: "))?;
        Some(shown_up_to(line, TOLD))
    }
}

/// Whether root may load a library. One that is not there is discovery's to tell: without it there are other sources.
fn loadable(library: &Path) -> Result<(), TrustError> {
    trusted::check_linked(library).or_else(|error| if error.is_missing() { Ok(()) } else { Err(error) })
}

fn no_machine(site: &SiteConfig, why: &str) -> Notice {
    let message =
        format!("nothing is known of this node, ranks are not bound: `{} snapshot` {why}", site.command.display());
    let help = match site.topology {
        Some(_) => "`gpu-tune doctor` on the node looks at the file of `topology=` and at the directory of `state=`",
        None => "run it on the node, or name a file in plugstack.conf with `topology=`",
    };
    Notice::new(Code::NoMachine, message).help(help)
}
