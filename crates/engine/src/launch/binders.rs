//! What in a command line binds processes by the user's own wish: `numactl` and `taskset`, and flags of launchers.
//!
//! Before the program itself (`srun numactl -C 0-7 python train.py`) such a wish counts as much as `--cpu-bind` or
//! `--mem-bind`: numactl refuses CPUs beyond those that it was started with, and a memory policy of ours would outlive a
//! binding of CPUs to another node. What a script does inside is not seen here.
#![forbid(unsafe_code)]

use super::command::{file_name, wrapper};
use gpu_tune_shim_core::binders::{self, Binds};

/// Who binds in the user's name, a program or an option; `None`: nobody.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wish {
    /// CPUs.
    pub cpus: Option<&'static str>,
    /// Memory.
    pub memory: Option<&'static str>,
}

/// Flags by which a launcher, or an srun, binds the ranks it starts, and what they do. PyTorch spells its flags with `_` too.
pub const FLAGS: [(&str, &str); 3] = [
    ("--bind-cores-to-rank", "makes deepspeed start every rank with numactl"),
    ("--numa-binding", "makes torchrun bind its workers itself"),
    ("--cpu-bind", "is the user's own wish, which gpu-tune leaves alone"),
];

/// The wish of the programs before the one that a command line is about.
pub fn wish<S: AsRef<str>>(argv: &[S]) -> Wish {
    let words: Vec<&str> = argv.iter().map(AsRef::as_ref).collect();
    let (mut wish, mut rest) = (Wish::default(), words.as_slice());
    while let Some(found) = wrapper(rest) {
        match found.name {
            "taskset" => wish.cpus = Some("taskset"),
            "numactl" => wish.numactl(found.args),
            _ => {}
        }
        rest = found.runs;
    }
    wish
}

impl Wish {
    /// What follows from it, for people; `None`: nothing.
    pub fn told(self) -> Option<String> {
        match (self.cpus, self.memory) {
            (Some(who), _) => Some(format!("CPUs and memory are left as they are: `{who}` was given")),
            (None, Some(who)) => Some(format!("memory is left as it is: `{who}` was given")),
            (None, None) => None,
        }
    }

    fn numactl(&mut self, words: &[&str]) {
        let Binds { cpus, memory } = binders::of_numactl(words.iter().map(|word| word.as_bytes()));
        self.cpus = cpus.then_some("numactl").or(self.cpus);
        self.memory = memory.then_some("numactl").or(self.memory);
    }
}

/// The word behind the head of a command line that binds what is started later: a program, or a launcher's flag.
pub fn later<S: AsRef<str>>(argv: &[S]) -> Option<&str> {
    argv.iter().skip(1).map(AsRef::as_ref).find(|word| is_program(word) || flag(word).is_some())
}

/// Whether a word names a program that binds what it starts.
pub fn is_program(word: &str) -> bool {
    binders::is_binder(file_name(word).as_bytes())
}

/// What a flag of a launcher does about binding, with or without a value; `None`: nothing.
pub fn flag(word: &str) -> Option<&'static str> {
    let name = word.split('=').next().unwrap_or(word).replace('_', "-");
    FLAGS.iter().find(|(flag, _)| *flag == name).map(|(_, what)| *what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<&str> {
        line.split_whitespace().collect()
    }

    #[test]
    fn numactl_and_taskset_before_the_program_are_a_wish() {
        let (numactl, taskset) = (Some("numactl"), Some("taskset"));
        for (line, cpus, memory) in [
            ("numactl -C 0-7 python train.py", numactl, None),
            ("numactl -N0 -m0 python train.py", numactl, numactl),
            ("numactl --physcpubind=+0 --membind 1 ./a.out", numactl, numactl),
            ("/usr/bin/numactl --cpunode=1 ./a.out", numactl, None),
            ("numactl --interleave=all torchrun train.py", None, numactl),
            ("numactl -al ./a.out", None, numactl),
            ("numactl -aC1 ./a.out", numactl, None),
            ("numactl --all -P 0,1 -- ./a.out -C 3", None, numactl),
            ("env A=1 nice taskset -c 0-7 ./a.out", taskset, None),
            ("taskset 0xff numactl -l ./a.out", taskset, numactl),
            ("timeout 10 numactl --preferred-many=0-1 -c 1 ./a.out", numactl, numactl),
        ] {
            assert_eq!(wish(&words(line)), Wish { cpus, memory }, "{line}");
        }
    }

    #[test]
    fn other_command_lines_are_none() {
        for line in [
            "",
            "numactl",
            "numactl --all ./a.out",
            "python numactl -C 0",
            "bash -c taskset",
            "torchrun t.py",
            "env numactls -m 0",
        ] {
            assert_eq!(wish(&words(line)), Wish::default(), "{line}");
        }
    }

    #[test]
    fn what_binds_later_is_found_by_its_word() {
        for (line, word) in [
            ("torchrun --no-python numactl -N 0 ./a.out", Some("numactl")),
            ("deepspeed --bind_cores_to_rank train.py", Some("--bind_cores_to_rank")),
            ("torchrun --numa-binding=node train.py", Some("--numa-binding=node")),
            ("mpirun -np 8 /usr/bin/taskset -c 1 ./a.out", Some("/usr/bin/taskset")),
            ("torchrun train.py", None),
            ("bash my-numactl.sh", None),
        ] {
            assert_eq!(later(&words(line)), word, "{line}");
        }
    }
}
