//! Profile and variables of one step, in one call: what the plugin does in `user_init`, and `gpu-tune` on the command line.
#![forbid(unsafe_code)]

use crate::env::{self, Decision, NcclConf, StepValues};
use crate::fabric::{Fabric, HcaFilter};
use crate::profile::{Catalog, Facts, ProfileError, Resolved};
use crate::spec::{SiteConfig, Spec};
use std::ffi::OsString;

/// What a step comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tuned {
    /// The profile's wishes.
    pub resolved: Resolved,
    /// What becomes of each variable; empty with `env=off`.
    pub decisions: Vec<Decision>,
}

/// What the profile's values are held against.
pub struct Host<'a> {
    /// The value that the user exported, as seen before any container; what an outer step of ours set does not count as his.
    pub user: &'a dyn Fn(&str) -> Option<OsString>,
    /// The host's `/etc/nccl.conf`.
    pub nccl_conf: &'a NcclConf,
    /// Reads the node's RDMA network; called only if a value asks for it.
    pub fabric: &'a dyn Fn() -> Fabric,
}

impl std::fmt::Debug for Host<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").field("nccl_conf", self.nccl_conf).finish_non_exhaustive()
    }
}

/// Resolves an option for a step and decides every variable. `facts.link_layers` is found here, from the adapters that NCCL
/// will use. `None`: leave the step alone.
pub fn tune(
    catalog: &Catalog,
    spec: &Spec,
    site: &SiteConfig,
    mut facts: Facts,
    host: &Host<'_>,
) -> Result<Option<Tuned>, ProfileError> {
    let Some(mut resolved) = catalog.resolve(spec, site, &facts)? else { return Ok(None) };
    let mut values = StepValues { nodes: facts.nodes, container: facts.container, ..StepValues::default() };
    if resolved.asks_network {
        let fabric = (host.fabric)();
        facts.link_layers = fabric.link_layers(&filter(&resolved, host, &values));
        if let Some(again) = catalog.resolve(spec, site, &facts)? {
            resolved = again;
        }
        if env::needs_gid_index(&resolved) {
            let index = fabric.rocev2_gid_index(&filter(&resolved, host, &values), resolved.address_range.as_ref());
            values.rocev2_gid_index = Some(index.map_err(|error| error.to_string()));
        }
    }
    let decisions = env::decide(&resolved, host.user, host.nccl_conf, &values);
    Ok(Some(Tuned { resolved, decisions }))
}

/// The adapters that NCCL will use, by the value that `NCCL_IB_HCA` is going to have.
fn filter(resolved: &Resolved, host: &Host<'_>, values: &StepValues) -> HcaFilter {
    let value = env::value_of(resolved, "NCCL_IB_HCA", host.user, host.nccl_conf, values);
    value.map(|value| HcaFilter::parse(&value.to_string_lossy())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Outcome;
    use crate::testing::TempDir;

    /// Four ports: two RoCE with the address at 3 and one at 5, one InfiniBand.
    fn network(name: &str) -> TempDir {
        let dir = TempDir::new(name);
        let port = |device: &str, link_layer: &str, index: Option<u32>| {
            let port = format!("sys/class/infiniband/{device}/ports/1");
            dir.write(&format!("{port}/state"), "4: ACTIVE\n");
            dir.write(&format!("{port}/link_layer"), link_layer);
            for slot in 0..=index.unwrap_or(0) {
                let here = Some(slot) == index;
                let gid = if here { "0000:0000:0000:0000:0000:ffff:0b00:0048" } else { "fe80::1" };
                dir.write(&format!("{port}/gids/{slot}"), gid);
                dir.write(&format!("{port}/gid_attrs/types/{slot}"), "RoCE v2\n");
            }
        };
        port("mlx5_0", "Ethernet", Some(3));
        port("mlx5_1", "Ethernet", Some(3));
        port("mlx5_2", "Ethernet", Some(5));
        port("mlx5_3", "InfiniBand", None);
        dir
    }

    /// `NAME=VALUE`, or `NAME: reason`, for everything that `h200+roce` decides or skips about RDMA.
    fn run(dir: &TempDir, hca: Option<&str>) -> Vec<String> {
        let facts = Facts { gpus: vec!["NVIDIA H200".into()], nodes: Some(2), ..Facts::default() };
        let user = |name: &str| hca.filter(|_| name == "NCCL_IB_HCA").map(OsString::from);
        let fabric = || Fabric::read(dir.path());
        let host = Host { user: &user, nccl_conf: &NcclConf::default(), fabric: &fabric };
        let spec = "h200+roce".parse().unwrap();
        let tuned = tune(&Catalog::builtin(), &spec, &SiteConfig::default(), facts, &host).unwrap().unwrap();
        let decided = tuned.decisions.iter().map(|decision| match &decision.outcome {
            Outcome::Set(value) => format!("{}={value}", decision.name),
            _ => format!("{}: {}", decision.name, decision.reason),
        });
        let skipped = tuned.resolved.skipped.iter().map(|skipped| format!("{}: {}", skipped.name, skipped.reason));
        decided.chain(skipped).filter(|line| line.starts_with("NCCL_IB_")).collect()
    }

    #[test]
    fn roce_values_are_set_where_all_selected_ports_are_roce_and_agree() {
        let dir = network("tune-roce");
        let all = ["NCCL_IB_GID_INDEX=3", "NCCL_IB_SL=3", "NCCL_IB_TC=106"];
        assert_eq!(run(&dir, Some("=mlx5_0,mlx5_1")), all);
        let differ = "NCCL_IB_GID_INDEX: the RoCE v2 address has index 3 on `mlx5_0` and 5 on `mlx5_2`";
        assert_eq!(run(&dir, Some("=mlx5_0,mlx5_2")), [differ, all[1], all[2]]);
    }

    #[test]
    fn roce_values_stay_away_from_infiniband_and_from_mixed_adapters() {
        let dir = network("tune-ib");
        for (hca, here) in [(Some("=mlx5_3"), "`infiniband`"), (None, "`infiniband` and `ethernet`")] {
            let lines = run(&dir, hca);
            assert_eq!(lines.len(), 3);
            for line in lines {
                assert!(line.ends_with(&format!(": only for RDMA over `ethernet`, and here it is {here}")), "{line}");
            }
        }
        let none = TempDir::new("tune-none");
        assert!(run(&none, None)[0].ends_with("and no port is active"));
    }

    #[test]
    fn a_profile_that_does_not_ask_for_the_network_does_not_read_it() {
        let fabric = || panic!("read for nothing");
        let host = Host { user: &|_| None, nccl_conf: &NcclConf::default(), fabric: &fabric };
        let spec = "h200".parse().unwrap();
        let tuned = tune(&Catalog::builtin(), &spec, &SiteConfig::default(), Facts::default(), &host);
        assert!(!tuned.unwrap().unwrap().decisions.is_empty());
    }
}
