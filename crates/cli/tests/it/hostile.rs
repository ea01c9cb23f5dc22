//! Files that somebody changed: whatever libhwloc makes of them, and should it crash, there is a machine or a one-line error.

use crate::common::{gpu_tune, scratch, told, topologies};
use gpu_tune_discover::read_xml;
use gpu_tune_engine::{Machine, snapshot};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The files of a folder of tests, by name.
fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests").join(folder);
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("a file").path()).collect();
    files.sort();
    files
}

/// The machines described in `tests/machines`.
fn machines() -> Vec<String> {
    files("machines").iter().map(|file| std::fs::read_to_string(file).expect("a machine")).collect()
}

/// What `gpu-tune plan` says of a file that it refuses, its first line.
fn refusal(file: &Path) -> String {
    let text = told(&gpu_tune(&["plan", "--topology", &file.to_string_lossy()]));
    let said = text.strip_prefix("exit 1\n--- stdout\n--- stderr\ngpu-tune: error: cannot read the machine: ");
    let said = said.unwrap_or_else(|| panic!("{}: {text}", file.display()));
    assert!(said.contains("\ngpu-tune: help: ") && said.lines().count() == 2, "{said}");
    said.lines().next().unwrap_or_default().replace(&file.display().to_string(), "FILE")
}

/// The machine in a file as the command reads it, or its first word of why not.
fn read(file: &Path) -> Result<Machine, String> {
    let output = gpu_tune(&["snapshot", "--topology", &file.to_string_lossy(), "-o", "-"]);
    match output.status.code() {
        Some(0) => Ok(snapshot::decode(&output.stdout).expect("a snapshot").0),
        Some(1) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        _ => panic!("{}", told(&output)),
    }
}

#[test]
fn a_file_that_libhwloc_does_not_survive_is_refused_like_any_other_bad_file() {
    let files = files("damaged");
    let file = |name: &str| files.iter().find(|file| file.ends_with(name)).expect("the file");
    assert_eq!(refusal(file("half-a-pair-of-sets.xml")), "FILE:6: an object of type `Core` has no `complete_cpuset`");
    // Another release of libhwloc may refuse it in peace.
    let mask = refusal(file("mask-that-is-no-mask.xml"));
    let crashed =
        mask.starts_with("libhwloc could not load `FILE`: it crashed (signal 6): ") && mask.contains("Assertion");
    assert!(crashed || mask.starts_with("hwloc cannot read `FILE`: "), "{mask}");
}

#[test]
fn every_damaged_file_is_refused_in_one_line_by_every_verb_that_reads_one() {
    for file in files("damaged") {
        refusal(&file);
        for verb in ["topo", "snapshot", "doctor", "bench"] {
            let output = gpu_tune(&[verb, "--topology", &file.to_string_lossy()]);
            assert!(matches!(output.status.code(), Some(1 | 2)), "{verb}: {}", told(&output));
        }
    }
}

/// Looks at the process while it waits for its input.
#[test]
fn the_process_that_reads_a_file_is_bounded_by_the_kernel() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gpu-tune"));
    let reader = command.arg("read-xml").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a process");
    let limits = || std::fs::read_to_string(format!("/proc/{}/limits", reader.id())).expect("its limits");
    let hard = |limits: &str, name: &str| {
        let line = limits.lines().find_map(|line| line.strip_prefix(name)).expect("the limit");
        line.split_whitespace().nth(1).map(str::to_owned)
    };
    let begin = Instant::now();
    let wanted =
        [("address space", "4294967296"), ("file size", "268435456"), ("cpu time", "60"), ("core file size", "0")];
    let set =
        |limits: &str| wanted.iter().all(|(name, most)| hard(limits, &format!("Max {name}")).as_deref() == Some(most));
    while !set(&limits()) {
        assert!(begin.elapsed() < Duration::from_secs(20), "{}", limits());
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = reader.wait_with_output().expect("its end");
    assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(1), false), "{}", told(&output));
}

#[test]
fn a_user_whose_own_limits_are_lower_reads_files_too() {
    let file = files("machines").remove(0);
    for limit in ["-v 3000000", "-t 30", "-f 100000"] {
        let script = format!("ulimit {limit}; exec \"$0\" plan --topology \"$1\"");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script, env!("CARGO_BIN_EXE_gpu-tune")]).arg(&file);
        let output = shell.output().expect("sh starts");
        assert!(output.status.success(), "{limit}: {}", told(&output));
    }
}

#[test]
fn names_in_a_strangers_file_cannot_play_with_a_terminal() {
    let (mut machine, _) = read_xml(&files("machines").remove(0)).expect("a machine");
    let odd = |text: &str| format!("{text}\x1b]0;title\x07\nforged\u{202e}\u{fffe}");
    let gpu = &mut machine.gpus[0];
    (gpu.model, gpu.uuid) = (Some(odd("H200")), Some(odd("GPU-1")));
    machine.driver = Some(odd("1.2"));
    let nic = serde_json::json!({"name": odd("mlx5_0"), "ports": [
        {"number": 1, "active": true, "link_layer": "infiniband", "rate": odd("400 Gb/sec")}
    ]});
    machine.nics.push(serde_json::from_value(nic).expect("an adapter"));
    let file = scratch("hostile-name").join("node.snapshot");
    std::fs::write(&file, snapshot::encode(&machine, &snapshot::Key::default())).expect("a file");
    for verb in [
        &["topo"][..],
        &["plan"],
        &["plan", "h200"],
        &["plan", "--svg", "-"],
        &["profile", "show", "auto"],
        &["doctor"],
    ] {
        let text = told(&gpu_tune(&[verb, &["--topology", &file.to_string_lossy()]].concat()));
        let plays = |letter: char| letter != '\n' && letter.is_control() || "\u{202e}\u{fffe}".contains(letter);
        assert!(!text.contains(plays), "{verb:?}: {text}");
        assert!(!text.lines().any(|line| line.starts_with("forged")), "{verb:?}: {text}");
    }
    let text = told(&gpu_tune(&["topo", "--topology", &file.to_string_lossy()]));
    assert!(text.contains("driver 1.2\u{fffd}]0;title\u{fffd}\u{fffd}forged"), "{text}");
}

#[test]
fn a_machine_read_apart_is_the_machine_read_here() {
    let own = files("machines").into_iter();
    for file in own.chain(topologies().into_iter().map(PathBuf::from)) {
        let (here, _) = read_xml(&file).expect("a machine");
        assert_eq!(read(&file).as_ref(), Ok(&here), "{}", file.display());
    }
}

/// What is put in the place of an attribute's value.
const VALUES: [&str; 16] = [
    "",
    "0",
    "-1",
    "1",
    "4",
    "9999999999999999999",
    "0x0",
    "0xf...f",
    "0xf...f,0x0",
    "0xffffffff,0xffffffff",
    "PU",
    "Core",
    "NUMANode",
    "Bridge",
    "PCIDev",
    "0000:ff:1f.7",
];

/// A change to a file.
#[derive(Debug, Clone)]
enum Change {
    /// Another value for one attribute.
    Value(Index, &'static str),
    /// One line less.
    Drop(Index),
    /// One line twice.
    Repeat(Index),
    /// Two lines in each other's place.
    Swap(Index, Index),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        6 => (any::<Index>(), select(&VALUES[..])).prop_map(|(at, value)| Change::Value(at, value)),
        1 => any::<Index>().prop_map(Change::Drop),
        1 => any::<Index>().prop_map(Change::Repeat),
        1 => any::<(Index, Index)>().prop_map(|(one, other)| Change::Swap(one, other)),
    ]
}

fn apply(change: &Change, text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    if lines.is_empty() {
        return text.to_owned();
    }
    match change {
        Change::Value(at, value) => return replace(text, at, value),
        Change::Drop(at) => drop(lines.remove(at.index(lines.len()))),
        Change::Repeat(at) => {
            let at = at.index(lines.len());
            lines.insert(at, lines[at]);
        }
        Change::Swap(one, other) => {
            let (one, other) = (one.index(lines.len()), other.index(lines.len()));
            lines.swap(one, other);
        }
    }
    lines.join("\n")
}

/// Puts `value` between one pair of quotes.
fn replace(text: &str, at: &Index, value: &str) -> String {
    let mut parts: Vec<&str> = text.split('"').collect();
    if parts.len() < 3 {
        return text.to_owned();
    }
    let at = at.index(parts.len() / 2) * 2 + 1;
    parts[at] = value;
    parts.join("\"")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_changed_file_gives_a_machine_or_one_line(text in select(machines()), changes in prop::collection::vec(change(), 1..6)) {
        let text = changes.iter().fold(text, |text, change| apply(change, &text));
        let file = scratch("hostile").join("node.xml");
        std::fs::write(&file, &text).expect("a file");
        match read(&file) {
            Ok(machine) => {
                prop_assert!(!machine.cpus.is_empty());
                prop_assert!(machine.cores.iter().all(|core| core.pus.is_subset(&machine.cpus)));
                prop_assert!(machine.numa.iter().all(|node| node.cpus.is_subset(&machine.cpus)));
                prop_assert!(machine.gpus.windows(2).all(|pair| pair[0].pci < pair[1].pci));
            }
            Err(said) => {
                prop_assert!(said.starts_with("gpu-tune: error: cannot read the machine: "), "{}", said);
                prop_assert_eq!(said.lines().filter(|line| !line.starts_with("gpu-tune: help: ")).count(), 1, "{}", said);
            }
        }
    }
}
