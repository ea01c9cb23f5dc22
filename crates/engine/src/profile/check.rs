//! What `gpu-tune profile check` says about a file, beyond what keeps it from being read: values that a program would
//! misread, and variables that do not belong where they stand.

use super::known::{self, CLASHES, Class, KNOWN, Known, Takes, Trait};
use super::{Action, Catalog, Entry, Finding, Kind, Profile, ProfileError, Rule};
use crate::spec::CpuPolicy;
use crate::text::{nearest, shown};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Everything that is wrong with one profile, in the order of its lines. Unknown keys keep their own kind: the caller counts
/// them as errors here.
pub fn check(catalog: &Catalog, name: &str) -> Vec<Finding> {
    let Some(entry) = catalog.get(name) else { return Vec::new() };
    let mut findings = entry.findings(name).to_vec();
    match entry.profile(name) {
        Ok(profile) => findings.extend(of_profile(catalog, entry, profile)),
        Err(error) if findings.is_empty() => findings.push(whole(entry, 0, &error)),
        // Its errors are told; what else is wrong should not come up one by one.
        Err(_) => findings.extend(entry.draft(name).iter().flat_map(|draft| of_profile(catalog, entry, draft))),
    }
    findings.sort_by_key(|finding| (finding.line, finding.column));
    findings
}

/// A fault of the file as a whole, or of its `inherits`.
fn whole(entry: &Entry, line: usize, error: &ProfileError) -> Finding {
    let message = crate::text::chain(error);
    Finding {
        kind: Kind::Error,
        file: entry.source().file.clone(),
        line,
        column: 1,
        width: 1,
        message,
        help: error.help(),
    }
}

/// What the rules of a file are held against: the file with all that it inherits.
struct Context<'a> {
    profile: &'a Profile,
    /// Some profile of the line is for certain GPUs.
    for_gpus: bool,
    cpu: CpuPolicy,
    /// The last value of each variable in the line.
    values: BTreeMap<&'a str, &'a Rule>,
}

fn of_profile(catalog: &Catalog, entry: &Entry, profile: &Profile) -> Vec<Finding> {
    let at = profile.inherits.as_ref().map_or(0, |inherits| inherits.line);
    let (line, fault) = match catalog.lineage_of(profile) {
        Ok(line) => (line, None),
        // The file alone, then.
        Err(error) => (vec![profile], Some(whole(entry, at, &error))),
    };
    let context = Context {
        profile,
        for_gpus: line.iter().any(|profile| !profile.gpu.is_empty()),
        cpu: line.iter().filter_map(|profile| profile.bind.cpu).next_back().unwrap_or_default(),
        values: line.iter().flat_map(|profile| &profile.env).map(|rule| (&*rule.name, rule)).collect(),
    };
    fault.into_iter().chain(profile.env.iter().flat_map(|rule| context.rule(rule))).collect()
}

impl Context<'_> {
    fn rule(&self, rule: &Rule) -> Vec<Finding> {
        let mut found = Found { rule, findings: Vec::new() };
        let Some(known) = known::find(&rule.name) else {
            name_like(&mut found);
            return found.findings;
        };
        if let Some(fault) = known::fault(rule) {
            found.error(fault.message, fault.help);
        }
        self.value(&mut found, known);
        if rule.action != Action::Unset {
            self.place(&mut found, known);
            self.affinity(&mut found, known);
            self.clashes(&mut found);
        }
        found.findings
    }

    /// Faults of a value that only this variable has.
    fn value(&self, found: &mut Found<'_>, known: &Known) {
        let rule = found.rule;
        let plain = rule.action == Action::Default || rule.action == Action::Force;
        let value = rule.value.constant().filter(|_| plain);
        if plain && known.is(Trait::List) {
            let help = Some("use `action = \"append\"`, or `\"prepend\"`".to_owned());
            found.error(format!("`{}` is a list that others add to: a value would replace theirs", known.name), help);
        }
        let Some(value) = value else { return };
        if known.takes == Takes::Text && value.trim() != value {
            found.warning(format!("blanks around the value of `{}` become part of it", known.name), None);
        }
        match known.name {
            "GLOO_SOCKET_IFNAME" if value.starts_with(['=', '^']) => {
                found.error(
                    "gloo takes one plain interface name",
                    Some("leave `=` and `^` to NCCL_SOCKET_IFNAME".to_owned()),
                );
            }
            "NCCL_IB_HCA" if !value.starts_with(['=', '^']) => {
                found.warning(
                    "names are prefixes: `mlx5_1` is `mlx5_10` too",
                    Some(format!("write `={}`", shown(&value))),
                );
            }
            "NCCL_IB_GID_INDEX" if value != "-1" => {
                let help = "write `{rocev2_gid_index}`, or leave it to NCCL 2.21 and later".to_owned();
                found.warning("the index differs between nodes and changes with their addresses", Some(help));
            }
            name if name.starts_with("PET_") && value.is_empty() => {
                found.error(format!("torchrun does not start with an empty `{name}`"), None);
            }
            _ => {}
        }
    }

    /// Whether the variable belongs into this file.
    fn place(&self, found: &mut Found<'_>, known: &Known) {
        let name = known.name;
        if known.is(Trait::Dangerous) && !self.profile.allow_debug {
            let help = Some(format!("{}; `allow_debug = true` if you mean it", known.about));
            found.error(format!("`{name}` is refused"), help);
        } else if known.class == Class::Debug && !self.profile.allow_debug {
            let help = Some("`allow_debug = true` if you mean it".to_owned());
            found.warning(format!("`{name}` is for finding faults: {}", known.about), help);
        }
        if !known.until.is_empty() {
            found.warning(format!("`{name}` is read up to {} only: {}", known.until, known.about), None);
        }
        if self.for_gpus && known.is(Trait::Network) {
            let help = Some("put it into a layer, and name that with `fabric=`".to_owned());
            found.warning(format!("`{name}` depends on the network, not on the GPU"), help);
        }
        if self.for_gpus && known.class == Class::Workload {
            let help = Some("put it into a layer that jobs name".to_owned());
            found.warning(format!("`{name}` depends on what the job computes: {}", known.about), help);
        }
        let differs = found.rule.differs_by_node().filter(|_| known.is(Trait::Uniform) && !found.rule.uniform);
        if let Some(cause) = differs {
            let help = Some("add `uniform = true`".to_owned());
            found.warning(format!("`{name}` must be equal on all nodes of a job, and {cause}"), help);
        }
    }

    /// Whether it goes together with the binding.
    fn affinity(&self, found: &mut Found<'_>, known: &Known) {
        let bound = self.cpu != CpuPolicy::Off;
        if bound && known.is(Trait::Pins) {
            let help = Some("leave it out, or turn gpu-tune's binding off with `[bind] cpu = \"off\"`".to_owned());
            found.warning(format!("`{}` works against the binding: {}", known.name, known.about), help);
        }
        let on = found.rule.value.constant().is_some_and(|value| value == "1");
        if known.name == "NCCL_IGNORE_CPU_AFFINITY" && on && self.cpu == CpuPolicy::Exclusive {
            found.warning(format!("`{}` with exclusive cores: {}", known.name, known.about), None);
        }
    }

    fn clashes(&self, found: &mut Found<'_>) {
        let name = &*found.rule.name;
        for (one, other, why) in CLASHES {
            let with = if name == *one { other } else { one };
            let there = self.values.get(with).filter(|rule| rule.action != Action::Unset);
            // Two in one file are told once, at the first.
            let told = name == *other && there.is_some_and(|rule| rule.origin.file == found.rule.origin.file);
            if (name == *one || name == *other) && there.is_some() && !told {
                found.warning(format!("`{name}` together with `{with}`: {why}"), None);
            }
        }
        let number = |name: &str| self.values.get(name)?.value.constant()?.parse::<u64>().ok();
        let buffer = number("NCCL_BUFFSIZE").unwrap_or(4 << 20);
        if name == "NCCL_P2P_NET_CHUNKSIZE" && number(name).is_some_and(|chunk| chunk > buffer / 8) {
            let message = format!("only {} bytes of it count: an eighth of NCCL_BUFFSIZE, {buffer}", buffer / 8);
            found.warning(message, None);
        }
    }
}

/// A name that is not known, but looks like one that is.
fn name_like(found: &mut Found<'_>) {
    let name: Arc<str> = found.rule.name.clone();
    let upper = KNOWN.iter().find(|known| known.name.eq_ignore_ascii_case(&name));
    if let Some(known) = upper {
        let help = Some(format!("write `{}`", known.name));
        found.error(format!("nothing reads `{name}`: names are case-sensitive"), help);
        return;
    }
    let near = nearest(&name, KNOWN.iter().map(|known| known.name))
        .filter(|near| strsim::damerau_levenshtein(near, &name) <= 2);
    if let Some(near) = near {
        found.warning(format!("unknown name `{name}`"), Some(format!("did you mean `{near}`?")));
    }
}

/// Findings at one rule.
struct Found<'a> {
    rule: &'a Rule,
    findings: Vec<Finding>,
}

impl Found<'_> {
    fn push(&mut self, kind: Kind, message: String, help: Option<String>) {
        let origin = &self.rule.origin;
        let (file, line, column) = (origin.file.clone(), origin.line, origin.column);
        let width = self.rule.name.len();
        self.findings.push(Finding { kind, file, line, column, width, message, help });
    }

    fn error(&mut self, message: impl Into<String>, help: Option<String>) {
        self.push(Kind::Error, message.into(), help);
    }

    fn warning(&mut self, message: impl Into<String>, help: Option<String>) {
        self.push(Kind::Warning, message.into(), help);
    }
}
