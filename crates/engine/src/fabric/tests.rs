//! Trees of /sys, as real adapters show them.

use super::*;
use crate::testing::TempDir;

const V1: &str = "IB/RoCE v1";
const V2: &str = "RoCE v2";
const LOCAL: &str = "fe80:0000:0000:0000:a288:c2ff:fe5b:03ec";
const ZERO: &str = "0000:0000:0000:0000:0000:0000:0000:0000";
/// 11.0.0.72.
const IPV4: &str = "0000:0000:0000:0000:0000:ffff:0b00:0048";
/// 10.1.0.1.
const TEN: &str = "0000:0000:0000:0000:0000:ffff:0a01:0001";
/// 169.254.1.1.
const AUTO: &str = "0000:0000:0000:0000:0000:ffff:a9fe:0101";
const IPV6: &str = "2001:0db8:0000:0000:0000:0000:0000:0001";

/// The table that most hosts with one address have.
const USUAL: &[(&str, &str)] = &[(LOCAL, V1), (LOCAL, V2), (IPV4, V1), (IPV4, V2)];

/// Writes one port. An empty type stands for a slot whose type cannot be read (EINVAL on the real thing, no file here).
fn port(dir: &TempDir, device: &str, number: u32, state: &str, link_layer: &str, table: &[(&str, &str)]) {
    let port = format!("sys/class/infiniband/{device}/ports/{number}");
    dir.write(&format!("{port}/state"), &format!("{state}\n"));
    dir.write(&format!("{port}/link_layer"), &format!("{link_layer}\n\n"));
    for (index, (gid, kind)) in table.iter().enumerate() {
        dir.write(&format!("{port}/gids/{index}"), &format!("{gid}\n"));
        if !kind.is_empty() {
            dir.write(&format!("{port}/gid_attrs/types/{index}"), &format!("{kind}\n"));
        }
    }
}

fn roce(dir: &TempDir, device: &str, table: &[(&str, &str)]) {
    port(dir, device, 1, "4: ACTIVE", "Ethernet", table);
}

fn index(dir: &TempDir, hca: &str, range: Option<&str>) -> Result<u32, String> {
    let range = range.map(|range| range.parse().unwrap());
    let index = Fabric::read(dir.path()).rocev2_gid_index(&HcaFilter::parse(hca), range.as_ref());
    index.map_err(|error| error.to_string())
}

#[test]
fn the_usual_table_has_the_address_at_3_and_others_have_it_where_it_is() {
    let dir = TempDir::new("gid-usual");
    roce(&dir, "mlx5_0", USUAL);
    roce(&dir, "mlx5_bond_0", USUAL);
    assert_eq!(index(&dir, "", None), Ok(3));
    let dir = TempDir::new("gid-macvlan");
    roce(
        &dir,
        "mlx5_0",
        &[(ZERO, ""), (ZERO, ""), (ZERO, ""), (ZERO, ""), (LOCAL, V1), (LOCAL, V2), (TEN, V1), (TEN, V2)],
    );
    assert_eq!(index(&dir, "", None), Ok(7), "slots that cannot be read are passed over");
}

#[test]
fn adapters_that_disagree_leave_it_unset_with_both_places() {
    let dir = TempDir::new("gid-differ");
    roce(&dir, "mlx5_0", USUAL);
    roce(&dir, "mlx5_1", &[(LOCAL, V1), (LOCAL, V2), (ZERO, V1), (ZERO, V2), (IPV4, V1), (IPV4, V2)]);
    assert_eq!(index(&dir, "", None).unwrap_err(), "the RoCE v2 address has index 3 on `mlx5_0` and 5 on `mlx5_1`");
    assert_eq!(index(&dir, "=mlx5_1", None), Ok(5), "only the selected adapters count");
    assert_eq!(index(&dir, "^=mlx5_1", None), Ok(3));
}

#[test]
fn an_index_that_fits_all_is_found_though_the_first_ones_differ() {
    let dir = TempDir::new("gid-common");
    roce(&dir, "mlx5_0", &[(IPV4, V2), (TEN, V2)]);
    roce(&dir, "mlx5_1", &[(IPV4, V1), (TEN, V2)]);
    assert_eq!(index(&dir, "", None), Ok(1));
}

#[test]
fn a_port_that_is_down_and_one_of_infiniband_do_not_count() {
    let dir = TempDir::new("gid-down");
    roce(&dir, "mlx5_0", USUAL);
    port(&dir, "mlx5_1", 1, "1: DOWN", "Ethernet", &[(LOCAL, V1)]);
    port(&dir, "mlx5_2", 1, "4: ACTIVE", "InfiniBand", &[(LOCAL, V1)]);
    assert_eq!(index(&dir, "", None), Ok(3));
    assert_eq!(index(&dir, "=mlx5_1", None).unwrap_err(), "no active RoCE port is selected");
}

#[test]
fn link_local_and_foreign_addresses_do_not_count() {
    let dir = TempDir::new("gid-range");
    roce(&dir, "bnxt_re0", &[(LOCAL, V2), (AUTO, V2), (IPV6, V2), (IPV4, V2), (TEN, V2)]);
    assert_eq!(index(&dir, "", None), Ok(3));
    assert_eq!(index(&dir, "", Some("10.1.0.0/16")), Ok(4));
    assert_eq!(index(&dir, "", Some("2001:db8::/32")), Ok(2));
    assert_eq!(
        index(&dir, "", Some("192.0.2.0/24")).unwrap_err(),
        "`bnxt_re0` port 1 has no RoCE v2 address in 192.0.2.0/24"
    );
    let dir = TempDir::new("gid-v6");
    roce(&dir, "bnxt_re0", &[(LOCAL, V1), (LOCAL, V2), (IPV6, V1), (IPV6, V2)]);
    assert_eq!(index(&dir, "", None).unwrap_err(), "`bnxt_re0` port 1 has no RoCE v2 address");
}

#[test]
fn a_machine_without_rdma_has_neither_index_nor_link_layer() {
    let dir = TempDir::new("gid-none");
    assert_eq!(index(&dir, "", None).unwrap_err(), "no active RoCE port is selected");
    assert!(Fabric::read(dir.path()).link_layers(&HcaFilter::default()).is_empty());
}

#[test]
fn link_layers_are_those_of_the_selected_active_ports() {
    let dir = TempDir::new("gid-layers");
    roce(&dir, "mlx5_0", &[]);
    port(&dir, "mlx5_1", 1, "4: ACTIVE", "InfiniBand", &[]);
    port(&dir, "mlx5_2", 1, "1: DOWN", "InfiniBand", &[]);
    port(&dir, "rdmap0", 1, "4: ACTIVE", "Unspecified", &[]);
    let fabric = Fabric::read(dir.path());
    let layers = |hca: &str| fabric.link_layers(&HcaFilter::parse(hca)).into_iter().collect::<Vec<_>>();
    assert_eq!(layers("mlx5"), [LinkLayer::Infiniband, LinkLayer::Ethernet]);
    assert_eq!(layers("=mlx5_0"), [LinkLayer::Ethernet]);
    assert_eq!(layers("=mlx5_2"), []);
    assert_eq!(layers("rdmap"), [LinkLayer::Other]);
}

#[test]
fn a_replayed_machine_has_link_layers_but_no_tables() {
    let nic = Nic {
        name: "mlx5_0".into(),
        pci: None,
        locality: None,
        ports: vec![crate::machine::Port { number: 1, active: true, link_layer: LinkLayer::Ethernet, rate: None }],
        bridges: Vec::new(),
        root: None,
    };
    let fabric = Fabric::of_machine(&[nic]);
    assert_eq!(fabric.link_layers(&HcaFilter::default()), [LinkLayer::Ethernet].into());
    assert_eq!(fabric.rocev2_gid_index(&HcaFilter::default(), None), Err(NoIndex::NotRead));
}
