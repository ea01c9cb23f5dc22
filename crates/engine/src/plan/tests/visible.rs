//! What lists of visible devices name (rule 2).

use super::super::visible::resolve;
use crate::machine::testing::hgx;
use crate::machine::{Machine, MigDevice};

const ALL: [usize; 8] = [0, 1, 2, 3, 4, 5, 6, 7];

fn check(list: &str, step: &[usize], expect: &[usize]) {
    let (found, notices) = resolve(list, &mig(), step);
    assert_eq!((found.as_slice(), notices.len()), (expect, 0), "{list:?}: {notices:?}");
}

fn check_bad(list: &str, expect: &[usize], said: &str) {
    let (found, notices) = resolve(list, &mig(), &ALL);
    assert_eq!(found, expect, "{list:?}");
    let said_now: Vec<&str> = notices.iter().map(|notice| notice.message.as_str()).collect();
    let left = if expect.len() == ALL.len() { "all GPUs of the step count" } else { "the others count" };
    assert_eq!(said_now, [format!("visible devices: {said}: {left}")]);
}

/// GPU 2 has two MIG devices.
fn mig() -> Machine {
    let mut machine = hgx();
    let device = |uuid: &str, gi| MigDevice { uuid: uuid.into(), gi: Some(gi), ci: Some(0) };
    machine.gpus[2].mig = vec![device("MIG-aaaa-1", 1), device("MIG-aabb-2", 2)];
    machine
}

#[test]
fn indices_count_in_the_steps_order() {
    check("3,6,5,4,0,7,1,2", &ALL, &[3, 6, 5, 4, 0, 7, 1, 2]);
    check(" 1 , 0 ", &[4, 5, 6, 7], &[1, 0]);
    check("0,0,1", &ALL, &[0, 1]);
}

#[test]
fn uuids_and_their_beginnings_name_gpus() {
    check("GPU-00000006-1111-2222-3333-444444444444,GPU-00000001", &ALL, &[6, 1]);
    check("gpu-00000007", &[5, 7], &[1]);
    check("GPU-", &[5], &[0]);
}

#[test]
fn mig_devices_in_both_spellings_stand_for_their_gpu() {
    check("MIG-aaaa-1", &ALL, &[2]);
    check("MIG-aaaa-1,MIG-aabb-2", &ALL, &[2, 2]);
    check("MIG-GPU-00000004-1111-2222-3333-444444444444/11/0", &ALL, &[4]);
    check("MIG-made-since", &[6], &[0]);
}

#[test]
fn a_mig_device_has_the_slice_that_the_step_has_for_it() {
    check("MIG-aabb-2", &[2, 2], &[1]);
    check("MIG-aaaa-1", &[2, 2], &[0]);
    check("MIG-GPU-00000002/1/0,MIG-GPU-00000002/2/0", &[2, 2], &[0, 1]);
}

#[test]
fn no_devices_has_several_spellings() {
    for list in ["", "-1", "NoDevFiles", " ", "-1,0"] {
        check(list, &ALL, &[]);
    }
    check("2,-1,3", &ALL, &[2]);
}

#[test]
fn what_names_no_gpu_or_several_is_told_and_passed_over_and_a_wrong_index_ends_the_list() {
    check_bad("GPU-0000000,1", &[1], "`GPU-0000000` names several GPUs");
    let ends = "is beyond the step's last GPU, and for CUDA the list ends there";
    check_bad("0,9,1", &[0], &format!("`9` {ends}"));
    check_bad("9,1", &ALL, &format!("`9` {ends}"));
    check_bad("x", &ALL, "`x` is no GPU of the step");
    check_bad("MIG-aa", &ALL, "`MIG-aa` names several MIG devices");
    check_bad(
        "MIG-zz,99999999999999999999",
        &ALL,
        &format!("`MIG-zz` is no MIG device of the step's GPUs, `99999999999999999999` {ends}"),
    );
}

#[test]
fn a_long_list_of_nonsense_stays_a_short_message() {
    let list = vec!["y".repeat(1000); 500].join(",");
    let (_, notices) = resolve(&list, &mig(), &ALL);
    assert!(notices[0].message.len() < 500, "{}", notices[0].message);
    assert!(notices[0].message.contains("and 496 more"));
}
