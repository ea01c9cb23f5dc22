//! The virtual node with a Slurm on it, one for all tests: starting one takes several seconds under QEMU's interpreter.

use crate::slurm::run::{Output, Witness};
use crate::slurm::{Cluster, Setup};
use crate::truth::Truth;
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

/// Memory that each rank touches, in MiB.
const TOUCHED: &str = "32";

/// Says what a test lacks. Where it was started because all is there (`GPU_TUNE_NO_SKIP`), that is a failure.
#[track_caller]
pub(crate) fn skip(needs: &str) {
    assert!(std::env::var_os("GPU_TUNE_NO_SKIP").is_none(), "needs {needs}, which is not here");
    println!("skipped: needs {needs}, `make vm-test` boots it");
}

/// A Slurm whose node is this machine, with real cpusets and device limits.
pub(crate) struct Node {
    /// The Slurm.
    pub(crate) cluster: Cluster,
    /// The machine.
    pub(crate) truth: Truth,
}

impl Node {
    /// The one that all tests share; nothing, after a line that says so, elsewhere than in the virtual node. Steps of two
    /// tests must not compete for its CPUs: a test holds it.
    pub(crate) fn get() -> Option<MutexGuard<'static, Self>> {
        static NODE: OnceLock<Option<Mutex<Node>>> = OnceLock::new();
        let node = NODE.get_or_init(|| Self::start(Setup::this_machine().constrained()).map(Mutex::new));
        // A test that failed has not broken the node.
        node.as_ref().map(|node| node.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    /// Starts one of its own.
    pub(crate) fn start(setup: Setup) -> Option<Self> {
        let truth = Truth::read();
        if truth.gpus.is_empty() {
            skip("the virtual NUMA node");
            return None;
        }
        let gpus = u32::try_from(truth.gpus.len()).unwrap();
        let Some(cluster) = Cluster::start(setup.gpus(gpus).discovered(&truth.nvml())) else {
            skip("a Slurm");
            return None;
        };
        cluster.wait_for_snapshot();
        Some(Self { cluster, truth })
    }

    /// `srun WORDS probe`: what each task found, by rank.
    #[track_caller]
    pub(crate) fn srun(&self, words: &str) -> Vec<Witness> {
        self.output(words).fine().witnesses()
    }

    /// The same with everything that was said.
    pub(crate) fn output(&self, words: &str) -> Output {
        self.run(&format!("{words} {}", self.witness()))
    }

    /// The command line of the witness.
    pub(crate) fn witness(&self) -> String {
        format!("{} {TOUCHED}", self.cluster.probe_path())
    }

    /// `srun WORDS`.
    pub(crate) fn run(&self, words: &str) -> Output {
        let words: Vec<&str> = words.split_whitespace().collect();
        self.cluster.tasks(&words, &[])
    }

    /// The path of a script that starts one rank per number, as launchers do: the local rank in the environment, then exec.
    pub(crate) fn launcher(&self) -> String {
        let witness = self.witness();
        self.script(
            "launcher",
            &format!(
                "# launcher RANKS [PREFIX…]\nranks=$1\nshift\nfor ((rank = 0; rank < ranks; rank++)); do\n    \
                 LOCAL_RANK=$rank RANK=$rank WORLD_SIZE=$ranks \"$@\" {witness} &\ndone\nwait"
            ),
        )
    }

    /// The path of a bash script.
    pub(crate) fn script(&self, name: &str, text: &str) -> String {
        let name = format!("bin/{name}");
        let path = self.cluster.place.write(&name, &format!("#!/bin/bash\n{text}\n"));
        let made = std::process::Command::new("chmod").arg("755").arg(self.cluster.place.outside(&name)).status();
        assert!(made.unwrap().success());
        path.display().to_string()
    }
}

/// A batch job that is cancelled when this is dropped.
pub(crate) struct Job<'a> {
    cluster: &'a Cluster,
    id: String,
}

impl<'a> Job<'a> {
    /// Submits a script; in it `witness WORDS` is an srun of the witness with these words.
    pub(crate) fn submit(node: &'a Node, words: &str, script: &str) -> Self {
        let to = node.cluster.place.inside("out/job").display().to_string();
        let witness = format!("witness() {{ srun --output={to}-%t \"$@\" {} && cat {to}-*; }}", node.witness());
        let path = node.cluster.place.write("job.sh", &format!("#!/bin/bash\n{witness}\n{script}\n"));
        let (path, out) = (path.display().to_string(), node.cluster.place.inside("job.out").display().to_string());
        let words = ["--parsable", "--output", &out].into_iter().chain(words.split_whitespace()).chain([path.as_str()]);
        let submitted = node.cluster.run("sbatch", &words.collect::<Vec<_>>(), &[]).fine();
        Self { cluster: &node.cluster, id: submitted.stdout.trim().to_owned() }
    }

    /// Waits until the job has written that line, and returns all it wrote.
    #[track_caller]
    pub(crate) fn wait_for(&self, line: &str) -> Output {
        let deadline = Instant::now() + Duration::from_secs(180);
        loop {
            let stdout = std::fs::read_to_string(self.cluster.place.outside("job.out")).unwrap_or_default();
            if stdout.lines().any(|written| written == line) {
                return Output { code: 0, stdout, stderr: String::new() };
            }
            assert!(Instant::now() < deadline, "the job did not write `{line}`: {stdout}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

impl Drop for Job<'_> {
    fn drop(&mut self) {
        let _ = self.cluster.run("scancel", &[&self.id], &[]);
        let _ = std::fs::remove_file(self.cluster.place.outside("job.out"));
    }
}
