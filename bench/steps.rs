//! Whole `srun` commands with and without gpu-tune and its alternatives, in turn.
//!
//! One Slurm serves all of them: slurmstepd and srun read plugstack.conf anew for each step, so it is put in place
//! before each run, outside of the time that is taken. Steps run inside one allocation; otherwise the scheduler's pause
//! between two jobs would be most of what is measured. All tasks see all GPUs of their step: otherwise each would try
//! which ones it may open, and the kernel takes milliseconds to find that nobody drives a stand-in. Each round runs
//! every kind once, and each round begins with another one.

use crate::files;
use crate::own::{self, Hooks};
use crate::slurm::discovery::nvml;
use crate::slurm::{Cluster, Setup, plugin};
use crate::stats::{Ratio, median};
use crate::whole::{self, Whole};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Tasks of the steps that are timed.
pub(crate) const TASKS: [u32; 2] = [1, 2];

/// One way to start a step.
#[derive(Debug, Clone)]
pub(crate) struct Kind {
    /// What the table calls it.
    pub(crate) name: &'static str,
    /// The plugin in plugstack.conf.
    plugin: Plugin,
    /// Words for srun.
    options: &'static [&'static str],
    /// What stands before the command.
    through: Vec<String>,
    /// Whether the step has to do without a snapshot.
    forget: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Plugin {
    None,
    Ours,
    Other(PathBuf),
}

impl Kind {
    fn new(name: &'static str, plugin: Plugin, options: &'static [&'static str]) -> Self {
        Self { name, plugin, options, through: Vec::new(), forget: false }
    }

    fn through(self, words: &[&str]) -> Self {
        Self { through: words.iter().map(|word| (*word).to_owned()).collect(), ..self }
    }

    fn all(cluster: &Cluster, skipped: &mut Vec<String>) -> Vec<Self> {
        let h200 = Self::new("gpu-tune `h200`, snapshot", Plugin::Ours, &["--gpu-tune=h200"]);
        let mut kinds = vec![
            Self::new("no plugin", Plugin::None, &[]),
            Self::new("no plugin, once more", Plugin::None, &[]),
            Self::new("gpu-tune, not asked for", Plugin::Ours, &[]),
            Self::new("gpu-tune `off`", Plugin::Ours, &["--gpu-tune=off"]),
            h200.clone(),
            Self { name: "gpu-tune `h200`, no snapshot", forget: true, ..h200 },
        ];
        match plugin::in_task_init(&cluster.place, "idle", "") {
            Some(idle) => kinds.insert(2, Self::new("a plugin that does nothing", Plugin::Other(idle), &[])),
            None => skipped.push("a plugin that does nothing: no C compiler".to_owned()),
        }
        let numactl = ["numactl", "--cpunodebind=0", "--preferred=0"];
        if Path::new("/usr/bin/numactl").exists() {
            kinds.push(Self::new("`numactl` around each task", Plugin::None, &[]).through(&numactl));
            let wrapper = wrapper(cluster);
            kinds.push(Self::new("a shell wrapper with `numactl`", Plugin::None, &[]).through(&["sh", &wrapper]));
        } else {
            skipped.push("`numactl`: not installed".to_owned());
        }
        match mpibind() {
            Some(plugin) => kinds.push(Self::new("LLNL's mpibind", Plugin::Other(plugin), &["--mpibind=on"])),
            None => skipped.push("LLNL's mpibind: no `mpibind_slurm.so` (name it with `MPIBIND=FILE`)".to_owned()),
        }
        kinds
    }
}

/// What people write today. `--all`, because Slurm gave each task one CPU, and numactl would refuse another one.
fn wrapper(cluster: &Cluster) -> String {
    let lines = "case $SLURM_LOCALID in\n0) cpus=1 ;;\n*) cpus=0 ;;\nesac\n\
                 exec numactl --all --physcpubind=$cpus --preferred=0 \"$@\"\n";
    cluster.place.write("wrapper", lines).display().to_string()
}

/// Where mpibind's plugin is installed, if it is.
fn mpibind() -> Option<PathBuf> {
    let named = std::env::var_os("MPIBIND").map(PathBuf::from);
    let usual = ["/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"];
    let below =
        ["mpibind/mpibind_slurm.so", "mpibind_slurm.so", "slurm-wlm/mpibind_slurm.so", "slurm/mpibind_slurm.so"];
    let known = usual.iter().flat_map(|dir| below.map(|file| Path::new(dir).join(file)));
    named.into_iter().chain(known).find(|file| file.exists())
}

/// All times of one kind.
#[derive(Debug, Clone)]
pub(crate) struct Series {
    pub(crate) name: &'static str,
    /// Milliseconds by round, for each of [`TASKS`].
    pub(crate) times: Vec<Vec<f64>>,
}

impl Series {
    pub(crate) fn median(&self, at: usize) -> f64 {
        median(&self.times[at])
    }
}

/// What was measured here.
#[derive(Debug)]
pub(crate) struct Steps {
    /// The first one is what all are compared with.
    pub(crate) series: Vec<Series>,
    /// What is not installed here.
    pub(crate) skipped: Vec<String>,
    /// What the hooks took, by kind, in steps of two tasks.
    pub(crate) hooks: Vec<(&'static str, Hooks)>,
    /// Jobs of their own; `None` without hyperfine.
    pub(crate) whole: Option<Vec<Whole>>,
    /// Files that srun opens because of gpu-tune; `None` without strace.
    pub(crate) opened: Option<Vec<String>>,
}

impl Steps {
    /// A kind compared with no plugin.
    pub(crate) fn ratio(&self, series: &Series, at: usize) -> Ratio {
        Ratio::of(&series.times[at], &self.series[0].times[at])
    }
}

/// Times everything; `None` where no Slurm can run.
pub(crate) fn run(rounds: usize) -> Option<Steps> {
    let cluster = Cluster::start(Setup::default().discovered(&nvml()))?;
    cluster.wait_for_snapshot();
    let bench = Bench::new(&cluster, &["-n2", "-c1", "--gpus-per-task=1"]);
    let mut skipped = Vec::new();
    let kinds = Kind::all(&cluster, &mut skipped);
    skipped.iter().for_each(|what| println!("skipped: {what}"));
    let empty = |kind: &Kind| Series { name: kind.name, times: vec![Vec::new(); TASKS.len()] };
    let mut series: Vec<Series> = kinds.iter().map(empty).collect();
    // The first runs find cold files.
    for kind in &kinds {
        let _cold = bench.time(kind, 2);
    }
    for round in 0..rounds {
        for turn in 0..kinds.len() {
            let which = (round + turn) % kinds.len();
            for (at, tasks) in TASKS.iter().enumerate() {
                series[which].times[at].push(bench.time(&kinds[which], *tasks));
            }
        }
    }
    let traced = kinds.iter().filter(|kind| kind.plugin == Plugin::Ours);
    let hooks = traced.map(|kind| (kind.name, bench.hooks(kind, rounds.div_ceil(2)))).collect();
    let opened = bench.opened(&kinds);
    let ours = bench.ours.clone();
    drop(bench);
    let whole = whole::run(&cluster, &ours, rounds.div_ceil(2));
    Some(Steps { series, skipped, hooks, whole, opened })
}

/// A step's shape. One task has both CPUs, so that the ones near its GPU are among them: a step that is warned about is
/// no step that runs as it should.
pub(crate) fn width(tasks: u32) -> [String; 3] {
    [format!("-n{tasks}"), format!("-c{}", TASKS[TASKS.len() - 1] / tasks), format!("--gpus={tasks}")]
}

/// An allocation in which steps are timed.
pub(crate) struct Bench<'a> {
    cluster: &'a Cluster,
    job: String,
    /// plugstack.conf with our line.
    ours: String,
}

impl<'a> Bench<'a> {
    /// Waits for an allocation of this shape.
    pub(crate) fn new(cluster: &'a Cluster, shape: &[&str]) -> Self {
        let ours = std::fs::read_to_string(cluster.place.outside("etc/plugstack.conf")).unwrap();
        let out = cluster.run("salloc", &[&["--no-shell"], shape].concat(), &[]).fine();
        let words = out.stderr.split_whitespace().skip_while(|word| *word != "allocation");
        let job =
            words.skip(1).find(|word| word.chars().all(|c| c.is_ascii_digit())).unwrap_or_else(|| panic!("{out:?}"));
        Self { cluster, job: job.to_owned(), ours }
    }

    /// Puts the plugin of the next step in place, or takes it away.
    pub(crate) fn plugin(&self, ours: bool) {
        self.stack(if ours { &self.ours } else { "" });
    }

    fn stack(&self, text: &str) {
        self.cluster.place.write("etc/plugstack.conf", text);
    }

    fn prepare(&self, kind: &Kind) {
        match &kind.plugin {
            Plugin::None => self.plugin(false),
            Plugin::Ours => self.plugin(true),
            Plugin::Other(file) => self.stack(&format!("optional {}\n", file.display())),
        }
        if kind.forget {
            // Not there: the step before did not get one either.
            self.cluster.forget_snapshot();
        }
    }

    fn words(kind: &Kind, tasks: u32) -> Vec<String> {
        let mut words = width(tasks).to_vec();
        words.extend(kind.options.iter().map(|word| (*word).to_owned()));
        words.extend(kind.through.iter().cloned());
        words.push("true".to_owned());
        words
    }

    fn time(&self, kind: &Kind, tasks: u32) -> f64 {
        self.prepare(kind);
        let (took, said) = self.srun(&Self::words(kind, tasks), false);
        // What is printed is paid for, too: only a step that needs no warning can be compared with one that gets none.
        assert!(said.is_empty(), "`{}` with {tasks} tasks said: {said}", kind.name);
        took
    }

    /// Runs a step; milliseconds from srun's start to its end, and what it said.
    pub(crate) fn srun(&self, words: &[String], trace: bool) -> (f64, String) {
        let mut command = self.cluster.command("srun");
        command.args(["--jobid", &self.job, "--overlap"]).args(words).stdin(std::process::Stdio::null());
        if trace {
            command.env("GPU_TUNE_TRACE", "1");
        }
        let begun = Instant::now();
        let out = command.output().unwrap();
        let took = begun.elapsed().as_secs_f64() * 1000.0;
        let stderr = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.success(), "srun {words:?}: {stderr}\n{}", self.cluster.place.logs());
        (took, stderr)
    }

    /// Files that srun opens with `h200` and not without us.
    fn opened(&self, kinds: &[Kind]) -> Option<Vec<String>> {
        let tuned = kinds.iter().find(|kind| kind.options == ["--gpu-tune=h200"])?;
        let [without, with] = [&kinds[0], tuned].map(|kind| {
            self.prepare(kind);
            let words =
                [&["--jobid".to_owned(), self.job.clone(), "--overlap".to_owned()], &*Self::words(kind, 1)].concat();
            files::opened(self.cluster, &words)
        });
        let (without, with) = (without?, with?);
        Some(with.difference(&without).cloned().collect())
    }

    fn hooks(&self, kind: &Kind, rounds: usize) -> Hooks {
        let lines = (0..rounds).map(|_| {
            self.prepare(kind);
            self.srun(&Self::words(kind, 2), true).1
        });
        own::hooks(lines)
    }
}

impl Drop for Bench<'_> {
    fn drop(&mut self) {
        let _ = self.cluster.run("scancel", &[&self.job], &[]);
    }
}
