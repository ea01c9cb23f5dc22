//! Locked memory: raised for real as root before the task starts, or refused with one warning.

use crate::node::Node;
use crate::slurm::Setup;

const PROFILE: &str = "inherits = \"h200\"\n\n[limits]\nmemlock = \"unlimited\"\n";

/// A task of a user without privileges.
const WORDS: &str = "-n1 -c2 --gpus-per-node=1 --uid=nobody";

fn add_profile(node: &Node) {
    node.cluster.place.write("etc/profiles.d/locked.toml", PROFILE);
}

#[test]
fn locked_memory_is_raised_beyond_the_hard_limit() {
    let Some(node) = Node::get() else { return };
    add_profile(&node);
    let before = node.srun(&format!("{WORDS} --gpu-tune=off"));
    assert!(before[0].memlock.1 != "unlimited" && !before[0].locked, "nothing to raise here: {before:?}");
    let after = node.srun(&format!("{WORDS} --gpu-tune=locked"));
    assert_eq!(after[0].memlock, ("unlimited".to_owned(), "unlimited".to_owned()));
    assert!(after[0].locked, "{after:?}");
}

#[test]
fn without_the_capability_the_limit_stays_and_the_task_starts() {
    let prefix = ["setpriv", "--bounding-set=-sys_resource", "--inh-caps=-sys_resource"];
    let Some(node) = Node::start(Setup::this_machine().daemon_prefix(&prefix)) else { return };
    add_profile(&node);
    let output = node.output(&format!("{WORDS} --gpu-tune=locked")).fine();
    let task = output.witnesses().remove(0);
    assert!(task.memlock.1 != "unlimited" && !task.locked, "{task:?}");
    assert!(output.stderr.contains("locked memory"), "{}", output.stderr);
}
