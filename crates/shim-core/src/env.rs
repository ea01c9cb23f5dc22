//! The few variables that the shim looks at, picked out of an environment in one pass.
use crate::bytes::value_of;

/// How many variables there are.
const COUNT: usize = 15;

/// The variables, in the order of [`Name`].
pub static NAMES: [&str; COUNT] = [
    "GPU_TUNE_PLAN",
    "LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "MPI_LOCALRANKID",
    "MV2_COMM_WORLD_LOCAL_RANK",
    "PALS_LOCAL_RANKID",
    "PMI_LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "MPI_LOCALNRANKS",
    "MV2_COMM_WORLD_LOCAL_SIZE",
    "PMI_LOCAL_SIZE",
    "TORCHELASTIC_RUN_ID",
    "RANK",
    "GROUP_RANK",
    "LOCAL_WORLD_SIZE",
];

/// Who writes which variable (from the launchers' sources).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Name {
    /// The plan.
    Plan,
    /// torchrun, accelerate, deepspeed. pyxis gives it to the launcher itself.
    LocalRank,
    /// Open MPI.
    OmpiLocalRank,
    /// MPICH's Hydra and Intel MPI.
    MpiLocalRankId,
    /// MVAPICH2.
    Mv2LocalRank,
    /// Cray PALS.
    PalsLocalRankId,
    /// Slurm's `cray_shasta` plugin, PALS.
    PmiLocalRank,
    /// Open MPI: ranks of the job on this node.
    OmpiLocalSize,
    /// Hydra and Intel MPI: the same.
    MpiLocalNRanks,
    /// MVAPICH2: the same.
    Mv2LocalSize,
    /// PALS: the same.
    PmiLocalSize,
    /// torchrun: this process is one of its workers, or descends from one.
    TorchelasticRunId,
    /// torchrun: the rank among all.
    Rank,
    /// torchrun: the rank of the node.
    GroupRank,
    /// torchrun: workers on this node.
    LocalWorldSize,
}

/// The values of [`NAMES`] in one environment.
#[derive(Debug, Default, Clone, Copy)]
pub struct Env<'a>([Option<&'a [u8]>; COUNT]);

impl<'a> Env<'a> {
    /// Looks at one entry, `NAME=value`. Of two entries of one name the first counts, as for `getenv`.
    pub fn see(&mut self, entry: &'a [u8]) {
        // Most entries are none of ours: their first letter tells.
        if !matches!(entry.first(), Some(b'G' | b'L' | b'M' | b'O' | b'P' | b'R' | b'T')) {
            return;
        }
        for (slot, name) in self.0.iter_mut().zip(&NAMES) {
            if slot.is_none() {
                *slot = value_of(entry, name.as_bytes());
            }
        }
    }

    /// The value of a variable, if it is set.
    pub fn get(&self, name: Name) -> Option<&'a [u8]> {
        self.0.get(name as usize).copied().flatten()
    }
}

impl Name {
    /// The variable's name.
    pub fn text(self) -> &'static [u8] {
        NAMES.get(self as usize).map_or(b"", |name| name.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_their_texts_have_one_order() {
        assert_eq!(Name::Plan.text(), b"GPU_TUNE_PLAN");
        assert_eq!(Name::PmiLocalRank.text(), b"PMI_LOCAL_RANK");
        assert_eq!(Name::LocalWorldSize.text(), b"LOCAL_WORLD_SIZE");
        assert_eq!(Name::LocalWorldSize as usize + 1, COUNT);
    }

    #[test]
    fn every_name_passes_the_look_at_the_first_letter() {
        for name in &NAMES {
            let entry = std::format!("{name}=7");
            let mut env = Env::default();
            env.see(entry.as_bytes());
            assert_eq!(env.0.iter().flatten().count(), 1, "{name}");
        }
    }

    #[test]
    fn the_first_of_two_entries_counts() {
        let mut env = Env::default();
        for entry in ["LOCAL_RANK=1", "LOCAL_RANK=2", "PATH=/bin", ""] {
            env.see(entry.as_bytes());
        }
        assert_eq!(env.get(Name::LocalRank), Some(&b"1"[..]));
        assert_eq!(env.get(Name::Rank), None);
    }
}
