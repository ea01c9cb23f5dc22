//! The network: adapters, their addresses, and what /etc/nccl.conf says about them.

use super::Node;
use super::gpus::ANOTHER;
use super::line::Line;
use crate::{nccl, words};
use gpu_tune_engine::env::{NCCL_CONF, NcclConf};
use gpu_tune_engine::fabric::{Fabric, HcaFilter};
use gpu_tune_engine::machine::{LinkLayer, Nic};
use gpu_tune_engine::profile::Catalog;
use std::collections::BTreeSet;
use std::path::Path;

const ADAPTERS: &str = "adapters";

/// Everything about the network.
pub(super) fn check(node: &Node) -> Vec<Line> {
    let adapters = node.machine().map(|machine| adapters(&machine.nics));
    let mut lines = vec![adapters.unwrap_or_else(|| Line::skip(ADAPTERS, "unknown without the machine"))];
    lines.push(addresses(node));
    lines.extend(nccl_conf(node));
    lines
}

fn adapters(nics: &[Nic]) -> Line {
    let subject = ADAPTERS;
    // Not every file tells of ports.
    let known: Vec<&Nic> = nics.iter().filter(|nic| !nic.ports.is_empty()).collect();
    let down: Vec<&str> = known.iter().filter(|nic| !nic.active()).map(|nic| nic.name.as_str()).collect();
    match (known.len(), down.as_slice()) {
        (0, _) if nics.is_empty() => Line::skip(subject, "no RDMA adapter is on this node"),
        (0, _) => Line::skip(subject, format!("of {} no port is known", words::count(nics.len(), "adapter"))),
        (all, []) => Line::ok(subject, format!("{} with an active port", words::count(all, "adapter"))),
        (all, down) if down.len() == all => Line::fail(subject, format!("no port is active: {}", down.join(", ")))
            .fix("`ibstat`, cables, subnet manager"),
        (_, down) => Line::warn(subject, format!("without an active port: {}", down.join(", ")))
            .fix("`ibstat`; leave them out with NCCL_IB_HCA if they are meant to be down"),
    }
}

/// One variable serves all adapters, so the RoCE v2 address must have one index everywhere.
fn addresses(node: &Node) -> Line {
    let subject = "RoCE v2 address";
    if node.is_another() {
        return Line::skip(subject, ANOTHER);
    }
    let fabric = Fabric::read(node.host.root());
    let all = HcaFilter::default();
    if !fabric.link_layers(&all).contains(&LinkLayer::Ethernet) {
        return Line::skip(subject, "no active Ethernet port");
    }
    match fabric.rocev2_gid_index(&all, None) {
        Ok(index) => Line::ok(subject, format!("at index {index} of all adapters")),
        Err(reason) => Line::warn(subject, reason.to_string())
            .fix("NCCL 2.21 and later finds it itself; for older ones name the adapters with NCCL_IB_HCA"),
    }
}

/// Values there beat the built-in profiles' and lose to the admin's; those in the user's own file lose to both.
fn nccl_conf(node: &Node) -> Vec<Line> {
    let subject = "nccl.conf";
    let catalog = Catalog::builtin();
    let rules = catalog.names().filter_map(|name| catalog.profile(name).ok()).flat_map(|profile| &profile.env);
    let names: BTreeSet<&str> = rules.map(|rule| &*rule.name).collect();
    let mut lines = Vec::new();
    if let Some(text) = node.host.read(NCCL_CONF) {
        for (name, value, line) in clashes(&names, &NcclConf::parse(text.as_bytes())) {
            let text = format!("{NCCL_CONF}:{line} sets {name}={value}, which beats the built-in profiles' value");
            let fix = format!("remove the line, or set {name} in a profile of your own, which beats the file");
            lines.push(Line::warn(subject, text).fix(fix));
        }
    }
    let own = |name: &str| std::env::var(name).ok().filter(|_| node.host.root() == Path::new("/"));
    if let Some((path, conf)) = nccl::of_user(own) {
        for (name, value, line) in clashes(&names, &conf) {
            let text = format!("{}:{line} sets {name}={value}, which a profile's variable beats", path.display());
            lines.push(Line::warn(subject, text).fix(format!("export {name}={value}: what a user exports wins")));
        }
    }
    match lines.is_empty() {
        true => vec![Line::ok(subject, "nothing in NCCL's files clashes with the built-in profiles")],
        false => lines,
    }
}

fn clashes<'a>(names: &BTreeSet<&'a str>, conf: &NcclConf) -> Vec<(&'a str, String, usize)> {
    let found = names.iter().filter_map(|name| conf.get(name).map(|(value, line)| (*name, value.to_owned(), line)));
    found.collect()
}
