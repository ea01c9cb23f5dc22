//! Runs steps on a [`Cluster`] and reads what the tasks themselves saw.

use super::{Cluster, place};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Starts a program as a user who is not root.
pub const AS_NOBODY: [&str; 4] = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
/// How Slurm hands the option on; whoever sets it himself passes srun's own check.
pub const OPTION: &str = "SLURM_SPANK__SLURM_SPANK_OPTION_gpu_tune_gpu_tune";

/// Longest time that one srun may take, in seconds.
const STEP_TAKES: u64 = 60;

/// What a program said and how it ended.
#[derive(Debug)]
pub struct Output {
    /// Exit status; 124 after a time-out.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// What one task found in itself.
#[derive(Debug, Clone)]
pub struct Witness {
    /// `SLURM_PROCID`.
    pub rank: u32,
    /// `Cpus_allowed_list` of /proc/self/status.
    pub cpus: String,
    /// The mode of `get_mempolicy`: 0 default, 1 preferred, 2 bind, 5 preferred many.
    pub policy: i64,
    /// The nodes of `get_mempolicy`.
    pub nodes: Vec<u64>,
    /// N of each /dev/nvidiaN that it may open.
    pub devices: Vec<u32>,
    /// Pages of the memory it touched, by NUMA node.
    pub pages: BTreeMap<u32, u64>,
    /// Whether it could lock that memory.
    pub locked: bool,
    /// Its environment.
    pub env: BTreeMap<String, String>,
    /// Locked memory, soft and hard, as /proc/self/limits writes them.
    pub memlock: (String, String),
}

impl Output {
    /// The output of a program that ended well.
    #[track_caller]
    pub fn fine(self) -> Self {
        assert_eq!(self.code, 0, "{self:#?}");
        self
    }

    /// What the tasks saw, by rank.
    #[track_caller]
    pub fn witnesses(&self) -> Vec<Witness> {
        let mut all: Vec<Witness> =
            self.stdout.lines().filter_map(|line| line.strip_prefix("PROBE ")).map(witness).collect();
        all.sort_by_key(|witness| witness.rank);
        assert!(!all.is_empty(), "no task spoke: {self:#?}");
        all
    }

    /// The CPUs of each task.
    #[track_caller]
    pub fn masks(&self) -> Vec<String> {
        self.witnesses().into_iter().map(|task| task.cpus).collect()
    }

    /// The job ran with its environment but unbound, and the user was told once.
    #[track_caller]
    pub fn only_environment(&self, told: &str) {
        for task in self.witnesses() {
            assert_eq!((task.var("NCCL_DEBUG"), task.policy), (Some("WARN"), 0));
        }
        assert_eq!(self.stderr.matches("gpu-tune: warning: ").count(), 1, "{}", self.stderr);
        assert!(self.stderr.contains(told), "{}", self.stderr);
    }
}

fn witness(line: &str) -> Witness {
    let json: serde_json::Value = serde_json::from_str(line).unwrap();
    let text = |key: &str| json[key].as_str().unwrap().to_owned();
    let env: BTreeMap<String, String> = serde_json::from_value(json["env"].clone()).unwrap();
    Witness {
        rank: env.get("SLURM_PROCID").map_or(0, |rank| rank.parse().unwrap()),
        cpus: text("cpus"),
        policy: json["policy"].as_i64().unwrap(),
        nodes: serde_json::from_value(json["nodes"].clone()).unwrap(),
        devices: serde_json::from_value(json["devices"].clone()).unwrap(),
        pages: serde_json::from_value(json["pages"].clone()).unwrap(),
        locked: json["locked"].as_bool().unwrap(),
        memlock: (text("memlock_soft"), text("memlock_hard")),
        env,
    }
}

impl Witness {
    /// A variable.
    pub fn var(&self, name: &str) -> Option<&str> {
        self.env.get(name).map(String::as_str)
    }

    /// The environment without what differs from task to task and from step to step.
    pub fn stable_env(&self) -> BTreeMap<String, String> {
        let changes = ["SLURM_", "SLURMD_", "CUDA_VISIBLE", "TMPDIR", "_", "PWD", "ROCR_", "GPU_DEVICE", "ZE_AFFINITY"];
        let stable = |name: &String| !changes.iter().any(|start| name.starts_with(start));
        self.env.clone().into_iter().filter(|(name, _)| stable(name)).collect()
    }
}

/// Without what srun says when the job before has not quite gone.
fn without_queue(stderr: &str) -> String {
    let waits =
        |line: &&str| !(line.starts_with("srun: job ") && (line.contains(" queued ") || line.contains(" allocated ")));
    stderr.lines().filter(waits).map(|line| format!("{line}\n")).collect()
}

impl Cluster {
    /// Runs any program of Slurm's with these words.
    pub fn run(&self, program: &str, args: &[&str], env: &[(&str, &str)]) -> Output {
        let mut command = self.command("timeout");
        let longest = place::patience(STEP_TAKES).as_secs().to_string();
        command.args(["-k", "5", &longest, program]).args(args).envs(env.iter().copied());
        let said = command.stdin(std::process::Stdio::null()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Output {
            code: said.status.code().unwrap_or(-1),
            stdout: text(&said.stdout),
            stderr: without_queue(&text(&said.stderr)),
        }
    }

    /// `srun ARGS probe`: each task prints what it finds in itself, into a file of its own, because srun mixes long lines.
    pub fn probe(&self, args: &[&str], env: &[(&str, &str)]) -> Output {
        self.probe_by(&["srun"], args, env)
    }

    /// The same by a user who is not root (`nobody`).
    pub fn probe_as_nobody(&self, args: &[&str], env: &[(&str, &str)]) -> Output {
        self.probe_by(&[&AS_NOBODY[..], &["srun"]].concat(), args, env)
    }

    fn probe_by(&self, starter: &[&str], args: &[&str], env: &[(&str, &str)]) -> Output {
        self.to_files(starter, &[args, &[self.probe_path().as_str()]].concat(), env)
    }

    /// `srun WORDS`, each task's output in a file of its own.
    pub fn tasks(&self, words: &[&str], env: &[(&str, &str)]) -> Output {
        self.to_files(&["srun"], words, env)
    }

    fn to_files(&self, starter: &[&str], words: &[&str], env: &[(&str, &str)]) -> Output {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let file = |stream: &str, task: &str| format!("out/{stream}-{count}-{task}");
        let [to, errors] = ["out", "err"].map(|stream| self.place.inside(&file(stream, "%t")).display().to_string());
        let words = [&starter[1..], &["--output", &to, "--error", &errors], words].concat();
        let mut out = self.run(starter[0], &words, env);
        let written = |stream: &str| -> String {
            let files = (0..).map(|task: u32| self.place.outside(&file(stream, &task.to_string())));
            files.map_while(|file| std::fs::read_to_string(file).ok()).collect()
        };
        out.stdout = written("out");
        out.stderr.push_str(&written("err"));
        out
    }

    /// The probe as a program of the place.
    pub fn probe_path(&self) -> String {
        self.place.inside("bin/probe").display().to_string()
    }

    /// Runs a batch script and returns what it wrote. The script is given as shell text.
    pub fn batch(&self, args: &[&str], env: &[(&str, &str)], script: &str) -> Output {
        let out = self.place.inside("batch.out").display().to_string();
        let path = self.place.write("batch.sh", &format!("#!/bin/bash\n{script}\n")).display().to_string();
        let words = ["--parsable", "--output", &out, "--error", &out];
        let mut submitted = self.run("sbatch", &[&words, args, &[&path]].concat(), env);
        if submitted.code == 0 {
            submitted.code = self.job_code(submitted.stdout.trim());
        }
        submitted.stdout = std::fs::read_to_string(self.place.outside("batch.out")).unwrap_or_default();
        submitted
    }

    /// Waits for a job, which `sbatch --wait` does only every few seconds, and returns its exit status.
    fn job_code(&self, job: &str) -> i32 {
        let deadline = Instant::now() + Duration::from_secs(60);
        while Instant::now() < deadline {
            let said = self.run("scontrol", &["-o", "show", "job", job], &[]).stdout;
            let word =
                |name: &str| said.split_whitespace().find_map(|word| word.strip_prefix(name)).unwrap_or_default();
            if !["PENDING", "RUNNING", "COMPLETING", "CONFIGURING"].contains(&word("JobState=")) {
                return word("ExitCode=").split(':').next().and_then(|code| code.parse().ok()).unwrap_or(-1);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        124
    }

    /// Whether a file is there, by the path that programs of the place use.
    pub fn exists(&self, path: &Path) -> bool {
        self.place.outside(path.strip_prefix(self.place.inside("")).unwrap().to_str().unwrap()).exists()
    }
}
