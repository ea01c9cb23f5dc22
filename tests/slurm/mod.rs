//! A real Slurm in a temporary directory, for one test: munged, slurmctld and slurmd on 127.0.0.1, stand-in GPU device
//! nodes, our plugin in its plugstack.conf. Everything is stopped by pid when the [`Cluster`] is dropped.
//!
//! The same tests run against another Slurm that lives in a directory tree of its own (`GPU_TUNE_SLURM_ROOT`, a debootstrap
//! tree with /proc, /sys, /dev and /run/munge in place): see [`place::Place`].
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its own part")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a part of the tests"
)]

pub mod artifacts;
pub mod conf;
pub mod discovery;
pub mod elf;
pub mod machine;
pub mod place;
pub mod plugin;
pub mod run;

pub use conf::Setup;

use gpu_tune_engine::snapshot;
use place::Place;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long Slurm may take until its nodes are idle, in seconds.
const COMES_UP: u64 = 40;

/// A running Slurm.
pub struct Cluster {
    /// Where it lives.
    pub place: Place,
    daemons: Vec<(String, Child)>,
    setup: Setup,
}

impl Cluster {
    /// Starts one, or says what is missing here and returns nothing.
    pub fn start(setup: Setup) -> Option<Self> {
        Self::start_in(place::root(), setup)
    }

    /// The same with the Slurm of a tree, or with this host's.
    pub fn start_in(root: Option<PathBuf>, setup: Setup) -> Option<Self> {
        if let Some(missing) = place::missing() {
            println!("skipped: {missing}");
            return None;
        }
        place::munged();
        let mut why = String::new();
        // Between the search for free ports and their use somebody else may take them.
        for _ in 0..3 {
            let mut cluster = Self { place: Place::in_root(root.clone()), daemons: Vec::new(), setup: setup.clone() };
            match cluster.come_up() {
                Ok(()) => return Some(cluster),
                Err(error) => why = error,
            }
        }
        panic!("Slurm did not come up: {why}");
    }

    fn come_up(&mut self) -> Result<(), String> {
        artifacts::install(&self.place);
        conf::write(&self.place, &self.setup);
        self.daemon("slurmctld", &["-D"]);
        for node in self.setup.node_names() {
            self.slurmd(&node);
        }
        self.wait_until_idle()
    }

    fn wait_until_idle(&mut self) -> Result<(), String> {
        let deadline = Instant::now() + place::patience(COMES_UP);
        while Instant::now() < deadline {
            if self.idle_nodes() == self.setup.nodes {
                return Ok(());
            }
            for (name, daemon) in &mut self.daemons {
                if let Ok(Some(status)) = daemon.try_wait() {
                    return Err(format!("{name} ended with {status}\n{}", self.place.logs()));
                }
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Err(format!("nodes are not idle\n{}", self.place.logs()))
    }

    fn idle_nodes(&self) -> usize {
        self.nodes_that_are("idle")
    }

    fn nodes_that_are(&self, state: &str) -> usize {
        let said = self.command("sinfo").args(["-h", "-N", "-o", "%T"]).output().unwrap();
        String::from_utf8_lossy(&said.stdout).lines().filter(|line| *line == state).count()
    }

    /// A slurmd that goes away while a job is completing leaves its node in that state for minutes.
    fn let_jobs_complete(&self) {
        let deadline = Instant::now() + place::patience(10);
        while self.nodes_that_are("completing") > 0 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn slurmd(&mut self, node: &str) {
        let here = |path: &str| self.place.inside(path).display().to_string();
        let mut words: Vec<String> = self.setup.slurmd_under.iter().map(|path| here(path)).collect();
        words.extend(["slurmd", "-D", "-N", node].map(str::to_owned));
        if let Some(script) = &self.setup.slurmstepd {
            self.place.script("bin/slurmstepd", script);
            words.extend(["-d".to_owned(), here("bin/slurmstepd")]);
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.spawn("slurmd", words[0], &words[1..]);
    }

    fn daemon(&mut self, program: &str, args: &[&str]) {
        self.spawn(program, program, args);
    }

    fn spawn(&mut self, name: &str, program: &str, args: &[&str]) {
        // Names of nodes are names of hosts, in a file of the daemons' own.
        let script = "mount --bind \"$0\" /etc/hosts && exec \"$@\"";
        let mut command = self.command("unshare");
        command.args(["--mount", "sh", "-c", script]).arg(self.place.inside("etc/hosts"));
        command.args(&self.setup.daemon_prefix).arg(program).args(args);
        command.envs(self.setup.daemon_env.iter().cloned());
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.daemons.push((name.to_owned(), child.unwrap()));
    }

    /// The process of the first daemon of that name.
    pub fn pid(&self, name: &str) -> u32 {
        self.daemons.iter().find(|(daemon, _)| daemon == name).unwrap().1.id()
    }

    /// A command of Slurm's, or any other program, that talks to this cluster.
    pub fn command(&self, program: &str) -> Command {
        let mut command = self.place.command(program);
        command.env("SLURM_CONF", self.place.inside("etc/slurm.conf"));
        command
    }

    /// `scontrol show node`'s words on a node.
    pub fn node_state(&self, node: &str) -> String {
        let said = self.command("scontrol").args(["-o", "show", "node", node]).output().unwrap();
        String::from_utf8_lossy(&said.stdout).into_owned()
    }

    /// Fails the test if a node is drained or down, or a daemon died: no fault of tuning may do that.
    pub fn check_alive(&mut self) {
        for node in self.setup.node_names() {
            let state = self.node_state(&node);
            assert!(!state.contains("DRAIN") && !state.contains("DOWN"), "{state}");
        }
        for (name, daemon) in &mut self.daemons {
            assert!(daemon.try_wait().unwrap().is_none(), "{name} died\n{}", self.place.logs());
        }
    }

    /// Stops the slurmd of the first node and starts it again, with these variables in place of the ones it had.
    pub fn restart_slurmd(&mut self, env: &[(&str, &str)]) {
        self.setup.daemon_env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        self.replace_slurmd(stop);
    }

    /// Ends the slurmd of the first node as a crash would, without a chance to tidy up, and starts it again.
    pub fn crash_slurmd(&mut self) {
        self.replace_slurmd(crash);
    }

    fn replace_slurmd(&mut self, end: fn(&mut Child)) {
        self.let_jobs_complete();
        let at = self.daemons.iter().position(|(name, _)| name == "slurmd").unwrap();
        let (_, mut old) = self.daemons.remove(at);
        end(&mut old);
        let node = self.setup.node_names().remove(0);
        self.slurmd(&node);
        self.wait_until_idle().unwrap();
    }

    /// Changes the lines of plugstack.conf: srun, sbatch and the next step read them anew.
    pub fn plugins(&mut self, change: impl FnOnce(&mut Setup)) {
        change(&mut self.setup);
        self.place.write("etc/plugstack.conf", &conf::plugstack_conf(&self.place, &self.setup));
    }

    /// What slurmd logged.
    pub fn slurmd_log(&self) -> String {
        let logs = self.setup.node_names().into_iter().map(|node| self.place.outside(&format!("slurmd-{node}.log")));
        logs.map(|log: PathBuf| std::fs::read_to_string(log).unwrap_or_default()).collect()
    }

    /// Where the plugin keeps the snapshot.
    pub fn state_dir(&self) -> PathBuf {
        self.place.outside("state")
    }

    /// Waits until slurmd's own discovery has left a snapshot.
    pub fn wait_for_snapshot(&self) {
        let file = self.state_dir().join(snapshot::FILE_NAME);
        let deadline = Instant::now() + place::patience(20);
        while !file.exists() {
            assert!(Instant::now() < deadline, "no snapshot\n{}", self.place.logs());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("{}", self.place.logs());
        }
        let _ = self.command("scancel").args(["--user", "root", "--quiet"]).output();
        // slurmd first: it ends its steps while slurmctld still answers.
        while let Some((_, mut daemon)) = self.daemons.pop() {
            stop(&mut daemon);
        }
    }
}

/// Asks a daemon to end, and makes it.
fn stop(daemon: &mut Child) {
    let _ = Command::new("kill").arg(daemon.id().to_string()).status();
    let deadline = Instant::now() + Duration::from_secs(5);
    while Instant::now() < deadline {
        if let Ok(Some(_)) = daemon.try_wait() {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    crash(daemon);
}

fn crash(daemon: &mut Child) {
    let _ = daemon.kill();
    let _ = daemon.wait();
}
