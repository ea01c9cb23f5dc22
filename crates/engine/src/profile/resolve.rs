//! Puts profiles and layers on top of each other and keeps what applies to a step.

use super::known::{self, Trait};
use super::rule::Slot;
use super::{Action, Catalog, Facts, Finding, Kind, Memlock, Origin, Profile, ProfileError, Rule, auto, lock};
use crate::fabric::AddressRange;
use crate::plan::Binding;
use crate::spec::{Choice, CpuPolicy, Keys, Lock, Rendezvous, SiteConfig, Spec};
use crate::text::{chain, shown};
use crate::{Code, Notice, PciAddress};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What the profile and its layers come to for one step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resolved {
    /// The profile with the user's layers, such as `h200+megatron-tp`; `auto` is replaced by what it picked.
    pub name: String,
    /// Every file that took part, the most general first.
    pub layers: Vec<Arc<str>>,
    /// How ranks are bound: the profile's wish, or the user's where he may say so.
    pub binding: Binding,
    /// GPU → NUMA node, for machines whose firmware does not know.
    pub gpu_numa: BTreeMap<PciAddress, u32>,
    /// How much memory a task may lock; `None`: as the user has it.
    pub memlock: Option<Memlock>,
    /// Whether the ranks of a launcher are bound.
    pub workers: bool,
    /// When rendezvous variables are set.
    pub rendezvous: Rendezvous,
    /// What is to be done to variables: at most one rule per variable and slot, sorted by name. Rules whose condition
    /// does not hold are gone.
    pub env: Vec<Rule>,
    /// Rules that do not apply, and why.
    pub skipped: Vec<Skipped>,
    /// Some rule asks for the node's RDMA network: see [`crate::tune()`].
    pub asks_network: bool,
    /// Where each value outside `env` is written, such as `bind.cpu`; what the option said, or nobody, is not in it.
    pub places: BTreeMap<String, Origin>,
    /// Which addresses count when the RoCE v2 GID index is looked up.
    pub address_range: Option<AddressRange>,
    /// Print the table.
    pub verbose: bool,
    /// Print the table and change nothing.
    pub dry_run: bool,
    /// What a person should hear.
    pub notices: Vec<Notice>,
}

/// A rule that does not apply to this step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// The variable.
    pub name: Arc<str>,
    /// Where the rule is written.
    pub origin: Origin,
    /// Why it does not apply.
    pub reason: String,
}

impl Catalog {
    /// What an option comes to on this node. `spec` is the user's, or `default=` when he gave none; `allow=` and `lock=` are
    /// enforced here. `None`: leave the step alone.
    pub fn resolve(&self, spec: &Spec, site: &SiteConfig, facts: &Facts) -> Result<Option<Resolved>, ProfileError> {
        let (asked, notices) = lock::effective(spec, site);
        let outcome = lock::allowed(&asked, site).and_then(|()| self.stack(&asked, site, facts));
        let mut resolved = match (outcome, &site.default) {
            // A locked `off` must not be had by naming what does not exist.
            (Err(error), Some(default)) if site.locked(Lock::Off) && asked != *default => {
                let mut resolved = self.stack(default, site, facts)?;
                let told = format!("{}: the cluster's default is used", chain(&error));
                resolved.iter_mut().for_each(|resolved| resolved.notices.push(Notice::new(Code::Profile, &*told)));
                resolved
            }
            (outcome, _) => outcome?,
        };
        if let Some(resolved) = &mut resolved {
            resolved.notices.splice(0..0, notices);
        }
        Ok(resolved)
    }

    fn stack(&self, spec: &Spec, site: &SiteConfig, facts: &Facts) -> Result<Option<Resolved>, ProfileError> {
        let (name, notices) = match &spec.profile {
            Choice::Off | Choice::List => return Ok(None),
            Choice::Named(name) => (name.clone(), Vec::new()),
            Choice::Auto => auto::pick(self, facts, site.strict)?,
        };
        let mut stack = Stack::new(self, facts, site.strict);
        stack.out.notices.extend(notices);
        stack.auto = spec.profile == Choice::Auto;
        let line = self.lineage(&name)?;
        if line.last().is_some_and(|profile| profile.layer) {
            let message = format!("`{name}` is a layer: alone it sets only its own values");
            stack.out.notices.push(Notice::new(Code::Profile, message).help(format!("write `auto+{name}`")));
        }
        if !stack.auto {
            stack.out.notices.extend(self.mismatch(&line, facts));
        }
        stack.put(&line)?;
        stack.auto = false;
        if let Some(fabric) = &site.fabric {
            match self.lineage(fabric).map_err(|error| error.of_word("fabric")) {
                Ok(line) => stack.put_layer(&line)?,
                Err(error) if site.strict => return Err(error),
                Err(error) => {
                    stack.out.notices.push(Notice::new(Code::Profile, chain(&error)).help_if(error.help()));
                }
            }
        }
        for layer in &spec.layers {
            stack.put_layer(&self.lineage(layer)?)?;
        }
        stack.out.name = std::iter::once(&name).chain(&spec.layers).cloned().collect::<Vec<_>>().join("+");
        Ok(Some(stack.finish(&spec.keys)))
    }

    /// A profile for other GPUs than the step has.
    fn mismatch(&self, line: &[&Profile], facts: &Facts) -> Option<Notice> {
        let name = &line.last()?.name;
        let globs = &line.iter().rev().find(|profile| !profile.gpu.is_empty())?.gpu;
        let odd =
            facts.gpus.iter().find(|model| !model.is_empty() && !globs.iter().any(|glob| glob.fits_model(model)))?;
        let wanted = globs.iter().map(|glob| format!("`{glob}`")).collect::<Vec<_>>().join(" or ");
        let message = format!("profile `{name}` is for GPUs {wanted}, and this is `{}`", shown(odd));
        let help = auto::for_model(self, odd).map(|other| format!("`{other}` is for such GPUs; `auto` picks by model"));
        Some(Notice::new(Code::ProfileGpuMismatch, message).help_if(help))
    }
}

/// Files being put on top of each other.
struct Stack<'a> {
    catalog: &'a Catalog,
    facts: &'a Facts,
    strict: bool,
    /// What is put now was picked by `auto`.
    auto: bool,
    env: BTreeMap<(Arc<str>, Slot), Rule>,
    out: Resolved,
}

impl<'a> Stack<'a> {
    fn new(catalog: &'a Catalog, facts: &'a Facts, strict: bool) -> Self {
        let out = Resolved { workers: true, ..Resolved::default() };
        Self { catalog, facts, strict, auto: false, env: BTreeMap::new(), out }
    }

    /// Puts a line of profiles on top, the most general first. What is there already does not come a second time: else a
    /// layer that inherits `base` would undo the profile.
    fn put(&mut self, line: &[&Profile]) -> Result<(), ProfileError> {
        for profile in line {
            if self.out.layers.contains(&profile.name) {
                continue;
            }
            self.heed(profile)?;
            self.out.layers.push(profile.name.clone());
            self.put_one(profile);
        }
        Ok(())
    }

    /// The same for a layer. One that is for other GPUs was hardly meant as a layer.
    fn put_layer(&mut self, line: &[&Profile]) -> Result<(), ProfileError> {
        self.out.notices.extend(self.catalog.mismatch(line, self.facts));
        self.put(line)
    }

    /// Tells what is odd in a file; with `strict` a key that is not known makes it unusable.
    fn heed(&mut self, profile: &Profile) -> Result<(), ProfileError> {
        let findings = self.catalog.get(&profile.name).map_or(&[][..], |entry| entry.findings(&profile.name));
        for finding in findings {
            if self.strict && finding.kind == Kind::Unknown {
                let name = profile.name.to_string();
                return Err(ProfileError::Invalid { name, finding: Box::new(finding.clone()) });
            }
            self.out.notices.push(notice(finding));
        }
        Ok(())
    }

    fn put_one(&mut self, profile: &Profile) {
        let out = &mut self.out;
        let bind = &profile.bind;
        out.binding.cpu = bind.cpu.unwrap_or(out.binding.cpu);
        out.binding.mem = bind.mem.unwrap_or(out.binding.mem);
        out.binding.smt = bind.smt.unwrap_or(out.binding.smt);
        out.binding.prefer_priority = bind.prefer_priority.unwrap_or(out.binding.prefer_priority);
        if let Some(reserve) = &bind.reserve {
            out.binding.reserve.clone_from(reserve);
        }
        out.gpu_numa.extend(&profile.gpu_numa);
        out.memlock = profile.memlock.or(out.memlock);
        out.workers = profile.workers.unwrap_or(out.workers);
        out.rendezvous = profile.rendezvous.unwrap_or(out.rendezvous);
        out.address_range = profile.address_range.or(out.address_range);
        out.places.extend(profile.places.clone());
        self.put_env(profile);
    }

    /// Of several rules of one file for the same thing the first that applies counts, and the others are not told.
    fn put_env(&mut self, profile: &Profile) {
        let mut done: Vec<(&str, Slot)> = Vec::new();
        let mut skipped = Vec::new();
        for rule in &profile.env {
            let place = (&*rule.name, rule.slot());
            self.out.asks_network |= rule.asks_network();
            if done.contains(&place) {
                continue;
            }
            match self.applies(profile, rule) {
                Ok(()) => {
                    done.push(place);
                    self.env.insert((rule.name.clone(), rule.slot()), rule.clone());
                }
                Err(reason) => skipped.push((place, rule, reason)),
            }
        }
        skipped.retain(|(place, _, _)| !done.contains(place));
        self.out.skipped.extend(skipped.into_iter().map(|(_, rule, reason)| Skipped {
            name: rule.name.clone(),
            origin: rule.origin.clone(),
            reason,
        }));
    }

    fn applies(&mut self, profile: &Profile, rule: &Rule) -> Result<(), String> {
        if rule.uniform && self.facts.nodes != Some(1) {
            let by_auto = self.auto.then(|| "`auto` picks the profile node by node".to_owned());
            if let Some(cause) = rule.differs_by_node().or(by_auto) {
                return Err(format!("must be equal on all nodes of a job, and {cause}"));
            }
        }
        rule.when.holds(self.facts)?;
        self.usable(profile, rule)
    }

    /// A value that a program would misread does more harm than none; the admin hears it.
    fn usable(&mut self, profile: &Profile, rule: &Rule) -> Result<(), String> {
        let known = known::find(&rule.name);
        let sets = rule.action != Action::Unset;
        let refused = known.filter(|known| sets && known.is(Trait::Dangerous) && !profile.allow_debug);
        let message = match (refused, known::fault(rule)) {
            (Some(known), _) => format!("`{}` is refused without `allow_debug`", known.name),
            (None, Some(fault)) => fault.message,
            (None, None) => return Ok(()),
        };
        self.out.notices.push(Notice::new(Code::Profile, format!("{}: not set: {message}", rule.origin)));
        Err(message)
    }

    /// The option's keys come last.
    fn finish(self, keys: &Keys) -> Resolved {
        let mut out = self.out;
        let said = [
            ("bind.cpu", keys.bind.is_some()),
            ("bind.mem", keys.mem.is_some()),
            ("bind.smt", keys.smt.is_some()),
            ("launch.workers", keys.workers_off),
            ("launch.rendezvous", keys.rendezvous.is_some()),
        ];
        out.places.retain(|key, _| !said.contains(&(key.as_str(), true)));
        out.binding.cpu = keys.bind.unwrap_or(out.binding.cpu);
        out.binding.mem = keys.mem.unwrap_or(out.binding.mem);
        out.binding.smt = keys.smt.unwrap_or(out.binding.smt);
        out.workers &= !keys.workers_off;
        out.rendezvous = keys.rendezvous.unwrap_or(out.rendezvous);
        out.verbose = keys.verbose || keys.dry_run;
        out.dry_run = keys.dry_run;
        out.memlock = out.memlock.filter(|limit| *limit != Memlock::User);
        if keys.env_off {
            out.skipped.clear();
            return out;
        }
        let unbound = out.binding.cpu == CpuPolicy::Off;
        for rule in self.env.into_values() {
            if unbound && rule.only_bound() {
                let (name, origin) = (rule.name, rule.origin);
                out.skipped.push(Skipped { name, origin, reason: "gpu-tune does not bind here".to_owned() });
            } else {
                out.env.push(rule);
            }
        }
        out
    }
}

fn notice(finding: &Finding) -> Notice {
    let message = match finding.kind {
        Kind::Unknown => format!("{finding}: ignored"),
        Kind::Error | Kind::Warning => finding.to_string(),
    };
    Notice::new(Code::Profile, message).help_if(finding.help.clone())
}
