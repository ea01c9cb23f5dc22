//! What the plugin's hooks took, as they say themselves with `GPU_TUNE_TRACE=1`.

use std::collections::BTreeMap;

/// Microseconds of each hook, by `submitting HOOK` for srun's and by `HOOK` for a node's.
pub(crate) type Hooks = BTreeMap<String, Vec<f64>>;

/// Reads the lines of several steps. What a node did before the fork is the same in all its tasks' lines, and is counted for
/// each of them.
pub(crate) fn hooks(outputs: impl Iterator<Item = String>) -> Hooks {
    let mut hooks = Hooks::new();
    for line in outputs.flat_map(|output| output.lines().map(str::to_owned).collect::<Vec<_>>()) {
        let Some((who, times)) = line.split_once("trace: ").and_then(|(_, rest)| rest.split_once(": ")) else {
            continue;
        };
        let place = if who == "submitting" { "submitting " } else { "" };
        for (hook, microseconds) in times.split(", ").filter_map(time) {
            hooks.entry(format!("{place}{hook}")).or_default().push(microseconds);
        }
    }
    assert!(!hooks.is_empty(), "no hook told its time");
    hooks
}

fn time(text: &str) -> Option<(&str, f64)> {
    let mut words = text.split(' ');
    Some((words.next()?, words.next()?.parse().ok()?))
}

/// The sum of two hooks, call by call.
pub(crate) fn sum(hooks: &Hooks, names: [&str; 2]) -> Vec<f64> {
    let [first, second] = names.map(|name| hooks.get(name).cloned().unwrap_or_default());
    first.iter().zip(&second).map(|(first, second)| first + second).collect()
}
