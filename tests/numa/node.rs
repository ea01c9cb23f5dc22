//! The virtual node with a Slurm on it, one for all tests: starting one takes several seconds under QEMU's interpreter.

use crate::slurm::run::{Output, Witness};
use crate::slurm::{Cluster, Setup};
use crate::truth::Truth;
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

/// Memory that each rank touches, in MiB.
pub(crate) const TOUCHED: &str = "32";

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
        let truth = Truth::of_the_virtual_node()?;
        let gpus = u32::try_from(truth.gpus.len()).unwrap();
        let cluster = Cluster::start(setup.gpus(gpus).discovered(&truth.nvml()))?;
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
        let probe = self.cluster.probe_path();
        self.run(&format!("{words} {probe} {TOUCHED}"))
    }

    /// `srun WORDS`.
    pub(crate) fn run(&self, words: &str) -> Output {
        let words: Vec<&str> = words.split_whitespace().collect();
        self.cluster.run("srun", &words, &[])
    }

    /// The path of a script that starts one rank per number, as launchers do: the local rank in the environment, then exec.
    pub(crate) fn launcher(&self) -> String {
        let probe = self.cluster.probe_path();
        let script = format!(
            "#!/bin/bash\n# launcher RANKS [PREFIX…]\nranks=$1\nshift\nfor ((rank = 0; rank < ranks; rank++)); do\n    \
             LOCAL_RANK=$rank RANK=$rank WORLD_SIZE=$ranks \"$@\" {probe} {TOUCHED} &\ndone\nwait\n"
        );
        let path = self.cluster.place.write("bin/launcher", &script);
        let made =
            std::process::Command::new("chmod").arg("755").arg(self.cluster.place.outside("bin/launcher")).status();
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
    /// Submits a script; `$PROBE` is the witness with the memory it touches.
    pub(crate) fn submit(node: &'a Node, words: &str, script: &str) -> Self {
        let probe = format!("{} {TOUCHED}", node.cluster.probe_path());
        let path = node.cluster.place.write("job.sh", &format!("#!/bin/bash\nPROBE='{probe}'\n{script}\n"));
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
