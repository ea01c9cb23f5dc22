//! `gpu-tune doctor` on described nodes.

use crate::common::{gpu_tune, pipe, scratch, told, topology};
use gpu_tune_engine::machine::testing;
use gpu_tune_engine::snapshot::{self, Key};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// A described node: files below a root of its own.
struct Node(PathBuf);

impl Node {
    /// A node as it should be.
    fn ready(name: &str) -> Self {
        let node = Self(scratch(name));
        node.write("proc/sys/kernel/hostname", "n03.cluster\n");
        node.write("proc/sys/kernel/numa_balancing", "0\n");
        node.write("proc/self/limits", "Max locked memory         unlimited            unlimited            bytes\n");
        node.write("proc/modules", "nvidia_peermem 16384 0 - Live 0x0\nnvidia 1 0 - Live 0x0\n");
        node.write("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue\n");
        node.write("proc/77/comm", "slurmd\n");
        node.write("proc/77/cmdline", "/usr/sbin/slurmd\0-D\0");
        node.write("proc/77/status", "Uid:\t0\t0\t0\t0\n");
        node.write("proc/77/maps", "7f00-7f01 r-xp 0 0:0 1 /usr/local/lib/gpu-tune/gpu_tune.so\n");
        node.write("proc/77/limits", "Max locked memory         unlimited            unlimited            bytes\n");
        node.write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
        node.write("etc/slurm/slurm.conf", "SlurmctldHost=head\nTaskPlugin=task/cgroup,task/affinity # both\n");
        node.write("etc/slurm/cgroup.conf", "ConstrainCores=yes\nconstraindevices = YES\n");
        node.write("etc/slurm/gres.conf", "AutoDetect=nvml\n");
        node.write("etc/slurm/plugstack.conf", "include plugstack.conf.d/*.conf\n");
        node.write("etc/slurm/plugstack.conf.d/10-pyxis.conf", "required /usr/lib/slurm/spank_pyxis.so\n");
        node.write(
            "etc/slurm/plugstack.conf.d/20-tune.conf",
            "optional /usr/local/lib/gpu-tune/gpu_tune.so default=h200\n",
        );
        node.write("usr/local/lib/gpu-tune/gpu_tune.so", "");
        node.write("usr/local/lib/gpu-tune/libgpu_tune_preload.so", "");
        node.program("usr/local/bin/gpu-tune", "");
        node.program("usr/bin/srun", "echo 'Usage: srun [OPTIONS(0)...]'; echo '      --gpu-tune=PROFILE'");
        node
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, text).expect("a file");
    }

    fn program(&self, path: &str, script: &str) {
        self.write(path, &format!("#!/bin/sh\n{script}\n"));
        fs::set_permissions(self.0.join(path), fs::Permissions::from_mode(0o755)).expect("permissions");
    }

    fn remove(&self, path: &str) {
        fs::remove_file(self.0.join(path)).expect("the file was there");
    }

    /// The report for the machine that the node's own files tell of.
    fn report_of_itself(&self) -> String {
        let root = self.0.to_string_lossy().into_owned();
        told(&gpu_tune(&["doctor", "--root", &root])).replace(&root, "ROOT")
    }

    /// The report for an 8-GPU machine; `None` where the collection of machines is absent.
    fn report(&self) -> Option<String> {
        let topology = topology("hgx-h100-8gpu.xml")?;
        let root = self.0.to_string_lossy().into_owned();
        let text = told(&gpu_tune(&["doctor", "--topology", &topology, "--root", &root]));
        Some(text.replace(&root, "ROOT"))
    }
}

/// Whether the report has a line of this state and subject with this text in it, and the fix below it.
fn says(report: &str, state: &str, subject: &str, text: &str, fix: &str) -> bool {
    let lines: Vec<&str> = report.lines().collect();
    let fits = |pair: &[&str]| match pair {
        [line, below] => {
            line.starts_with(&format!("{state:<4}  {subject} ")) && line.contains(text) && below.contains(fix)
        }
        _ => false,
    };
    lines.windows(2).any(fits)
}

/// A file that is not as it should be, and the line that tells of it.
struct Fault {
    path: &'static str,
    /// Its text; `None`: it is not there.
    text: Option<&'static str>,
    /// State, subject, a part of the text and of the fix.
    expect: [&'static str; 4],
}

const fn fault(path: &'static str, text: Option<&'static str>, expect: [&'static str; 4]) -> Fault {
    Fault { path, text, expect }
}

const STACK: &str = "etc/slurm/plugstack.conf";
const FAULTS: [Fault; 28] = [
    fault(STACK, Some(""), ["fail", "plugstack.conf", "does not list", "optional"]),
    fault(STACK, None, ["fail", "plugstack.conf", "is not there", "optional"]),
    fault(
        STACK,
        Some("optional /usr/local/lib/gpu-tune/gpu_tune.so profiledir=/x\n"),
        ["fail", "words", "unknown word `profiledir`", "did you mean `profile_dir`"],
    ),
    fault(
        STACK,
        Some("required /usr/local/lib/gpu-tune/gpu_tune.so\n"),
        ["warn", "plugstack.conf", "as `required`", "write `optional`"],
    ),
    fault(
        STACK,
        Some("optional /usr/local/lib/gpu-tune/gpu_tune.so\noptional /usr/lib/slurm/spank_pyxis.so\n"),
        ["warn", "order", "before pyxis", "after spank_pyxis.so"],
    ),
    fault(
        STACK,
        Some("optional /usr/local/lib/gpu-tune/gpu_tune.so\ninclude plugstack.conf.d/20-*\n"),
        [
            "fail",
            "plugstack.conf",
            "is listed 2 times: /etc/slurm/plugstack.conf:1, /etc/slurm/plugstack.conf.d/20",
            "one",
        ],
    ),
    fault(
        STACK,
        Some("optional /usr/local/lib/gpu-tune/gpu_tune.so default=h2000\n"),
        ["fail", "words", " `default=`: unknown profile `h2000`", "did you mean `h200`"],
    ),
    fault(
        STACK,
        Some("optional /usr/local/lib/gpu-tune/gpu_tune.so default=h200+roec\n"),
        ["fail", "words", " `default=`: unknown profile `roec`", "did you mean `roce`"],
    ),
    fault(
        STACK,
        Some("optional /usr/local/lib/gpu-tune/gpu_tune.so fabric=roec\n"),
        ["fail", "words", " `fabric=`: unknown profile `roec`", "did you mean `roce`"],
    ),
    fault(
        STACK,
        Some("optional /usr/local/lib/gpu-tune/gpu_tune.so fabric=h100\n"),
        ["warn", "words", " `fabric=` names `h100` as a layer, which is a whole profile", "name a layer"],
    ),
    fault(
        STACK,
        Some("optional /usr/local/lib/gpu-tune/gpu_tune.so default=h200+h100 fabric=ib\n"),
        ["warn", "words", " `default=` names `h100` as a layer, which is a whole profile", "name a layer"],
    ),
    fault(
        STACK,
        Some("optional /usr/local/lib/gpu-tune/gpu_tune.so allow=auto,h20\n"),
        ["warn", "words", "`allow=` names `h20`", "profile list"],
    ),
    fault(
        STACK,
        Some("optional /usr/local/lib/gpu-tune/gpu_tune.so default=h200\r\n"),
        ["fail", "words", "`h200\\r` cannot be the name", "names have"],
    ),
    fault(
        "proc/77/maps",
        Some("7f00-7f01 r-xp 0 0:0 1    /opt/old/gpu_tune.so (deleted)\n"),
        ["warn", "loaded by slurmd", "has /opt/old/gpu_tune.so, which", "restart slurmd"],
    ),
    fault(
        STACK,
        Some("Optional /usr/lib/x.so\ninclude plugstack.conf.d/*.conf\n"),
        ["warn", "plugstack.conf", "/etc/slurm/plugstack.conf:1: `Optional` is none of optional", "correct the line"],
    ),
    fault(
        STACK,
        Some("include plugstack.d/*.conf\n"),
        ["fail", "plugstack.conf", "plugstack.conf:1: no file fits `/etc/slurm/plugstack.d/*.conf`", "add `optional"],
    ),
    fault(
        "etc/slurm/plugstack.conf.d/30-again.conf",
        Some("include ../../slurm/plugstack.con[f]\n"),
        ["fail", "plugstack.conf", "30-again.conf:1 includes a file that includes this one", "take that line away"],
    ),
    fault("usr/local/lib/gpu-tune/libgpu_tune_preload.so", None, ["fail", "shim", "is not there", "make install"]),
    fault(
        "usr/bin/srun",
        Some("#!/bin/sh\necho 'Usage: srun'\n"),
        ["fail", "loaded by srun", "does not know", "plugstack.conf line and file"],
    ),
    fault("proc/77/maps", Some("7f00 /lib/libc.so\n"), ["warn", "loaded by slurmd", "not have it", "restart slurmd"]),
    fault(
        "etc/slurm/slurm.conf",
        Some("TaskPlugin=task/none\n"),
        ["warn", "TaskPlugin", "nothing keeps a job", "task/cgroup"],
    ),
    fault(
        "etc/slurm/cgroup.conf",
        Some("ConstrainCores=yes\n"),
        ["warn", "ConstrainDevices", "could open GPUs of another", "ConstrainDevices=yes"],
    ),
    fault("proc/modules", Some(""), ["warn", "GPUDirect RDMA", "neither nvidia-peermem", "modprobe"]),
    fault("proc/driver/nvidia/version", None, ["fail", "driver", "no driver is loaded", "nvidia module"]),
    fault(
        "etc/nccl.conf",
        Some("# site\nNCCL_DEBUG=INFO\n"),
        ["warn", "nccl.conf", "/etc/nccl.conf:2 sets NCCL_DEBUG=INFO", "remove the line"],
    ),
    fault(
        "proc/77/limits",
        Some("Max locked memory         8388608              8388608              bytes\n"),
        ["warn", "locked memory", "8388608 bytes for slurmd", "LimitMEMLOCK"],
    ),
    fault("proc/sys/kernel/numa_balancing", Some("1\n"), ["warn", "NUMA balancing", "on", "sysctl"]),
    fault(
        "sys/kernel/mm/transparent_hugepage/enabled",
        Some("always madvise [never]\n"),
        ["warn", "huge pages", "never", "madvise"],
    ),
];

#[test]
fn a_node_that_is_ready_has_nothing_to_fix() {
    let Some(report) = Node::ready("doctor-ready").report() else { return };
    // How many profiles are built in is not the point.
    let lines: Vec<&str> = report.lines().filter(|line| !line.starts_with("ok    profiles ")).collect();
    insta::assert_snapshot!("ready", lines.join("\n"));
}

#[test]
fn an_srun_that_others_can_write_is_not_started() {
    let node = Node::ready("doctor-srun");
    node.program("usr/bin/srun", "touch \"$(dirname \"$0\")/ran\"");
    fs::set_permissions(node.0.join("usr/bin/srun"), fs::Permissions::from_mode(0o777)).expect("permissions");
    let Some(report) = node.report() else { return };
    assert!(
        says(&report, "fail", "loaded by srun", "srun is not asked: `ROOT/usr/bin/srun` can be written by", "chmod"),
        "{report}"
    );
    assert!(!node.0.join("usr/bin/ran").exists());
}

#[test]
fn the_devices_of_another_machine_are_not_looked_for_on_this_node() {
    let Some(topology) = topology("hgx-h100-8gpu.xml") else { return };
    let report = told(&gpu_tune(&["doctor", "--topology", &topology, "--slurm-conf", "/nonexistent"]));
    for line in
        ["skip  driver            the machine comes from a file", "skip  RoCE v2 address   the machine comes from"]
    {
        assert!(report.contains(line), "{line}: {report}");
    }
    assert!(!report.contains("GPUDirect RDMA") && !report.contains("IMEX"), "{report}");
}

/// Whether this node has a GPU does not matter: an NVML that is named by its path should be there.
#[test]
fn what_was_odd_while_the_node_was_read_is_told_without_a_gpu_too() {
    let root = scratch("doctor-odd").to_string_lossy().into_owned();
    let report = told(&gpu_tune(&["doctor", "--nvml", "/nonexistent", "--root", &root]));
    assert!(says(&report, "warn", "discovery", "NVML cannot be loaded: ", "`nvml=PATH` names another one"), "{report}");
}

#[test]
fn each_fault_is_told_with_its_fix() {
    for (number, Fault { path, text, expect: [state, subject, said, fix] }) in FAULTS.iter().enumerate() {
        let node = Node::ready(&format!("doctor-{number}"));
        match text {
            Some(text) => node.write(path, text),
            None => node.remove(path),
        }
        let Some(report) = node.report() else { return };
        assert!(says(&report, state, subject, said, fix), "{path} {text:?}: {report}");
        assert_eq!(report.starts_with("exit 1\n"), *state == "fail", "{path}: {report}");
    }
}

#[test]
fn nothing_is_guessed_behind_words_that_are_not_understood() {
    let node = Node::ready("doctor-words");
    node.write(STACK, "optional /usr/local/lib/gpu-tune/gpu_tune.so shim=/opt/shim.so command=/opt/gpu-tune stric\n");
    node.remove("usr/local/lib/gpu-tune/libgpu_tune_preload.so");
    let Some(report) = node.report() else { return };
    assert!(says(&report, "fail", "words", "unknown word `stric`", "did you mean `strict`"), "{report}");
    for subject in ["shim", "command", "snapshot", "profiles"] {
        assert!(report.contains(&format!("skip  {subject:<16}  unknown: the words are not understood\n")), "{report}");
    }
    assert!(report.contains("\n1 failed, 0 to look at, "), "{report}");
}

#[test]
fn a_place_where_no_snapshot_can_be_kept_is_a_fault() {
    let line = "optional /usr/local/lib/gpu-tune/gpu_tune.so state=/opt/state\n";
    let so = "steps find no snapshot and can keep none, so ranks are not bound";
    for (place, mode, said, fix) in [
        ("opt/state/x", 0o777, "opt/state` can be written by others (mode 0777)", "chmod go-w `"),
        ("opt/state", 0o644, "opt/state` is not a directory", "`gpu-tune snapshot --state /opt/state` as root"),
    ] {
        let node = Node::ready("doctor-state");
        node.write(STACK, line);
        node.write(place, "");
        fs::set_permissions(node.0.join("opt/state"), fs::Permissions::from_mode(mode)).expect("permissions");
        let Some(report) = node.report() else { return };
        assert!(says(&report, "fail", "snapshot", &format!("{said}: {so}"), fix), "{report}");
        assert!(report.starts_with("exit 1\n"), "{report}");
    }
    let node = Node::ready("doctor-state-owner");
    node.write(STACK, line);
    node.write("opt/state/x", "");
    if std::os::unix::fs::chown(node.0.join("opt/state"), Some(1234), None).is_ok() {
        let Some(report) = node.report() else { return };
        let said = format!("opt/state` belongs to user 1234, not to root: {so}");
        assert!(says(&report, "fail", "snapshot", &said, "chown root `"), "{report}");
    }
}

#[test]
fn a_snapshot_that_is_not_there_is_written_where_steps_look() {
    let node = Node::ready("doctor-state-none");
    node.write(STACK, "optional /usr/local/lib/gpu-tune/gpu_tune.so state=/opt/state\n");
    let Some(report) = node.report() else { return };
    let said = "no snapshot at `ROOT/opt/state/machine.snapshot`: the first step has to wait for one";
    assert!(says(&report, "warn", "snapshot", said, "fix: `gpu-tune snapshot --state /opt/state` as root"), "{report}");
}

/// An 8-GPU machine as a snapshot that is of no node.
fn described() -> String {
    let mut machine = testing::hgx();
    (0..).zip(&mut machine.gpus).for_each(|(minor, gpu)| gpu.minor = Some(minor));
    snapshot::encode(&machine, &Key::default())
}

#[test]
fn a_file_of_topology_that_steps_cannot_use_is_a_fault() {
    let whole = described();
    let snapshot = whole.get(..whole.len() - 10).expect("a snapshot");
    let xml = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<topology version=\"2.0\">\n";
    for (text, said, fix) in [
        (None, "`ROOT/opt/node`: No such file or directory (os error 2)", "correct `topology=` in plugstack.conf"),
        (Some(snapshot), "cannot replay `ROOT/opt/node`: the snapshot is damaged: it has ", "snapshot -o /opt/node`"),
        (Some(xml), "ROOT/opt/node:", "`lstopo"),
    ] {
        let node = Node::ready("doctor-topology-bad");
        node.write(STACK, "optional /usr/local/lib/gpu-tune/gpu_tune.so topology=/opt/node\n");
        node.write("opt/another", "");
        if let Some(text) = text {
            node.write("opt/node", text);
        }
        // An old file in the place of the snapshot is no comfort.
        let key = Key::of_this_host(&node.0);
        snapshot::store(&node.0.join("run/gpu-tune"), &testing::hgx(), &key).expect("a snapshot");
        let report = node.report_of_itself();
        assert!(says(&report, "fail", "topology", said, fix), "{report}");
        let so = ": nothing is known of this node, ranks are not bound\n";
        assert!(report.contains(so) && report.starts_with("exit 1\n"), "{report}");
        for line in ["skip  snapshot        ", "skip  machine         ", "skip  adapters        "] {
            assert!(report.contains(&format!("{line}  unknown without the ")), "{line}: {report}");
        }
        assert!(report.contains("\n1 failed, "), "{report}");
    }
}

#[test]
fn a_file_of_topology_that_others_can_write_is_a_fault() {
    let node = Node::ready("doctor-topology-open");
    node.write(STACK, "optional /usr/local/lib/gpu-tune/gpu_tune.so topology=/opt/node\n");
    node.write("opt/node", &described());
    fs::set_permissions(node.0.join("opt/node"), fs::Permissions::from_mode(0o666)).expect("permissions");
    let report = node.report_of_itself();
    assert!(says(&report, "fail", "topology", "can be written by others (mode 0666)", "chmod go-w"), "{report}");
}

#[test]
fn the_machine_is_that_of_topology_and_a_snapshot_there_needs_no_other() {
    let node = Node::ready("doctor-topology-snapshot");
    node.write(STACK, "optional /usr/local/lib/gpu-tune/gpu_tune.so topology=/opt/node\n");
    node.write("opt/node", &described());
    node.write("etc/slurm/gres.conf", "Name=gpu File=/dev/nvidia0 Cores=56-111\n");
    let report = node.report_of_itself();
    assert!(says(&report, "ok", "topology", "/opt/node: 2 packages", ""), "{report}");
    assert!(report.contains("skip  snapshot          not needed: steps read /opt/node itself\n"), "{report}");
    let said = "cores 56-111 of /dev/nvidia0 (0000:10:00.0) are far from it";
    assert!(says(&report, "fail", "gres.conf", said, "`Cores=0-55`"), "{report}");
    assert!(report.contains("driver            550.54.15, 8 GPUs\n"), "{report}");
    assert!(report.contains("\n1 failed, 0 to look at, "), "{report}");
}

#[test]
fn the_machine_of_the_command_line_comes_before_that_of_topology() {
    let Some(topology) = topology("turin-4gpu.xml") else { return };
    let node = Node::ready("doctor-topology-both");
    node.write(STACK, "optional /usr/local/lib/gpu-tune/gpu_tune.so topology=/opt/node\n");
    node.write("opt/node", &described());
    let root = node.0.to_string_lossy().into_owned();
    let report = told(&gpu_tune(&["doctor", "--topology", &topology, "--root", &root]));
    assert!(report.contains("driver            550.54.15, 4 GPUs\n"), "{report}");
    assert!(says(&report, "ok", "topology", "/opt/node: 2 packages", ""), "{report}");
}

#[test]
fn of_xml_in_topology_steps_want_a_snapshot_of_that_file() {
    let Some(topology) = topology("hgx-h100-8gpu.xml") else { return };
    let node = Node::ready("doctor-topology-xml");
    node.write(STACK, "optional /usr/local/lib/gpu-tune/gpu_tune.so topology=/opt/node.xml\n");
    node.write("opt/node.xml", &fs::read_to_string(topology).expect("the file"));
    let fix = "fix: `gpu-tune snapshot --topology /opt/node.xml` as root writes a new one";
    let report = node.report_of_itself();
    assert!(says(&report, "ok", "topology", "/opt/node.xml: ", ""), "{report}");
    assert!(says(&report, "warn", "snapshot", "no snapshot at ", fix), "{report}");

    let file = Some(Path::new("/opt/node.xml"));
    let key = Key::of_this_host(&node.0).described_by(&node.0, file);
    snapshot::store(&node.0.join("run/gpu-tune"), &testing::hgx(), &key).expect("a snapshot");
    let report = node.report_of_itself();
    assert!(report.contains("\nok    snapshot "), "{report}");
    // Also to an older file: who copies one keeps its time.
    let xml = fs::File::options().write(true).open(node.0.join("opt/node.xml")).expect("the file");
    xml.set_modified(SystemTime::UNIX_EPOCH).expect("another time");
    let report = node.report_of_itself();
    assert!(
        says(&report, "warn", "snapshot", "it was not made of the file of `topology=` as that is now", fix),
        "{report}"
    );
    node.write(STACK, "optional /usr/local/lib/gpu-tune/gpu_tune.so\n");
    let Some(report) = node.report() else { return };
    assert!(
        says(&report, "warn", "snapshot", "it describes the machine of a file, `/opt/node.xml ", "fix:"),
        "{report}"
    );
}

#[test]
fn nested_includes_are_followed_as_slurm_does() {
    let node = Node::ready("doctor-includes");
    node.write(STACK, "include conf.d/*/[a-c]?.conf\n");
    // Relative to the file it stands in; a name with a dot before it does not fit `*`.
    node.write("etc/slurm/conf.d/1/a1.conf", "include more/*\n");
    node.write("etc/slurm/conf.d/1/more/.old", "optional /x/gpu_tune.so\n");
    node.write("etc/slurm/conf.d/1/more/10", "\trequired\tspank_pyxis.so # first\n");
    node.write("etc/slurm/conf.d/2/b1.conf", "optional /usr/local/lib/gpu-tune/gpu_tune.so strict\n");
    node.write("etc/slurm/conf.d/2/d1.conf", "optional /usr/local/lib/gpu-tune/gpu_tune.so\n");
    let Some(report) = node.report() else { return };
    assert!(report.contains("/etc/slurm/conf.d/2/b1.conf:1 lists gpu_tune.so"), "{report}");
    assert!(says(&report, "ok", "words", "strict", "plugin file") && report.contains("after pyxis"), "{report}");
    assert!(report.starts_with("exit 0\n"), "{report}");
}

#[test]
fn a_plugin_without_a_slash_is_looked_for_in_slurms_directory() {
    let node = Node::ready("doctor-plugin-dir");
    node.write(STACK, "optional gpu_tune.so\n");
    node.write("etc/slurm/slurm.conf", "TaskPlugin=task/affinity\nPluginDir=/opt/none:/opt/plugins\n");
    node.write("opt/plugins/gpu_tune.so", "");
    let Some(report) = node.report() else { return };
    assert!(says(&report, "ok", "plugin file", "/opt/plugins/gpu_tune.so", ""), "{report}");
}

#[test]
fn a_file_that_others_can_write_is_refused() {
    let node = Node::ready("doctor-writable");
    let shim = node.0.join("usr/local/lib/gpu-tune/libgpu_tune_preload.so");
    fs::set_permissions(shim, fs::Permissions::from_mode(0o666)).expect("permissions");
    let Some(report) = node.report() else { return };
    assert!(says(&report, "fail", "shim", "", "chmod go-w"), "{report}");
}

#[test]
fn files_that_users_cannot_read_are_told_with_what_comes_of_it() {
    let plugin = "usr/local/lib/gpu-tune/gpu_tune.so";
    let shim = "usr/local/lib/gpu-tune/libgpu_tune_preload.so";
    let mine = "etc/gpu-tune/profiles.d/mine.toml";
    let command = "usr/local/bin/gpu-tune";
    for (path, mode, [state, subject, said, fix]) in [
        (
            plugin,
            0o600,
            ["fail", "plugin file", "by root only: a user's srun goes on without it, or fails at `--gpu-tune`", "a+r"],
        ),
        (shim, 0o600, ["fail", "shim", "by root only: ranks that a user's launcher starts are not bound", "a+r"]),
        (mine, 0o600, ["fail", "profiles", "by root only: a user's srun cannot check or use what it has", "a+r"]),
        (command, 0o700, ["warn", "command", "by root only: steps use it, users cannot", "a+rx"]),
        (command, 0o644, ["fail", "command", "cannot be executed: steps get no snapshot from it", "a+rx"]),
    ] {
        let node = Node::ready("doctor-closed");
        node.write(mine, "inherits = \"h200\"\n");
        fs::set_permissions(node.0.join(path), fs::Permissions::from_mode(mode)).expect("permissions");
        let Some(report) = node.report() else { return };
        assert!(says(&report, state, subject, said, &format!("chmod {fix} /{path}")), "{path}: {report}");
        assert_eq!(report.starts_with("exit 1\n"), state == "fail", "{path}: {report}");
    }
}

#[test]
fn a_required_plugin_that_users_cannot_read_stops_their_srun() {
    let node = Node::ready("doctor-closed-required");
    node.write(STACK, "required /usr/local/lib/gpu-tune/gpu_tune.so\n");
    let plugin = node.0.join("usr/local/lib/gpu-tune/gpu_tune.so");
    fs::set_permissions(plugin, fs::Permissions::from_mode(0o600)).expect("permissions");
    let Some(report) = node.report() else { return };
    assert!(says(&report, "fail", "plugin file", "by root only: a user's srun fails", "chmod a+r"), "{report}");
}

#[test]
fn plugstack_files_that_users_cannot_read_are_told() {
    for (path, mode) in [("etc/slurm/plugstack.conf.d/10-pyxis.conf", "a+r"), ("etc/slurm/plugstack.conf.d", "a+x")] {
        let node = Node::ready("doctor-closed-stack");
        fs::set_permissions(node.0.join(path), fs::Permissions::from_mode(0o700)).expect("permissions");
        let Some(report) = node.report() else { return };
        let said = "plugstack.conf.d/10-pyxis.conf can be read by root only: a user's srun fails";
        assert!(says(&report, "fail", "plugstack.conf", said, &format!("chmod {mode} /{path}")), "{report}");
    }
}

#[test]
fn a_pipe_among_the_files_does_not_hang() {
    let node = Node::ready("doctor-pipe");
    pipe(node.0.join("etc/slurm/plugstack.conf.d/30-pipe.conf"));
    let Some(report) = node.report() else { return };
    assert!(report.starts_with("exit 0\n"), "{report}");
}

#[test]
fn files_of_slurm_that_include_each_other_are_followed_and_end() {
    let node = Node::ready("doctor-slurm-includes");
    node.write("etc/slurm/slurm.conf", "include site/a.conf\n");
    node.write("etc/slurm/site/a.conf", "Include b.conf\ninclude a.conf\ninclude a.conf\n");
    node.write("etc/slurm/site/b.conf", "TaskPlugin=task/cgroup\n");
    let Some(report) = node.report() else { return };
    assert!(report.contains("TaskPlugin        task/cgroup\n"), "{report}");
}

/// srun loads what the file of `-f` leads to, and doctor may be root.
#[test]
fn a_configuration_that_a_user_could_have_named_is_not_used() {
    for (user, mode, used) in
        [("0\t0\t0\t0", 0o644, true), ("1234\t0\t0\t0", 0o644, false), ("0\t0\t0\t0", 0o646, false)]
    {
        let node = Node::ready("doctor-slurmd");
        node.write("opt/slurm.conf", "TaskPlugin=task/cgroup\n");
        fs::set_permissions(node.0.join("opt/slurm.conf"), fs::Permissions::from_mode(mode)).expect("permissions");
        node.write("proc/77/cmdline", "slurmd\0-f\0/opt/slurm.conf\0");
        node.write("proc/77/status", &format!("Uid:\t{user}\n"));
        let Some(report) = node.report() else { return };
        let file = if used { "/opt/slurm.conf" } else { "/etc/slurm/slurm.conf" };
        assert!(report.contains(&format!("ok    slurm.conf        {file}\n")), "{report}");
        assert_eq!(report.contains("no slurmd runs here"), user.starts_with("1234"), "{report}");
    }
}

/// Neither what a default place has nor what srun would find by itself is the answer.
#[test]
fn a_slurm_conf_that_is_named_and_cannot_be_read_is_a_fault_and_no_other_is_looked_at() {
    let Some(topology) = topology("hgx-h100-8gpu.xml") else { return };
    let node = Node::ready("doctor-named-conf");
    let root = node.0.to_string_lossy().into_owned();
    let report =
        told(&gpu_tune(&["doctor", "--topology", &topology, "--root", &root, "--slurm-conf", "/etc/none.conf"]));
    let said = "cannot read `/etc/none.conf`: No such file or directory (os error 2)";
    assert!(says(&report, "fail", "slurm.conf", said, "name one with `--slurm-conf`"), "{report}");
    for line in
        ["skip  plugstack.conf    unknown", "skip  loaded by srun    unknown", "skip  gres.conf         unknown"]
    {
        assert!(report.contains(&format!("{line} without slurm.conf\n")), "{line}: {report}");
    }
    assert!(report.starts_with("exit 1\n") && !report.contains("TaskPlugin"), "{report}");

    let mut command = Command::new(env!("CARGO_BIN_EXE_gpu-tune"));
    command.args(["doctor", "--topology", &topology]).env("SLURM_CONF", "none.conf");
    let from_env = command.output().expect("the program starts");
    let said = "none.conf`: No such file or directory (os error 2)";
    assert!(says(&told(&from_env), "fail", "slurm.conf", said, "correct SLURM_CONF"), "{}", told(&from_env));
}

#[test]
fn a_broken_profile_is_told_with_file_and_line() {
    let node = Node::ready("doctor-profile");
    node.write("etc/gpu-tune/profiles.d/mine.toml", "inherits = \"h200\"\n[env]\nNCCL_DEBUG = 3.5.6\n");
    let Some(report) = node.report() else { return };
    assert!(says(&report, "fail", "profiles", "mine.toml:3", ""), "{report}");
}

#[test]
fn the_json_has_the_same_lines() {
    let Some(topology) = topology("hgx-h100-8gpu.xml") else { return };
    let node = Node::ready("doctor-json");
    node.write("proc/sys/kernel/numa_balancing", "1\n");
    let root: &Path = &node.0;
    let output = gpu_tune(&["doctor", "--json", "--topology", &topology, "--root", &root.to_string_lossy()]);
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let lines = value["lines"].as_array().expect("lines");
    let line = lines.iter().find(|line| line["subject"] == "NUMA balancing").expect("the line");
    assert_eq!((&line["state"], value["schema"].as_u64()), (&"warn".into(), Some(1)));
    assert!(line["fix"].as_str().expect("a fix").contains("sysctl"));
}
