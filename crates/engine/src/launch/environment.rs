//! Everything that one task's environment gets, in rank mode and in launcher mode, inside Slurm and without it.
#![forbid(unsafe_code)]

use super::ours::{Change, Mark, OWN, SET, note};
use super::{plan_text, preload};
use crate::env::{self, Decision, RankValues};
use crate::plan::Share;
use crate::profile::Action;
use crate::{Code, Notice};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// The variable with the plan: [`super::plan_text`].
const PLAN: &str = OWN[1];

/// What was decided for a task.
#[derive(Debug, Clone, Copy)]
pub struct Tuning<'a> {
    /// The profile's name, with its layers.
    pub profile: &'a str,
    /// What becomes of the profile's variables.
    pub decisions: &'a [Decision],
    /// What differs from task to task.
    pub values: &'a RankValues,
    /// How the task finds its peers: [`super::rendezvous`].
    pub rendezvous: &'a [(&'static str, String)],
    /// For a launcher whose ranks are to be bound: its plan as text, and the shim.
    pub ranks: Option<(&'a str, &'a Path)>,
    /// For a task that is a rank itself: what it is bound to, noted so that `gpu-tune verify` can compare later.
    pub own: Option<&'a Share>,
}

/// What to do to the environment, and what a person should hear about it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Variables to set, or to remove, each at most once.
    pub changes: Vec<Change>,
    /// Values that cannot be had.
    pub notices: Vec<Notice>,
}

/// Works it out; `var` looks a variable up in the environment that the task has now. What an outer step of ours had set
/// there has to be gone already ([`super::ours::undo`]).
pub fn changes(tuning: &Tuning<'_>, var: impl Fn(&str) -> Option<OsString>) -> Changes {
    let mut sheet = Sheet::default();
    for decision in tuning.decisions {
        sheet.decide(decision, tuning.values, var(&decision.name));
    }
    for (name, value) in tuning.rendezvous {
        sheet.set(name, value.into(), None);
    }
    if let Some((plan, shim)) = tuning.ranks {
        sheet.preload(plan, shim, &var);
    } else if let Some(plan) = tuning.own.and_then(plan_text::of_rank) {
        sheet.changes.insert(PLAN.to_owned(), Some(plan.into()));
    }
    sheet.finish(tuning.profile)
}

#[derive(Default)]
struct Sheet {
    changes: BTreeMap<String, Option<OsString>>,
    /// Names that are ours, and which part of the value is the user's.
    ours: BTreeMap<String, Option<Range<usize>>>,
    notices: Vec<Notice>,
}

impl Sheet {
    fn decide(&mut self, decision: &Decision, values: &RankValues, current: Option<OsString>) {
        let name = &*decision.name;
        match decision.for_rank(values, current.as_deref()) {
            // The task has the value already, from its user or from its container's image: then it is not ours.
            env::Change::Set(value) if Some(&value) == current.as_ref() => {}
            env::Change::Set(value) => {
                let joins = matches!(decision.action, Action::Prepend | Action::Append);
                let users = current.filter(|_| joins).and_then(|users| part(&value, &users));
                self.set(name, value, users);
            }
            env::Change::Restore(value) if Some(&value) == current.as_ref() => {}
            env::Change::Restore(value) => {
                self.changes.insert(name.to_owned(), Some(value));
            }
            env::Change::Unset if current.is_none() => {}
            env::Change::Unset => {
                self.changes.insert(name.to_owned(), None);
            }
            env::Change::Nothing => {}
            env::Change::LeftOut(_) if values.unbound && decision.goes_with_binding() => {}
            env::Change::LeftOut(reason) => {
                self.notices.push(Notice::new(Code::Env, format!("`{name}` is not set: {reason}")));
            }
        }
    }

    fn set(&mut self, name: &str, value: OsString, users: Option<Range<usize>>) {
        self.changes.insert(name.to_owned(), Some(value));
        self.ours.insert(name.to_owned(), users);
    }

    /// `LD_PRELOAD` needs no note for the shim, which is found in it by its name.
    fn preload(&mut self, plan: &str, shim: &Path, var: &impl Fn(&str) -> Option<OsString>) {
        let before =
            |sheet: &Self, name| sheet.changes.get(name).cloned().unwrap_or_else(|| var(name)).unwrap_or_default();
        let list = before(self, preload::LD_PRELOAD);
        let Some(list) = list.to_str().and_then(|list| preload::with_shim(list, shim)) else {
            let message = format!("ranks are not bound: `{}` cannot stand in `LD_PRELOAD`", shim.display());
            let help = "put the library where its path has no blank and no colon";
            return self.notices.push(Notice::new(Code::NoShim, message).help(help));
        };
        self.changes.insert(preload::LD_PRELOAD.to_owned(), Some(list.into()));
        self.changes.insert(PLAN.to_owned(), Some(plan.into()));
        let options = before(self, preload::ASAN_OPTIONS);
        if let Some(longer) = options.to_str().and_then(preload::sanitizer_options) {
            let users = (!options.is_empty()).then(|| 0..options.len());
            self.set(preload::ASAN_OPTIONS, longer.into(), users);
        }
    }

    fn finish(mut self, profile: &str) -> Changes {
        let mark = |(name, users): (&'_ String, &Option<Range<usize>>)| {
            let value = self.changes.get(name)?.as_deref()?;
            Some((name.clone(), value.to_owned(), users.clone()))
        };
        let marks: Vec<_> = self.ours.iter().filter_map(mark).collect();
        let marks = marks.iter().map(|(name, value, users)| Mark { name, value, users: users.clone() });
        let noted = note(marks);
        self.changes.insert(OWN[0].to_owned(), Some(profile.into()));
        if !noted.is_empty() {
            self.changes.insert(SET.to_owned(), Some(noted.into()));
        }
        Changes { changes: self.changes.into_iter().collect(), notices: self.notices }
    }
}

/// Where in a joined value the user's own stands.
fn part(value: &OsStr, users: &OsStr) -> Option<Range<usize>> {
    let (value, users) = (value.as_bytes(), users.as_bytes());
    let start = value.windows(users.len().max(1)).position(|window| window == users)?;
    Some(start..start + users.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::{NcclConf, StepValues, decide};
    use crate::launch::ours::undo;
    use crate::profile::{Catalog, Facts, Source};
    use crate::spec::SiteConfig;

    type Env = BTreeMap<String, OsString>;

    fn env(entries: &[(&str, &str)]) -> Env {
        entries.iter().map(|(name, value)| (name.to_string(), value.into())).collect()
    }

    fn decisions(toml: &str, user: &Env) -> Vec<Decision> {
        let mut catalog = Catalog::default();
        catalog.add_text("p", Source { file: "p.toml".into(), builtin: false }, format!("[env]\n{toml}"));
        let facts = Facts { nodes: Some(1), ..Facts::default() };
        let resolved = catalog.resolve(&"p".parse().unwrap(), &SiteConfig::default(), &facts).unwrap().unwrap();
        decide(&resolved, |name| user.get(name).cloned(), &NcclConf::default(), &StepValues::default())
    }

    fn apply(env: &Env, changes: &[Change]) -> Env {
        let mut env = env.clone();
        for (name, value) in changes {
            match value {
                Some(value) => env.insert(name.clone(), value.clone()),
                None => env.remove(name),
            };
        }
        env
    }

    const TOML: &str = r#"
        NCCL_DEBUG = "WARN"
        OMP_NUM_THREADS = "4"
        PATHS = { value = "/ours", action = "prepend" }
        GONE = { action = "unset" }
        LD_PRELOAD = { value = "/site.so", action = "prepend" }
    "#;

    fn tuned(user: &Env, launcher: bool) -> Changes {
        let decisions = decisions(TOML, user);
        let tuning = Tuning {
            profile: "p",
            decisions: &decisions,
            values: &RankValues::default(),
            rendezvous: &[("PET_NNODES", "4".to_owned())],
            ranks: launcher.then_some(("1;0-1;;0;1", Path::new("/opt/libgpu_tune_preload.so"))),
            own: None,
        };
        changes(&tuning, |name| user.get(name).cloned())
    }

    #[test]
    fn a_launcher_gets_its_plan_and_the_shim_behind_everything_else() {
        let user = env(&[("NCCL_DEBUG", "INFO"), ("LD_PRELOAD", "/mine.so"), ("ASAN_OPTIONS", "detect_leaks=0")]);
        let after = apply(&user, &tuned(&user, true).changes);
        assert_eq!(after["NCCL_DEBUG"], "INFO");
        assert_eq!(after["OMP_NUM_THREADS"], "4");
        assert_eq!(after["PET_NNODES"], "4");
        assert_eq!(after["GPU_TUNE_PLAN"], "1;0-1;;0;1");
        assert_eq!(after["GPU_TUNE_PROFILE"], "p");
        assert_eq!(after["LD_PRELOAD"], "/site.so:/mine.so:/opt/libgpu_tune_preload.so");
        assert_eq!(after["ASAN_OPTIONS"], "detect_leaks=0:verify_asan_link_order=0");
        let noted = after["GPU_TUNE_SET"].to_str().unwrap();
        let names: Vec<_> = noted.split(',').map(|entry| entry.split_once('=').unwrap().0).collect();
        assert_eq!(names, ["ASAN_OPTIONS", "LD_PRELOAD", "OMP_NUM_THREADS", "PATHS", "PET_NNODES"]);
    }

    #[test]
    fn a_task_that_is_a_rank_gets_neither_plan_nor_shim() {
        let after = apply(&env(&[]), &tuned(&env(&[]), false).changes);
        assert!(!after.contains_key("GPU_TUNE_PLAN") && !after.contains_key("ASAN_OPTIONS"));
        assert_eq!(after["LD_PRELOAD"], "/site.so");
    }

    #[test]
    fn undoing_brings_back_what_the_user_had() {
        for user in [
            env(&[]),
            env(&[("PATHS", "/a:/b"), ("NCCL_DEBUG", "INFO"), ("OMP_NUM_THREADS", "4")]),
            env(&[("LD_PRELOAD", "/mine.so")]),
            env(&[("PATHS", "/ours:/a"), ("ASAN_OPTIONS", "verify_asan_link_order=1")]),
        ] {
            let after = apply(&user, &tuned(&user, true).changes);
            assert_ne!(after, user);
            assert_eq!(apply(&after, &undo(|name| after.get(name).cloned())), user);
        }
    }

    #[test]
    fn a_value_that_the_user_has_anyway_is_his() {
        let user = env(&[("PATHS", "/ours:/a")]);
        assert!(!tuned(&user, false).changes.iter().any(|(name, _)| name == "PATHS"));
    }

    #[test]
    fn what_is_unset_goes() {
        let user = env(&[]);
        let image = env(&[("GONE", "1")]);
        let decisions = decisions(TOML, &user);
        let values = RankValues::default();
        let tuning =
            Tuning { profile: "p", decisions: &decisions, values: &values, rendezvous: &[], ranks: None, own: None };
        let after = apply(&image, &changes(&tuning, |name| image.get(name).cloned()).changes);
        assert!(!after.contains_key("GONE"));
    }

    #[test]
    fn a_shim_that_cannot_be_named_is_told() {
        let values = RankValues::default();
        let ranks = Some(("1;0-1;;0;1", Path::new("/a b/libgpu_tune_preload.so")));
        let tuning = Tuning { profile: "p", decisions: &[], values: &values, rendezvous: &[], ranks, own: None };
        let out = changes(&tuning, |_| None);
        assert_eq!(out.notices[0].code, Code::NoShim);
        assert_eq!(out.changes, [("GPU_TUNE_PROFILE".to_owned(), Some("p".into()))]);
    }

    #[test]
    fn a_rank_notes_what_it_is_bound_to_and_nothing_is_preloaded() {
        let share = Share { cpus: Some("4-7".parse().unwrap()), memory: None };
        let values = RankValues::default();
        let noted = |own| {
            let tuning = Tuning { profile: "p", decisions: &[], values: &values, rendezvous: &[], ranks: None, own };
            apply(&env(&[]), &changes(&tuning, |_| None).changes).remove("GPU_TUNE_PLAN")
        };
        assert_eq!(noted(Some(&share)), Some("1;4-7;;4-7".into()));
        assert_eq!(noted(Some(&Share::default())), None, "nothing to compare with");
    }
}
