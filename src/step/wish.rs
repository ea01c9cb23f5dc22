//! The user's own binding wishes, as `--cpu-bind`, `--mem-bind` and `--hint` leave them in the environment of `user_init`.
//!
//! By default `SLURM_CPU_BIND` is unset there. In the tasks it looks the same whether the user asked or Slurm chose, so it
//! must be read before the fork.
#![forbid(unsafe_code)]

/// What the user asked Slurm for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Wish {
    /// He binds CPUs himself (or asked for none to be bound).
    pub(crate) cpus: bool,
    /// He binds memory himself.
    pub(crate) memory: bool,
    /// One hardware thread of each core (`--hint=nomultithread`).
    pub(crate) one_thread: bool,
}

impl Wish {
    /// Reads the two variables.
    pub(crate) fn read(cpu_bind: Option<&str>, mem_bind: Option<&str>) -> Self {
        let cpu = cpu_bind.map(without_verbosity).unwrap_or_default();
        let memory = mem_bind.map(without_verbosity).unwrap_or_default();
        // `--hint=nomultithread` turns into binding to threads.
        let one_thread = cpu == "threads";
        Self { cpus: !cpu.is_empty() && !one_thread, memory: !memory.is_empty(), one_thread }
    }
}

/// `quiet` and `verbose` are no wishes about where to run.
fn without_verbosity(value: &str) -> &str {
    let mut rest = value.trim_matches(',');
    while let Some(next) = ["quiet", "verbose"].iter().find_map(|word| rest.strip_prefix(word)) {
        match next.strip_prefix(',') {
            Some(next) => rest = next,
            None if next.is_empty() => rest = next,
            None => break,
        }
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_user_asked_for_is_a_wish() {
        let cpus = |text| Wish::read(Some(text), None);
        assert_eq!(Wish::read(None, None), Wish::default());
        for text in ["", "quiet", "verbose", "quiet,verbose", "verbose,"] {
            assert_eq!(cpus(text), Wish::default(), "{text}");
        }
        for text in
            ["quiet,cores", "quiet,corescores", "none", "quiet,none", "quiet,map_cpu:1,0", "verbose,mask_cpu:0x1"]
        {
            assert_eq!(cpus(text), Wish { cpus: true, ..Wish::default() }, "{text}");
        }
        assert_eq!(Wish::read(None, Some("quiet,local")), Wish { memory: true, ..Wish::default() });
    }

    #[test]
    fn no_multithreading_is_a_wish_about_threads_only() {
        assert_eq!(Wish::read(Some("quiet,threads"), None), Wish { one_thread: true, ..Wish::default() });
    }
}
