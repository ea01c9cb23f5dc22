//! Looks up where the RoCE v2 address stands in the ports' tables.
//!
//! An entry counts if its type is RoCE v2 and its address an IPv4 one (`::ffff:a.b.c.d`) that is neither zero nor link-local,
//! and in the admin's range if there is one; a range of IPv6 addresses asks for IPv6. That is what NCCL 2.21 and later look
//! for themselves.

use super::{AddressRange, Port, text};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};
use std::path::{Path, PathBuf};

/// Entries that are looked at; mlx5's tables have 256.
const ENTRIES_MAX: u32 = 512;

/// Why there is no index that fits all ports.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoIndex {
    /// The tables are not those of this host.
    #[error("the tables of addresses are not known for this machine")]
    NotRead,
    /// No selected port carries RoCE.
    #[error("no active RoCE port is selected")]
    NoPort,
    /// A port has no such address.
    #[error("`{device}` port {port} has no RoCE v2 address{}", within(range))]
    Missing {
        /// The device.
        device: String,
        /// Its port.
        port: u32,
        /// The range that was asked for.
        range: Option<AddressRange>,
    },
    /// The ports have it in different places.
    #[error("the RoCE v2 address has index {first} on `{device}` and {second} on `{other}`")]
    Differ {
        /// One device.
        device: String,
        /// Its index.
        first: u32,
        /// Another.
        other: String,
        /// Its index.
        second: u32,
    },
}

fn within(range: &Option<AddressRange>) -> String {
    range.map(|range| format!(" in {range}")).unwrap_or_default()
}

/// The lowest index that has a fitting address on every port. Usually all ports have it in the same place, and only the
/// tables' first entries are read.
pub(super) fn common_index(root: &Path, ports: &[&Port], range: Option<&AddressRange>) -> Result<u32, NoIndex> {
    let firsts: Vec<u32> = ports.iter().map(|port| first(root, port, range)).collect::<Result<_, _>>()?;
    let one = *firsts.first().ok_or(NoIndex::NoPort)?;
    let Some(odd) = firsts.iter().position(|index| *index != one) else { return Ok(one) };
    let all = |port: &&Port| fitting(root, port, range).collect::<BTreeSet<u32>>();
    let common = ports.iter().map(all).reduce(|a, b| &a & &b).unwrap_or_default();
    let name = |at: usize| ports.get(at).map(|port| port.device.clone()).unwrap_or_default();
    common.first().copied().ok_or_else(|| NoIndex::Differ {
        device: name(0),
        first: one,
        other: name(odd),
        second: firsts.get(odd).copied().unwrap_or_default(),
    })
}

fn first(root: &Path, port: &Port, range: Option<&AddressRange>) -> Result<u32, NoIndex> {
    fitting(root, port, range).next().ok_or_else(|| NoIndex::Missing {
        device: port.device.clone(),
        port: port.number,
        range: range.copied(),
    })
}

/// The indices with a fitting address, ascending. The table ends where its files end.
fn fitting<'a>(root: &Path, port: &Port, range: Option<&'a AddressRange>) -> impl Iterator<Item = u32> + 'a {
    let dir: PathBuf = root.join("sys/class/infiniband").join(&port.device).join("ports").join(port.number.to_string());
    let gids = dir.join("gids");
    let types = dir.join("gid_attrs/types");
    (0..ENTRIES_MAX)
        .map(move |index| (index, gids.join(index.to_string())))
        .take_while(|(_, file)| file.exists())
        .filter(move |(_, file)| text(file).is_some_and(|gid| wanted(&gid, range)))
        .map(|(index, _)| index)
        .filter(move |index| text(&types.join(index.to_string())).as_deref() == Some("RoCE v2"))
}

fn wanted(gid: &str, range: Option<&AddressRange>) -> bool {
    let Ok(gid) = gid.parse::<Ipv6Addr>() else { return false };
    let address = gid.to_ipv4_mapped().map_or(IpAddr::V6(gid), IpAddr::V4);
    match (address, range) {
        (IpAddr::V4(v4), _) if v4.is_link_local() || v4.is_unspecified() => false,
        (IpAddr::V6(v6), _) if v6.is_unicast_link_local() || v6.is_unspecified() => false,
        (_, Some(range)) => range.contains(address),
        (IpAddr::V4(_), None) => true,
        (IpAddr::V6(_), None) => false,
    }
}
