//! What may have undone the plan, as far as environment and ancestors tell.

use super::group::Group;
use crate::proc::{Environ, GENERATIONS, Proc};
use gpu_tune_engine::CpuSet;
use gpu_tune_engine::launch::{binders, preload};

/// Name, whether a value binds, what happens then.
type Variable = (&'static str, fn(&str) -> bool, &'static str);

/// Variables that make a library or framework bind on its own: the name, the values that do so, and what they do.
const VARIABLES: [Variable; 8] = [
    ("NCCL_IGNORE_CPU_AFFINITY", truthy, "NCCL gives its threads all CPUs near the GPU"),
    ("TLLM_NUMA_AWARE_WORKER_AFFINITY", truthy, "TensorRT-LLM binds its workers itself"),
    ("GOMP_CPU_AFFINITY", set, "libgomp places its threads itself"),
    ("KMP_AFFINITY", set, "Intel's OpenMP places its threads itself"),
    ("OMP_PLACES", set, "OpenMP places its threads itself"),
    ("OMP_PROC_BIND", binds, "OpenMP places its threads itself"),
    ("VLLM_CPU_OMP_THREADS_BIND", set, "vLLM binds its threads itself"),
    ("SGLANG_SET_CPU_AFFINITY", truthy, "SGLang binds its processes itself"),
];

/// Launchers that bind the ranks they start without being asked.
const BINDING_LAUNCHERS: [&str; 4] = ["mpirun", "mpiexec", "prterun", "orterun"];
/// The parameters by which Open MPI, up to 4 and from 5 on, is told not to; also as variables behind these words.
const POLICIES: [&str; 2] = ["hwloc_base_binding_policy", "hwloc_default_binding_policy"];
const PARAMETERS: [&str; 2] = ["OMPI_MCA_", "PRTE_MCA_"];

/// Where a shell leaves the path of the program it started: one that runs another leaves no other trace.
const LAST_STARTED: &str = "_";

/// Whether a variable's value is looked at.
pub(super) fn asks(name: &str) -> bool {
    let binds = VARIABLES.iter().any(|(variable, ..)| *variable == name);
    binds || [LAST_STARTED, preload::LD_PRELOAD].contains(&name) || is_policy_of_none(name, "none")
}

fn set(value: &str) -> bool {
    !value.is_empty()
}

fn truthy(value: &str) -> bool {
    !matches!(value, "" | "0" | "false" | "False")
}

fn binds(value: &str) -> bool {
    !matches!(value.to_ascii_lowercase().as_str(), "" | "false")
}

/// Everything that may have done it, the surest first.
pub(super) fn suspects(proc: &Proc, group: &Group, cpus: &CpuSet) -> Vec<String> {
    let mut suspects: Vec<String> = variables(&group.environ).chain(started_through(&group.environ)).collect();
    let first = group.pids.first().copied().unwrap_or_default();
    suspects.extend(commands(proc, first, &group.environ));
    suspects.extend(never_bound(group, cpus));
    suspects
}

fn variables(environ: &Environ) -> impl Iterator<Item = String> + '_ {
    VARIABLES.iter().filter_map(|(name, does, what)| {
        let value = environ.get(*name).filter(|value| does(value))?;
        Some(format!("{name}={value}: {what}"))
    })
}

/// The process and what is above it, as long as it belongs to the job.
fn commands(proc: &Proc, pid: u32, environ: &Environ) -> Vec<String> {
    let mut found = Vec::new();
    for pid in proc.line(pid).take(GENERATIONS) {
        let words = proc.cmdline(pid).unwrap_or_default();
        if words.first().is_some_and(|word| word.starts_with("slurmstepd")) {
            break;
        }
        let left_alone = told_not_to_bind(&words) || environ.iter().any(|(name, value)| is_policy_of_none(name, value));
        let binding = words.iter().filter(|word| !(left_alone && is_binding_launcher(word)));
        found.extend(binding.filter_map(|word| Some(format!("`{word}` of process {pid} {}", binds_ranks(word)?))));
    }
    found
}

fn is_binding_launcher(word: &str) -> bool {
    word.rsplit('/').next().is_some_and(|name| BINDING_LAUNCHERS.contains(&name))
}

/// Whether a launcher's command line says that it is not to bind: `--bind-to none`, `--bind-to=none`, `--bind-to-none`,
/// `--mca hwloc_base_binding_policy none`, with one dash or two.
fn told_not_to_bind(words: &[String]) -> bool {
    let next = words.iter().skip(1).map(String::as_str).chain([""]);
    words.iter().zip(next).any(|(word, next)| {
        let name = word.trim_start_matches('-');
        let (option, value) = name.split_once('=').unwrap_or((name, next));
        match option {
            "bind-to-none" => word.starts_with('-'),
            "bind-to" => word.starts_with('-') && is_none(value),
            _ => POLICIES.contains(&option) && is_none(value),
        }
    })
}

/// Whether a variable says it.
fn is_policy_of_none(name: &str, value: &str) -> bool {
    let parameter = PARAMETERS.iter().find_map(|start| name.strip_prefix(start));
    parameter.is_some_and(|parameter| POLICIES.contains(&parameter)) && is_none(value)
}

/// Qualifiers may follow, as in `none:if-supported`.
fn is_none(policy: &str) -> bool {
    policy.split(':').next() == Some("none")
}

/// What a word of a command line does to the processes below it; `None`: nothing.
fn binds_ranks(word: &str) -> Option<&'static str> {
    match word {
        _ if binders::is_program(word) => Some("binds what it starts"),
        _ if is_binding_launcher(word) => Some("binds its ranks by default: give it `--bind-to none`"),
        _ => binders::flag(word),
    }
}

/// A program that a shell started and that then ran the rank in its own place (`numactl … python train.py` in a script).
fn started_through(environ: &Environ) -> Option<String> {
    let path = environ.get(LAST_STARTED).filter(|path| binders::is_program(path))?;
    Some(format!("`{path}` started it, and binds what it starts"))
}

/// A rank that still has its launcher's CPUs.
fn never_bound(group: &Group, cpus: &CpuSet) -> Option<String> {
    group.planned.local_rank.filter(|_| *cpus == group.planned.launchers)?;
    let list = group.environ.get(preload::LD_PRELOAD).map(String::as_str).unwrap_or_default();
    Some(match preload::without_shim(list) {
        None => "the launcher started it without gpu-tune's part of LD_PRELOAD".to_owned(),
        Some(_) => {
            "it has its launcher's CPUs, so it was never bound: a rank made without exec (`mp.spawn`, `--run-path`), a \
             static program, or a memory policy set before"
                .to_owned()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_values_that_bind_are_suspects() {
        let environ = |entries: &[(&str, &str)]| -> Environ {
            entries.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let said = |entries: &[(&str, &str)]| variables(&environ(entries)).collect::<Vec<_>>();
        assert_eq!(
            said(&[("NCCL_IGNORE_CPU_AFFINITY", "1")]),
            ["NCCL_IGNORE_CPU_AFFINITY=1: NCCL gives its threads all CPUs near the GPU"]
        );
        assert!(said(&[("NCCL_IGNORE_CPU_AFFINITY", "0"), ("OMP_PROC_BIND", "FALSE"), ("OMP_PLACES", "")]).is_empty());
    }

    #[test]
    fn words_are_known_as_programs_and_as_flags() {
        for word in ["/usr/bin/numactl", "taskset", "--numa-binding=node", "--bind_cores_to_rank", "mpirun"] {
            assert!(binds_ranks(word).is_some(), "{word}");
        }
        for word in ["my-numactl", "--numa-bindings", "mpirun.py", ""] {
            assert!(binds_ranks(word).is_none(), "{word}");
        }
    }

    #[test]
    fn a_launcher_that_was_told_not_to_bind_is_known() {
        let told = |line: &str| told_not_to_bind(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        for line in [
            "mpirun --bind-to none -n 2 a.out",
            "mpirun --bind-to=none a.out",
            "mpiexec -bind-to none a.out",
            "mpirun -n 2 --bind-to-none a.out",
            "mpirun --mca hwloc_base_binding_policy none a.out",
            "prterun --prtemca hwloc_default_binding_policy none:if-supported a.out",
        ] {
            assert!(told(line), "{line}");
        }
        for line in ["mpirun a.out", "mpirun --bind-to core a.out", "mpirun none --bind-to", "mpirun bind-to none"] {
            assert!(!told(line), "{line}");
        }
        assert!(is_policy_of_none("OMPI_MCA_hwloc_base_binding_policy", "none"));
        assert!(!is_policy_of_none("OMPI_MCA_hwloc_base_binding_policy", "core") && !is_policy_of_none("NONE", "none"));
    }

    #[test]
    fn a_shell_leaves_the_name_of_a_binder_that_it_started() {
        let started = |path: &str| started_through(&[("_".to_owned(), path.to_owned())].into_iter().collect());
        assert_eq!(started("/usr/bin/numactl").unwrap(), "`/usr/bin/numactl` started it, and binds what it starts");
        assert_eq!(started("/usr/bin/srun"), None);
    }
}
