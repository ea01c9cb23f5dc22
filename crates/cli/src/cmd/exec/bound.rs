//! Whether somebody bound this very rank before: a launcher that binds its ranks by itself, Slurm, or `taskset`.
//!
//! Such a mask is one rank's. To divide it among the ranks of the node would leave each a part of its part.

use crate::proc::{GENERATIONS, Proc};
use gpu_tune_engine::{Code, CpuSet, Notice};

/// Who did it, by the name of the process that has more CPUs than the rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BoundBy(String);

/// What may stand between a launcher and the rank without binding anything.
const BETWEEN: [&str; 10] = ["sh", "bash", "dash", "ash", "ksh", "zsh", "env", "nice", "timeout", "gpu-tune"];

impl BoundBy {
    /// Looks at what is above a process that may run on `own`. The first that is no wrapper is what started the rank.
    pub(super) fn find(proc: &Proc, pid: u32, own: &CpuSet) -> Option<Self> {
        for pid in proc.line(pid).skip(1).take(GENERATIONS) {
            let process = proc.threads(pid).ok()?.into_iter().next()?;
            if own != &process.cpus && own.is_subset(&process.cpus) {
                return Some(Self(process.name));
            }
            if !BETWEEN.contains(&process.name.as_str()) {
                return None;
            }
        }
        None
    }

    /// For people.
    pub(super) fn told(&self, own: &CpuSet) -> Notice {
        let Self(name) = self;
        let who = if BETWEEN.contains(&name.as_str()) { "something".to_owned() } else { format!("`{name}`") };
        let message = format!("CPUs and memory are left as they are: {who} bound this rank to the CPUs {own}");
        let help = match name.as_str() {
            "mpirun" | "mpiexec" | "orted" | "orterun" | "prted" | "prterun" => {
                Some("`mpirun --bind-to none` leaves it to gpu-tune")
            }
            "slurmstepd" => Some("`srun --cpu-bind=none` leaves it to gpu-tune, and so does the plugin"),
            _ => None,
        };
        Notice::new(Code::UserBinding, message).help_if(help.map(str::to_owned))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Processes 10, 11, … above each other: name and CPUs, the lowest last.
    fn found(line: &[(&str, &str)]) -> Option<String> {
        let root = tempfile::tempdir().unwrap();
        for ((name, cpus), pid) in line.iter().zip(10..) {
            let status =
                format!("Name:\t{name}\nPPid:\t{}\nCpus_allowed_list:\t{cpus}\n", if pid == 10 { 1 } else { pid - 1 });
            let folder = root.path().join(format!("{pid}/task/{pid}"));
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("status"), &status).unwrap();
            std::fs::write(root.path().join(format!("{pid}/status")), &status).unwrap();
        }
        let own = line.last().unwrap().1.parse().unwrap();
        let last = 9 + u32::try_from(line.len()).unwrap();
        BoundBy::find(&Proc::at(root.path()), last, &own).map(|by| by.told(&own).message)
    }

    #[test]
    fn who_has_more_cpus_than_the_rank_bound_it() {
        let left =
            |who: &str| Some(format!("CPUs and memory are left as they are: {who} bound this rank to the CPUs 0-3"));
        assert_eq!(found(&[("mpirun", "0-7"), ("gpu-tune", "0-3")]), left("`mpirun`"));
        assert_eq!(found(&[("slurmstepd", "0-7"), ("bash", "0-3"), ("gpu-tune", "0-3")]), left("`slurmstepd`"));
        assert_eq!(found(&[("bash", "0-7"), ("gpu-tune", "0-3")]), left("something"));
    }

    #[test]
    fn a_narrow_job_is_not_a_bound_rank() {
        assert_eq!(found(&[("bash", "0-7"), ("mpirun", "0-3"), ("sh", "0-3"), ("gpu-tune", "0-3")]), None);
        assert_eq!(found(&[("gpu-tune", "0-3")]), None);
        assert_eq!(found(&[("mpirun", "4-7"), ("gpu-tune", "0-3")]), None, "not by it");
    }
}
