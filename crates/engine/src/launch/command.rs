//! Recognises a launcher by its command line.
//!
//! A known launcher is one whatever its number of GPUs: `--gpus-per-node=1 torchrun` on four nodes is four launchers. What
//! is not recognised is no mistake: a task with several GPUs is taken for a launcher anyway, only its rendezvous is then
//! left to its user.
#![forbid(unsafe_code)]

use crate::plan::Mode;

/// What a command line starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// `torchrun`, or `python -m torch.distributed.run|launch`.
    Torchrun {
        /// Its flags say themselves which nodes take part, or how these meet: `--nnodes`, `--standalone`,
        /// `--rdzv-backend`, `--rdzv-endpoint`.
        own_topology: bool,
    },
    /// Another program that starts one process per GPU.
    Launcher,
    /// A program that runs another in a container's file system, with the same environment: a path in `LD_PRELOAD` may not
    /// exist there.
    Container,
    /// Anything else.
    Other,
}

impl Command {
    /// What a task with this command is, before anybody counts its GPUs.
    pub fn mode(self) -> Mode {
        match self {
            Self::Torchrun { .. } | Self::Launcher => Mode::Launcher,
            Self::Container | Self::Other => Mode::Auto,
        }
    }
}

/// Programs that start ranks with one of the local-rank variables that the shim knows, by file name.
const LAUNCHERS: [&str; 10] = [
    "accelerate-launch",
    "colossalai",
    "composer",
    "deepspeed",
    "mpiexec",
    "mpiexec.hydra",
    "mpirun",
    "orterun",
    "prterun",
    "prun",
];

/// Programs that hand their own environment on into a container (Docker and Podman do not).
const CONTAINERS: [&str; 6] = ["apptainer", "ch-run", "enroot", "sarus", "shifter", "singularity"];

/// Programs that run another program: their name, the options that take the next word as their value, and how many words
/// stand between the options and the program.
const WRAPPERS: [(&str, &[&str], usize); 11] = [
    ("env", &["-u", "--unset", "-C", "--chdir"], 0),
    ("exec", &["-a"], 0),
    ("ionice", &["-c", "--class", "-n", "--classdata"], 0),
    ("nice", &["-n", "--adjustment"], 0),
    ("nohup", &[], 0),
    (
        "numactl",
        &[
            "-i",
            "--interleave",
            "-w",
            "--weighted-interleave",
            "-p",
            "--preferred",
            "-P",
            "--preferred-many",
            "-C",
            "--physcpubind",
            "-c",
            "--cpubind",
            "-N",
            "--cpunodebind",
            "-m",
            "--membind",
        ],
        0,
    ),
    ("setsid", &[], 0),
    ("stdbuf", &["-i", "--input", "-o", "--output", "-e", "--error"], 0),
    ("taskset", &[], 1),
    ("time", &["-f", "--format", "-o", "--output"], 0),
    ("timeout", &["-s", "--signal", "-k", "--kill-after"], 1),
];

/// torchrun's flags without a value (`run.py` of PyTorch 1.13 to 2.15); all others take one.
const TORCHRUN_SWITCHES: [&str; 8] =
    ["--standalone", "-m", "--module", "--no-python", "--run-path", "--use-env", "--virtual-local-rank", "--help"];

/// What a command line starts; `argv` is its words, the program first.
pub fn kind<S: AsRef<str>>(argv: &[S]) -> Command {
    let words: Vec<&str> = argv.iter().map(AsRef::as_ref).collect();
    program(&words)
}

fn program(words: &[&str]) -> Command {
    if let Some(wrapper) = wrapper(words) {
        return program(wrapper.runs);
    }
    let Some((&path, args)) = words.split_first() else { return Command::Other };
    match file_name(path) {
        "torchrun" => torchrun(args),
        "accelerate" if args.first() == Some(&"launch") => Command::Launcher,
        name if is_python(name) => python(args),
        name if LAUNCHERS.contains(&name) => Command::Launcher,
        name if CONTAINERS.contains(&name) => Command::Container,
        _ => Command::Other,
    }
}

/// A program that runs another one.
pub(super) struct Wrapper<'a> {
    /// Its file name.
    pub(super) name: &'static str,
    /// Its options and operands.
    pub(super) args: &'a [&'a str],
    /// The command line that it runs.
    pub(super) runs: &'a [&'a str],
}

/// The wrapper at the head of a command line.
pub(super) fn wrapper<'a>(words: &'a [&'a str]) -> Option<Wrapper<'a>> {
    let (path, args) = words.split_first()?;
    let &(name, with_value, operands) = WRAPPERS.iter().find(|wrapper| wrapper.0 == file_name(path))?;
    let runs = wrapped(args, with_value, operands);
    let (args, runs) = args.split_at(args.len() - runs.len());
    Some(Wrapper { name, args, runs })
}

pub(super) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// `python`, `python3`, `python3.11`, `pypy3` …
fn is_python(name: &str) -> bool {
    let version = name.strip_prefix("python").or_else(|| name.strip_prefix("pypy"));
    version.is_some_and(|version| version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
}

/// The command line that a wrapper runs. Assignments (`env A=b`) are passed over like options.
fn wrapped<'a>(args: &'a [&'a str], with_value: &[&str], operands: usize) -> &'a [&'a str] {
    let mut rest = args;
    while let Some((&word, tail)) = rest.split_first() {
        rest = match word {
            "--" => return tail.get(operands..).unwrap_or_default(),
            _ if with_value.contains(&word) => tail.get(1..).unwrap_or_default(),
            _ if word.starts_with('-') || is_assignment(word) => tail,
            _ => break,
        };
    }
    rest.get(operands..).unwrap_or_default()
}

fn is_assignment(word: &str) -> bool {
    let name = word.split_once('=').map_or("", |(name, _)| name);
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// What a Python interpreter with these arguments runs: a module, or a script such as `/usr/bin/torchrun`.
fn python(args: &[&str]) -> Command {
    let mut rest = args;
    while let Some((&word, tail)) = rest.split_first() {
        if word == "--check-hash-based-pycs" {
            rest = tail.get(1..).unwrap_or_default();
        } else if word.starts_with("--") {
            rest = tail;
        } else if let Some(letters) = word.strip_prefix('-') {
            // Letters may stand together, and one that takes a value ends them: `-um module`, `-Xfrozen_modules=off`.
            let Some(at) = letters.find(['m', 'c', 'X', 'W']) else {
                rest = tail;
                continue;
            };
            let (letter, value) = (letters.get(at..=at), letters.get(at + 1..).unwrap_or_default());
            let (value, tail) = if value.is_empty() { next(tail) } else { (value, tail) };
            match letter {
                Some("m") => return module(value, tail),
                Some("c") => return Command::Other,
                _ => rest = tail,
            }
        } else {
            return if is_python(file_name(word)) { Command::Other } else { program(rest) };
        }
    }
    Command::Other
}

fn next<'a>(words: &'a [&'a str]) -> (&'a str, &'a [&'a str]) {
    words.split_first().map_or(("", &[]), |(&word, tail)| (word, tail))
}

fn module(name: &str, args: &[&str]) -> Command {
    match name {
        "torch.distributed.run" | "torch.distributed.launch" => torchrun(args),
        "accelerate.commands.launch" | "deepspeed" | "deepspeed.launcher.runner" => Command::Launcher,
        "accelerate.commands.accelerate_cli" if args.first() == Some(&"launch") => Command::Launcher,
        _ => Command::Other,
    }
}

/// Looks at torchrun's flags, as far as the training script: what follows belongs to that.
fn torchrun(args: &[&str]) -> Command {
    let mut own_topology = false;
    let mut rest = args;
    while let Some((&word, tail)) = rest.split_first() {
        if !word.starts_with('-') || word == "--" {
            break;
        }
        let (flag, value) = word.split_once('=').map_or((word, None), |(flag, value)| (flag, Some(value)));
        let flag = flag.replace('_', "-");
        own_topology |=
            ["--nnodes", "--standalone", "--rdzv-backend", "--rdzv-endpoint"].iter().any(|f| means(&flag, f));
        // `-r3` carries its value like `--redirects=3`.
        let carries_value = value.is_some() || (!flag.starts_with("--") && flag.len() > 2);
        let switch = TORCHRUN_SWITCHES.iter().any(|switch| means(&flag, switch)) || flag == "-h";
        rest = if switch || carries_value { tail } else { tail.get(1..).unwrap_or_default() };
    }
    Command::Torchrun { own_topology }
}

/// Whether a flag as written is this one. Python's argparse takes every beginning of a long flag that fits one flag only:
/// four letters after the dashes decide between all of torchrun's that matter here, but for those that begin alike.
fn means(written: &str, flag: &str) -> bool {
    let least = match flag {
        "--nnodes" => 4,
        "--rdzv-backend" | "--rdzv-endpoint" => 8,
        _ => 6,
    };
    written == flag || (written.len() >= least && flag.starts_with(written))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Command = Command::Torchrun { own_topology: true };
    const PLAIN: Command = Command::Torchrun { own_topology: false };

    fn check(line: &str, expect: Command) {
        let words: Vec<_> = line.split_whitespace().collect();
        assert_eq!(kind(&words), expect, "{line}");
    }

    #[test]
    fn torchrun_is_known_in_every_spelling() {
        for line in [
            "torchrun train.py",
            "/opt/venv/bin/torchrun --nproc-per-node=8 train.py",
            "torchrun --nproc_per_node 8 -m pkg.train",
            "torchrun --no-python ./train.sh",
            "python -m torch.distributed.run train.py",
            "python3.11 -m torch.distributed.launch --use_env train.py",
            "/venv/bin/python3 -u -X faulthandler -W ignore -m torch.distributed.run t.py",
            "python -um torch.distributed.run t.py",
            "python -mtorch.distributed.run t.py",
            "python -Xfrozen_modules=off -OO /venv/bin/torchrun t.py",
            "python --check-hash-based-pycs never -m torch.distributed.run t.py",
            "pypy3 -m torch.distributed.run t.py",
        ] {
            check(line, PLAIN);
        }
    }

    #[test]
    fn the_users_own_topology_is_seen_in_every_spelling() {
        for flags in [
            "--nnodes 2",
            "--nnodes=2",
            "--nnodes=1:4",
            "--nn 2",
            "--standalone",
            "--stand",
            "--nproc-per-node 8 --nnodes 2",
            "--nproc_per_node=8 --standalone",
            "-r 3 -t 3 --standalone",
            "-r3 --standalone",
            "--rdzv-backend=c10d --rdzv-endpoint=localhost:0",
            "--rdzv_backend c10d",
            "--rdzv_endpoint head:29500",
            "--virtual-local-rank --nnodes=2",
            "-m --nnodes 2",
        ] {
            check(&format!("torchrun {flags} train.py"), OWN);
            check(&format!("python -m torch.distributed.run {flags} train.py"), OWN);
        }
    }

    #[test]
    fn what_stands_behind_the_script_is_the_scripts() {
        for line in [
            "torchrun train.py --nnodes 2",
            "torchrun --nproc-per-node 8 train.py --standalone",
            "torchrun -m pkg.train --nnodes=2",
            "torchrun --max-restarts 0 --master-port 29501 train.py --standalone",
            "torchrun -- train.py --standalone",
            "torchrun --no-python ./run.sh --nnodes 3",
            "torchrun --log-dir --nnodes train.py",
            "torchrun --start-method spawn train.py",
        ] {
            check(line, PLAIN);
        }
    }

    #[test]
    fn other_launchers_are_known() {
        for line in [
            "accelerate launch train.py",
            "accelerate-launch --multi_gpu train.py",
            "python -m accelerate.commands.launch train.py",
            "python -m accelerate.commands.accelerate_cli launch train.py",
            "python /venv/bin/accelerate launch train.py",
            "deepspeed --num_gpus 8 train.py",
            "python -m deepspeed train.py",
            "mpirun -np 8 ./a.out",
            "/usr/bin/mpiexec -n 8 ./a.out",
            "prterun -n 8 ./a.out",
        ] {
            check(line, Command::Launcher);
        }
    }

    #[test]
    fn a_container_is_known_and_not_looked_into() {
        for line in
            ["apptainer exec --nv img.sif torchrun t.py", "env A=1 /usr/bin/singularity run img", "enroot start img"]
        {
            check(line, Command::Container);
        }
        check("podman run img", Command::Other);
    }

    #[test]
    fn what_stands_before_the_launcher_is_passed_over() {
        for before in [
            "env NCCL_DEBUG=INFO OMP_NUM_THREADS=4",
            "env -i -u FOO PATH=/bin",
            "env -C /tmp --",
            "/usr/bin/nice -n 5",
            "nice -5",
            "stdbuf -oL -e L",
            "timeout 3600",
            "timeout -s INT --kill-after=5 1h",
            "time -f %e",
            "nohup",
            "setsid --wait",
            "numactl --interleave=all",
            "numactl -N 0 --membind 0",
            "taskset -c 0-7",
            "nohup env A=1 nice -n 1",
            "exec",
        ] {
            check(&format!("{before} torchrun --standalone t.py"), OWN);
        }
    }

    #[test]
    fn anything_else_is_something_else() {
        for line in [
            "",
            "env",
            "env A=1",
            "timeout",
            "python",
            "python train.py",
            "python -c torchrun",
            "python -m pkg.torchrun",
            "python train.py torchrun",
            "python -m",
            "python -X",
            "pythonic -m torch.distributed.run",
            "accelerate config",
            "accelerate",
            "bash torchrun.sh",
            "sh -c torchrun",
            "srun torchrun",
            "./torchrun.py",
            "slurm_script",
        ] {
            check(line, Command::Other);
        }
    }
}
