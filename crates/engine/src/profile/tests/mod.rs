//! Files, catalog and resolving, through their public faces.

mod access;
mod check;
mod file;
mod shipped;
mod stack;

use super::*;
use crate::machine::LinkLayer;
use crate::plan::Reserve;
use crate::spec::{CpuPolicy, MemPolicy, Rendezvous, SiteConfig, Smt, Spec};
use crate::testing::TempDir;

fn source(name: &str) -> Source {
    Source { file: format!("{name}.toml").into(), builtin: false }
}

fn parse(text: &str) -> Profile {
    let (profile, findings) = Profile::parse("p", &source("p"), text);
    profile.unwrap_or_else(|| panic!("{findings:?}"))
}

/// All findings of a file, one text each: position, message, help.
fn findings(text: &str) -> Vec<String> {
    let (_, findings) = Profile::parse("p", &source("p"), text);
    let told = |finding: &Finding| match &finding.help {
        Some(help) => format!("{finding} | {help}"),
        None => finding.to_string(),
    };
    findings.iter().map(told).collect()
}

/// The built-in profiles and some files.
fn catalog(files: &[(&str, &str)]) -> Catalog {
    let mut catalog = Catalog::builtin();
    for (name, text) in files {
        catalog.add_text(name, source(name), (*text).to_owned());
    }
    catalog
}

fn spec(text: &str) -> Spec {
    text.parse().unwrap()
}

fn site(words: &[&str]) -> SiteConfig {
    SiteConfig::parse(words).unwrap()
}

fn h200(nodes: u32) -> Facts {
    Facts { gpus: vec!["NVIDIA H200".into(); 8], nodes: Some(nodes), arch: "x86_64".into(), ..Facts::default() }
}

fn resolve(catalog: &Catalog, option: &str, facts: &Facts) -> Resolved {
    catalog.resolve(&spec(option), &site(&[]), facts).unwrap().unwrap()
}

/// `NAME=VALUE` of every rule that applies.
fn values(resolved: &Resolved) -> Vec<String> {
    resolved.env.iter().map(|rule| format!("{}={}", rule.name, rule.value)).collect()
}

fn messages(resolved: &Resolved) -> Vec<&str> {
    resolved.notices.iter().map(|notice| notice.message.as_str()).collect()
}
