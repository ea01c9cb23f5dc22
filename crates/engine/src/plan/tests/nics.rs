//! Which RDMA devices are near which GPU.

use super::super::nics::{Nearness, by_distance, nearest};
use crate::machine::testing::{hgx, near};
use crate::machine::{LinkLayer, Machine, Nic, Port};

fn nic(machine: &Machine, name: &str, node: u32, root: &str, bridges: &[&str]) -> Nic {
    Nic {
        name: name.into(),
        pci: Some("0000:e0:00.0".parse().unwrap()),
        locality: Some(near(machine, &[node])),
        ports: vec![Port { number: 1, active: true, link_layer: LinkLayer::Infiniband, rate: None }],
        bridges: bridges.iter().map(|bridge| bridge.parse().unwrap()).collect(),
        root: Some(root.into()),
    }
}

/// GPU 0 stands below a switch with ports 02:00 and 02:01, at root port 00:01.0 of `pci0000:00`, on node 0.
fn machine() -> Machine {
    let mut machine = hgx();
    machine.gpus[0].root = Some("pci0000:00".into());
    machine.gpus[0].bridges = ["00:01.0", "01:00.0", "02:00.0"].map(|bridge| bridge.parse().unwrap()).to_vec();
    machine.nics = vec![
        nic(&machine, "far", 1, "pci0000:80", &["80:01.0"]),
        nic(&machine, "node", 0, "pci0000:40", &["40:01.0"]),
        nic(&machine, "root", 0, "pci0000:00", &["00:02.0"]),
        nic(&machine, "same_port", 0, "pci0000:00", &["00:01.0", "01:00.0", "02:00.0"]),
        nic(&machine, "switch", 0, "pci0000:00", &["00:01.0", "01:00.0", "02:01.0"]),
    ];
    machine
}

#[test]
fn what_is_shared_orders_them() {
    let machine = machine();
    let seen: Vec<_> = by_distance(&machine, 0).iter().map(|seen| (seen.nic.name.as_str(), seen.nearness)).collect();
    let expect = [
        ("same_port", Nearness::Switch),
        ("switch", Nearness::Switch),
        ("root", Nearness::Root),
        ("node", Nearness::Numa),
        ("far", Nearness::Other),
    ];
    assert_eq!(seen, expect);
}

#[test]
fn only_the_nearest_are_near() {
    let mut machine = machine();
    let names = |machine: &Machine| nearest(machine, 0).iter().map(|nic| nic.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&machine), ["same_port"]);
    machine.nics.remove(3);
    let mut twin = machine.nics[3].clone();
    twin.name = "twin".into();
    machine.nics.push(twin);
    assert_eq!(names(&machine), ["switch", "twin"]);
    machine.nics.truncate(1);
    assert_eq!(names(&machine), Vec::<String>::new());
}

#[test]
fn a_device_without_an_active_port_is_left_out() {
    let mut machine = machine();
    machine.nics.iter_mut().for_each(|nic| nic.ports[0].active = nic.name == "far");
    let seen = by_distance(&machine, 0);
    assert_eq!(seen.iter().map(|seen| seen.nic.name.as_str()).collect::<Vec<_>>(), ["far"]);
}

#[test]
fn a_software_device_is_near_to_nothing() {
    let mut machine = machine();
    machine.nics.truncate(2);
    machine.nics[1] = Nic { pci: None, locality: None, root: None, bridges: vec![], ..machine.nics[1].clone() };
    assert!(by_distance(&machine, 0).iter().all(|seen| seen.nearness == Nearness::Other));
}

#[test]
fn equal_bridge_numbers_under_another_host_bridge_are_not_shared() {
    let mut machine = machine();
    machine.nics.truncate(1);
    machine.nics[0].bridges = machine.gpus[0].bridges.clone();
    assert_eq!(by_distance(&machine, 0)[0].nearness, Nearness::Other);
    assert_eq!(by_distance(&machine, 99), []);
}
