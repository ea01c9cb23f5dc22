//! What is ours in an environment, and how it goes away again.
//!
//! Everything that a task's environment holds travels on, into an inner `srun` and into a job submitted from inside. So each
//! step notes in `GPU_TUNE_SET` which variables it set, and to what. A variable is still ours only as long as it has that
//! value: what the user changed since is his.
//!
//! ```text
//! GPU_TUNE_SET=NCCL_DEBUG=9be17165,PATH=1f2e3d4c:10+25
//!              name       hash of the value │  └ bytes 10 to 34 of the value are what the user had
//! ```
#![forbid(unsafe_code)]

use super::preload;
use gpu_tune_shim_core::bytes::{hash, hash_text};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;

/// The variable that this module keeps.
pub const SET: &str = "GPU_TUNE_SET";
/// The variable by which srun tells the nodes how many GPUs it was asked for in total (`--gpus`): Slurm tells a node only of
/// its own.
pub const TOTAL_GPUS: &str = "GPU_TUNE_TOTAL_GPUS";
/// The variables that no one but gpu-tune sets.
pub const OWN: [&str; 4] = ["GPU_TUNE_PROFILE", "GPU_TUNE_PLAN", SET, TOTAL_GPUS];

/// A variable that we set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its whole value.
    pub value: &'a OsStr,
    /// Which bytes of the value the user had there before, if we put something around it.
    pub users: Option<Range<usize>>,
}

/// One thing to do to an environment: give a variable this value, or remove it.
pub type Change = (String, Option<OsString>);

/// The value of `GPU_TUNE_SET`.
pub fn note<'a>(marks: impl IntoIterator<Item = Mark<'a>>) -> String {
    let mut text = String::new();
    for Mark { name, value, users } in marks {
        let comma = if text.is_empty() { "" } else { "," };
        let _ = write!(text, "{comma}{name}={:08x}", hash(value.as_bytes()));
        if let Some(users) = users {
            let _ = write!(text, ":{}+{}", users.start, users.len());
        }
    }
    text
}

/// The longest note that counts, in bytes. One of all the variables that are known has some 8 KiB.
const NOTE_MOST: usize = 16 * 1024;

/// What brings an environment back to what the user has in it; `var` looks a variable up.
///
/// The note may be forged: a variable that it names twice counts once, and an endless one not at all, so that the work is
/// bounded by the size of the environment.
pub fn undo(var: impl Fn(&str) -> Option<OsString>) -> Vec<Change> {
    let mut changes = Vec::new();
    let noted = var(SET).filter(|note| note.len() <= NOTE_MOST).unwrap_or_default();
    let noted = noted.to_string_lossy();
    let mut seen = BTreeSet::new();
    for (name, hashed, users) in noted.split(',').filter_map(read).filter(|(name, _, _)| seen.insert(*name)) {
        let Some(value) = var(name).filter(|value| hash(value.as_bytes()) == hashed) else { continue };
        let users = users.and_then(|users| value.as_bytes().get(users)).filter(|users| !users.is_empty());
        changes.push((name.to_string(), users.map(|users| OsStr::from_bytes(users).to_owned())));
    }
    // A list with a site's own entries is in the note; the shim in any other is found by its name.
    let done = changes.iter().any(|(name, _)| name == preload::LD_PRELOAD);
    if let Some(left) =
        var(preload::LD_PRELOAD).filter(|_| !done).and_then(|list| preload::without_shim(list.to_str()?))
    {
        changes.push((preload::LD_PRELOAD.to_string(), Some(left.into()).filter(|left: &OsString| !left.is_empty())));
    }
    changes.extend(OWN.iter().filter(|name| var(name).is_some()).map(|name| (name.to_string(), None)));
    changes
}

/// One entry of `GPU_TUNE_SET`.
fn read(entry: &str) -> Option<(&str, u32, Option<Range<usize>>)> {
    let (name, rest) = entry.split_once('=')?;
    let (hashed, users) = rest.split_once(':').map_or((rest, None), |(hashed, users)| (hashed, Some(users)));
    let users = match users.map(|users| users.split_once('+')) {
        None => None,
        Some(None) => return None,
        Some(Some((start, length))) => {
            let (start, length) = (start.parse::<usize>().ok()?, length.parse::<usize>().ok()?);
            Some(start..start.checked_add(length)?)
        }
    };
    let plain = !OWN.contains(&name) && !name.is_empty() && !is_slurms(name);
    plain.then_some((name, hash_text(hashed.as_bytes())?, users))
}

/// Variables that Slurm tells a step by. None is ever ours, and a forged note must not take them from us: a step without
/// `SLURM_STEP_GPUS` looks like one without GPUs.
fn is_slurms(name: &str) -> bool {
    const DEVICES: [&str; 4] =
        ["CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"];
    name.starts_with("SLURM") || DEVICES.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn env(entries: &[(&str, &str)]) -> BTreeMap<String, OsString> {
        entries.iter().map(|(name, value)| (name.to_string(), value.into())).collect()
    }

    fn undone(mut env: BTreeMap<String, OsString>) -> BTreeMap<String, OsString> {
        for (name, value) in undo(|name| env.get(name).cloned()) {
            match value {
                Some(value) => env.insert(name, value),
                None => env.remove(&name),
            };
        }
        env
    }

    fn mark<'a>(name: &'a str, value: &'a str) -> Mark<'a> {
        Mark { name, value: value.as_ref(), users: None }
    }

    #[test]
    fn what_was_set_goes_and_what_the_user_changed_since_stays() {
        let note = note([mark("NCCL_DEBUG", "WARN"), mark("OMP_NUM_THREADS", "4"), mark("NCCL_IB_TC", "106")]);
        let tuned = env(&[
            ("PATH", "/bin"),
            ("NCCL_DEBUG", "WARN"),
            ("OMP_NUM_THREADS", "8"),
            ("GPU_TUNE_SET", &note),
            ("GPU_TUNE_PLAN", "1;0-1;;0;1"),
            ("GPU_TUNE_PROFILE", "h200"),
            ("LD_PRELOAD", "/a.so:/opt/libgpu_tune_preload.so"),
        ]);
        assert_eq!(undone(tuned), env(&[("PATH", "/bin"), ("OMP_NUM_THREADS", "8"), ("LD_PRELOAD", "/a.so")]));
    }

    #[test]
    fn a_users_part_of_a_value_comes_back() {
        let value = "/ours/lib:/users/lib:/more";
        let note = note([Mark { name: "LD_LIBRARY_PATH", value: value.as_ref(), users: Some(10..20) }]);
        let tuned = env(&[("LD_LIBRARY_PATH", value), ("GPU_TUNE_SET", &note)]);
        assert_eq!(undone(tuned), env(&[("LD_LIBRARY_PATH", "/users/lib")]));
        let changed = env(&[("LD_LIBRARY_PATH", "/ours/lib:/users/lib:/more:/new"), ("GPU_TUNE_SET", &note)]);
        assert_eq!(undone(changed), env(&[("LD_LIBRARY_PATH", "/ours/lib:/users/lib:/more:/new")]));
    }

    #[test]
    fn an_environment_that_never_was_ours_is_not_touched() {
        assert_eq!(undo(|name| env(&[("NCCL_DEBUG", "WARN"), ("LD_PRELOAD", "/a.so")]).get(name).cloned()), []);
    }

    #[test]
    fn a_damaged_note_undoes_nothing_but_itself() {
        for note in ["", "x", "A=", "A=12", "A=0123456g", "A=00000000:1", "A=00000000:1+x", "=00000000", ",,,"] {
            let tuned = env(&[("A", "1"), ("GPU_TUNE_SET", note)]);
            assert_eq!(undone(tuned), env(&[("A", "1")]), "{note:?}");
        }
        // A part that is not in the value: the hash holds, so the variable is ours.
        let tuned = env(&[("A", "1"), ("GPU_TUNE_SET", &format!("A={:08x}:5+9", hash(b"1")))]);
        assert_eq!(undone(tuned), env(&[]));
    }

    #[test]
    fn a_forged_note_takes_nothing_away_that_slurm_tells() {
        let names = ["SLURM_STEP_GPUS", "SLURM_JOB_ID", "SLURMD_NODENAME", "CUDA_VISIBLE_DEVICES"];
        let forged = note(names.map(|name| mark(name, "0,1")));
        let mut tuned = env(&names.map(|name| (name, "0,1")));
        let before = tuned.clone();
        tuned.insert(SET.to_owned(), forged.into());
        assert_eq!(undone(tuned), before);
    }

    /// 12,500 times the same variable would be as many copies of its value, in slurmstepd.
    #[test]
    fn a_forged_note_costs_no_more_than_the_environment_is_big() {
        let entry = format!("A={:08x}:0+1,", hash(b"xy"));
        let forged = entry.repeat(100);
        let changes = undo(|name| env(&[("A", "xy"), ("GPU_TUNE_SET", &forged)]).get(name).cloned());
        assert_eq!(changes, [("A".to_owned(), Some("x".into())), (SET.to_owned(), None)]);
        let endless = entry.repeat(NOTE_MOST / entry.len() + 1);
        let changes = undo(|name| env(&[("A", "xy"), ("GPU_TUNE_SET", &endless)]).get(name).cloned());
        assert_eq!(changes, [(SET.to_owned(), None)]);
        let longest = note((0..200).map(|_| mark("A_VARIABLE_WITH_A_VERY_LONG_NAME", "1")));
        assert!(longest.len() < NOTE_MOST, "all that are known fit: {}", longest.len());
    }

    #[test]
    fn a_shim_alone_leaves_no_empty_list_behind() {
        assert_eq!(undone(env(&[("LD_PRELOAD", "/opt/libgpu_tune_preload.so")])), env(&[]));
    }
}
