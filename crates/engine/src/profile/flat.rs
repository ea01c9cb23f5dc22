//! A profile with all that it inherits as one list, before any step is known: what two profiles are compared by.

use super::{Catalog, Origin, Profile, ProfileError, Rule};
use crate::plan::Reserve;
use crate::spec::Word;
use std::collections::BTreeMap;

/// Every key with its value as text and the place of each; variables as `env.NAME`. A variable has several entries where
/// conditions decide.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Flat(pub BTreeMap<String, Vec<(String, Origin)>>);

impl Catalog {
    /// A profile's whole content.
    pub fn flat(&self, name: &str) -> Result<Flat, ProfileError> {
        let mut flat = Flat::default();
        for profile in self.lineage(name)? {
            flat.put(profile);
        }
        Ok(flat)
    }
}

impl Flat {
    fn put(&mut self, profile: &Profile) {
        for (key, origin) in &profile.places {
            let value = text(profile, key);
            self.0.insert(key.clone(), vec![(value, origin.clone())]);
        }
        for rules in profile.env.chunk_by(|a, b| a.name == b.name) {
            self.put_rules(rules);
        }
    }

    /// A file's rules come before those of the files below; what stands behind one without a condition never counts.
    fn put_rules(&mut self, rules: &[Rule]) {
        let Some(first) = rules.first() else { return };
        let below = self.0.entry(format!("env.{}", first.name)).or_default();
        let always = rules.iter().any(|rule| rule.when.is_empty() && rule.slot() == super::rule::Slot::Value);
        if always {
            below.clear();
        }
        below.splice(0..0, rules.iter().map(|rule| (rule.to_string(), rule.origin.clone())));
    }
}

/// The value of a key outside `[env]`, as text.
fn text(profile: &Profile, key: &str) -> String {
    let bind = &profile.bind;
    let text = match key {
        "bind.cpu" => bind.cpu.map(|cpu| cpu.word().to_owned()),
        "bind.mem" => bind.mem.map(|mem| mem.word().to_owned()),
        "bind.smt" => bind.smt.map(|smt| smt.word().to_owned()),
        "bind.reserve" => bind.reserve.as_ref().map(Reserve::to_string),
        "bind.prefer" => bind.prefer_priority.map(|yes| if yes { "priority" } else { "" }.to_owned()),
        "limits.memlock" => profile.memlock.map(|limit| limit.to_string()),
        "launch.workers" => profile.workers.map(|yes| yes.to_string()),
        "launch.rendezvous" => profile.rendezvous.map(|when| when.word().to_owned()),
        "fabric.address_range" => profile.address_range.map(|range| range.to_string()),
        "machine.gpu_numa" => {
            Some(profile.gpu_numa.iter().map(|(gpu, node)| format!("{gpu}={node}")).collect::<Vec<_>>().join(" "))
        }
        _ => None,
    };
    text.unwrap_or_default()
}
