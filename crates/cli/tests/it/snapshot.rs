//! `gpu-tune snapshot`, and replay of what it wrote.

use crate::common::{gpu_tune, pipe, scratch, told, topology};

#[test]
fn a_snapshot_replays_as_the_machine_it_was_made_from() {
    let Some(xml) = topology("turin-4gpu-nvml.xml") else { return };
    let file = scratch("snapshot-replay").join("turin.snapshot");
    let file = file.to_string_lossy();
    let written = gpu_tune(&["snapshot", "--topology", &xml, "-o", &file]);
    assert!(told(&written).starts_with("exit 0\n--- stdout\n/"), "{}", told(&written));
    for verb in [&["topo"][..], &["plan", "h200", "--json"], &["plan", "h200", "--svg", "-"]] {
        let with = |path: &str| told(&gpu_tune(&[verb, &["--topology", path]].concat()));
        assert_eq!(with(&xml), with(&file), "{verb:?}");
    }
}

#[test]
fn an_anonymous_snapshot_has_no_uuid_and_the_same_plan() {
    let Some(xml) = topology("turin-4gpu-nvml.xml") else { return };
    let file = scratch("snapshot-anonymous").join("x.snapshot");
    let file = file.to_string_lossy();
    let plain = gpu_tune(&["snapshot", "--topology", &xml, "-o", "-"]);
    assert!(String::from_utf8_lossy(&plain.stdout).contains("GPU-46f77619"), "there is a UUID to leave out");
    assert!(gpu_tune(&["snapshot", "--topology", &xml, "--anonymize", "-o", &file]).status.success());
    let text = std::fs::read_to_string(&*file).expect("the snapshot");
    assert!(!text.contains("46f77619") && !text.contains("GPU-"), "{text}");
    let table = |path: &str| told(&gpu_tune(&["plan", "h200", "--topology", path]));
    assert_eq!(table(&xml), table(&file));
}

#[test]
fn this_node_is_kept_where_the_plugin_looks_for_it() {
    let state = scratch("snapshot-state");
    let output = gpu_tune(&["snapshot", "--state", &state.to_string_lossy()]);
    assert_eq!(output.status.code(), Some(0), "{}", told(&output));
    let key = gpu_tune_engine::snapshot::Key::of_this_host(std::path::Path::new("/"));
    let machine = gpu_tune_engine::snapshot::load(&state, &key).expect("a snapshot of this node");
    assert!(!machine.cpus.is_empty() && !machine.cores.is_empty());
}

#[test]
fn a_damaged_snapshot_is_refused_with_the_way_out() {
    let Some(xml) = topology("turin-4gpu.xml") else { return };
    let file = scratch("snapshot-damaged").join("x.snapshot");
    assert!(gpu_tune(&["snapshot", "--topology", &xml, "-o", &file.to_string_lossy()]).status.success());
    let text =
        std::fs::read_to_string(&file).expect("the snapshot").replace("NVIDIA", "nvidia").replace("cpus", "CPUs");
    std::fs::write(&file, text).expect("damage");
    let output = gpu_tune(&["topo", "--topology", &file.to_string_lossy()]);
    let path = file.display();
    let expected =
        format!("gpu-tune: error: cannot read the machine: cannot replay `{path}`: the snapshot is damaged: ");
    assert_eq!(output.status.code(), Some(1));
    assert!(told(&output).contains(&expected), "{}", told(&output));
}

#[test]
fn a_pipe_and_a_link_are_not_replaced_by_a_snapshot() {
    let Some(xml) = topology("turin-4gpu.xml") else { return };
    let folder = scratch("snapshot-pipe");
    let (pipe, link) = (pipe(folder.join("pipe")), folder.join("link"));
    std::os::unix::fs::symlink("elsewhere", &link).expect("a link");
    for path in [pipe, link] {
        let before = path.symlink_metadata().expect("it is there").file_type();
        let output = gpu_tune(&["snapshot", "--topology", &xml, "-o", &path.to_string_lossy()]);
        assert_eq!(output.status.code(), Some(1), "{}", told(&output));
        assert!(told(&output).contains("it exists and is no regular file"), "{}", told(&output));
        assert!(told(&output).contains("`-` for standard output"), "{}", told(&output));
        assert_eq!(path.symlink_metadata().expect("it is still there").file_type(), before);
    }
}

#[test]
fn anonymity_and_the_plugins_directory_do_not_go_together() {
    for args in [&["snapshot", "--anonymize"][..], &["snapshot", "--state", "/x", "-o", "/y"]] {
        assert_eq!(gpu_tune(args).status.code(), Some(2), "{args:?}");
    }
}

#[test]
fn a_place_that_cannot_be_written_is_named() {
    let Some(xml) = topology("turin-4gpu.xml") else { return };
    let output = gpu_tune(&["snapshot", "--topology", &xml, "-o", "/proc/no/x.snapshot"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        told(&output).contains("cannot keep the snapshot: cannot write `/proc/no/x.snapshot`: "),
        "{}",
        told(&output)
    );
}
