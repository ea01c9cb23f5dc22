//! A snapshot is read whole or not at all.

use super::*;
use crate::machine::testing::gpu;
use crate::machine::{Core, Gpu, Locality, LocalitySource, NumaNode, Package};
use crate::testing::TempDir;
use proptest::prelude::*;

fn machine() -> Machine {
    let cpus = |list: &str| list.parse().unwrap();
    let gpu = Gpu {
        uuid: Some("GPU-8932f937-0000-0000-0000-000000000000".into()),
        model: Some("NVIDIA H200 „Ü“".into()),
        minor: Some(3),
        locality: Some(Locality { cpus: cpus("0-1"), nodes: cpus("8"), source: LocalitySource::Sysfs }),
        bridges: vec!["0000:40:01.0".parse().unwrap()],
        root: Some("pci0000:40".into()),
        ..gpu("0000:4e:00.0")
    };
    Machine {
        cpus: cpus("0-1,1024"),
        packages: vec![Package { cpus: cpus("0-1,1024") }],
        numa: vec![NumaNode { id: 8, cpus: cpus("0-1,1024"), memory_bytes: None, gpu_memory: false }],
        cores: vec![Core { pus: cpus("0,1024"), highest_perf: Some(255) }, Core { pus: cpus("1"), highest_perf: None }],
        gpus: vec![gpu],
        isolated: cpus("1"),
        driver: Some("550.54.15".into()),
        ..Machine::default()
    }
}

fn key() -> Key {
    let gpus = vec!["0000:4e:00.0".parse().unwrap()];
    Key {
        version: "1".into(),
        boot_id: Some("b".into()),
        driver: Some("550.54.15".into()),
        gpus,
        mig: Vec::new(),
        topology: None,
    }
}

#[test]
fn a_machine_comes_back_as_it_was_written() {
    let directory = TempDir::new("snapshot-round");
    let state = directory.path().join("state/deeper");
    let path = store(&state, &machine(), &key()).unwrap();
    assert_eq!(load(&state, &key()).unwrap(), machine());
    assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o7777, 0o644);
    let names: Vec<_> = fs::read_dir(&state).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, [FILE_NAME], "nothing unfinished is left");
}

#[test]
fn the_first_line_names_format_checksum_and_length() {
    let text = encode(&machine(), &key());
    let (head, body) = text.split_once('\n').unwrap();
    assert_eq!(head, format!("gpu-tune-snapshot 1 {:08x} {}", crc32fast::hash(body.as_bytes()), body.len()));
}

#[test]
fn each_reason_not_to_use_a_snapshot_is_told_apart() {
    let directory = TempDir::new("snapshot-reasons");
    let said = |text: &str| {
        directory.write(FILE_NAME, text);
        load(directory.path(), &key()).unwrap_err().to_string()
    };
    let good = encode(&machine(), &key());
    assert_eq!(said("<topology/>"), "not a snapshot of gpu-tune");
    assert_eq!(said(&good.replacen("snapshot 1", "snapshot 2", 1)), "a snapshot of format 2, expected 1");
    assert_eq!(said(&good.replacen("H200", "H100", 1)), "the snapshot is damaged: its checksum is wrong");
    assert_eq!(said("gpu-tune-snapshot 1 "), "the snapshot is damaged: its first line is cut off");
    let cut = said(&good[..good.len() - 10]);
    assert!(cut.starts_with("the snapshot is damaged: it has ") && cut.contains(" bytes of "), "{cut}");
    let stale = |change: fn(&mut Key)| {
        let mut other = key();
        change(&mut other);
        said(&encode(&machine(), &other))
    };
    let old = "the snapshot is out of date:";
    assert_eq!(stale(|key| key.boot_id = Some("a".into())), format!("{old} the node was booted since"));
    assert_eq!(stale(|key| key.driver = None), format!("{old} NVIDIA driver was none, is 550.54.15"));
    assert_eq!(stale(|key| key.gpus.clear()), format!("{old} 0 GPUs then, 1 now, or others"));
    assert_eq!(stale(|key| key.mig.push("gpu0/gi1/ci0".into())), format!("{old} the MIG devices were changed since"));
    assert_eq!(stale(|key| key.version = "0".into()), format!("{old} written by gpu-tune 0, this is 1"));
    let missing = load(&directory.path().join("none"), &key()).unwrap_err();
    assert!(matches!(missing, SnapshotError::Missing(_)), "{missing}");
}

#[test]
fn a_snapshot_that_others_can_write_is_not_read() {
    let directory = TempDir::new("snapshot-open");
    let path = store(directory.path(), &machine(), &key()).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
    let error = load(directory.path(), &key()).unwrap_err();
    assert!(matches!(&error, SnapshotError::Untrusted(TrustError::Writable { .. })), "{error:?}");
    assert!(error.help().is_some());
}

#[test]
fn nothing_is_written_where_others_can_write() {
    let directory = TempDir::new("snapshot-others");
    fs::set_permissions(directory.path(), Permissions::from_mode(0o777)).unwrap();
    let error = store(directory.path(), &machine(), &key()).unwrap_err();
    assert!(matches!(&error, SnapshotError::Untrusted(TrustError::Writable { .. })), "{error:?}");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn a_writer_that_died_leaves_the_old_file_and_its_remains_are_swept_later() {
    let directory = TempDir::new("snapshot-crash");
    let path = store(directory.path(), &machine(), &key()).unwrap();
    let remains = directory.write(".machine.snapshot.999999.0", "gpu-tune-snapshot 1 0000");
    assert_eq!(load(directory.path(), &key()).unwrap(), machine());
    store(directory.path(), &machine(), &key()).unwrap();
    assert!(remains.exists(), "a writer may be at it right now");
    let hour_ago = SystemTime::now() - Duration::from_secs(3600);
    OpenOptions::new().write(true).open(&remains).unwrap().set_modified(hour_ago).unwrap();
    store(directory.path(), &machine(), &key()).unwrap();
    assert!(!remains.exists() && path.exists());
}

#[test]
fn readers_see_whole_files_while_two_writers_write() {
    let directory = TempDir::new("snapshot-race");
    let mut other = machine();
    other.gpus.clear();
    store(directory.path(), &other, &key()).unwrap();
    std::thread::scope(|scope| {
        for machine in [machine(), other.clone()] {
            let path = directory.path();
            scope.spawn(move || (0..50).for_each(|_| drop(store(path, &machine, &key()).unwrap())));
        }
        for _ in 0..200 {
            let found = load(directory.path(), &key()).unwrap();
            assert!(found == machine() || found == other);
        }
    });
}

/// The writer is this test in a process of its own, which is killed at some moment.
#[test]
fn a_writer_that_is_killed_leaves_a_whole_file() {
    if let Some(directory) = std::env::var_os("GPU_TUNE_TEST_STATE") {
        loop {
            store(Path::new(&directory), &machine(), &key()).unwrap();
        }
    }
    let directory = TempDir::new("snapshot-killed");
    store(directory.path(), &machine(), &key()).unwrap();
    for moment in 0..8 {
        let mut writer = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "snapshot::tests::a_writer_that_is_killed_leaves_a_whole_file"])
            .env("GPU_TUNE_TEST_STATE", directory.path())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(60 + 7 * moment));
        assert!(writer.try_wait().unwrap().is_none(), "the writer ended by itself");
        writer.kill().unwrap();
        writer.wait().unwrap();
        assert_eq!(load(directory.path(), &key()).unwrap(), machine());
    }
}

#[test]
fn nothing_is_made_below_a_directory_that_others_can_write() {
    let directory = TempDir::new("snapshot-below");
    let state = directory.path().join("a/b");
    fs::set_permissions(directory.path(), Permissions::from_mode(0o777)).unwrap();
    assert!(matches!(store(&state, &machine(), &key()), Err(SnapshotError::Untrusted(_))));
    assert!(!directory.path().join("a").exists());
    fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
    assert!(store(&state, &machine(), &key()).unwrap().exists());
}

#[test]
fn a_directory_that_cannot_be_written_is_named() {
    let error = store(Path::new("/proc/gpu-tune"), &machine(), &key()).unwrap_err();
    assert_eq!(error.to_string(), "cannot write `/proc/gpu-tune`");
}

proptest! {
    #[test]
    fn no_flipped_bit_gets_through(at: prop::sample::Index, bit in 0..8u8) {
        let mut bytes = encode(&machine(), &key()).into_bytes();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        prop_assert!(decode(&bytes).is_err());
    }

    #[test]
    fn no_shortened_file_gets_through(length: prop::sample::Index) {
        let bytes = encode(&machine(), &key()).into_bytes();
        prop_assert!(decode(&bytes[..length.index(bytes.len())]).is_err());
    }

    #[test]
    fn bytes_of_any_kind_are_refused_without_a_panic(mut bytes: Vec<u8>, as_snapshot: bool) {
        if as_snapshot {
            bytes.splice(0..0, *b"gpu-tune-snapshot ");
        }
        prop_assert!(decode(&bytes).is_err());
    }
}
