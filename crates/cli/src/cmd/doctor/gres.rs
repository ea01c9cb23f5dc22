//! gres.conf: does Slurm know which cores are near which GPU?
//!
//! `Cores=` counts cores package by package from 0, whatever Linux calls them (man gres.conf), which is the order of
//! [`gpu_tune_engine::Machine::cores`].

use super::Node;
use super::line::Line;
use crate::words;
use gpu_tune_engine::machine::Gpu;
use gpu_tune_engine::text::number;
use gpu_tune_engine::{CpuSet, IdSet, Machine};

const SUBJECT: &str = "gres.conf";

/// A `Name=gpu` line.
#[derive(Debug, Default, PartialEq, Eq)]
struct Gres {
    /// Minor numbers of the device files.
    minors: Vec<u32>,
    cores: Option<IdSet>,
}

/// One line for each GPU that Slurm has wrong, or a single one that all is fine.
pub(super) fn check(node: &Node) -> Vec<Line> {
    let Ok(conf) = &node.slurm else { return vec![Line::skip(SUBJECT, "unknown without slurm.conf")] };
    let path = conf.beside("gres.conf");
    let Some(text) = node.host.read(&path) else {
        return vec![Line::skip(SUBJECT, format!("{} is not there", path.display()))];
    };
    let Some(machine) = node.machine().filter(|machine| !machine.gpus.is_empty()) else {
        return vec![Line::skip(SUBJECT, "no GPU is known here")];
    };
    if text.lines().any(|line| word(line, "AutoDetect").is_some_and(|how| !how.eq_ignore_ascii_case("off"))) {
        return vec![Line::ok(SUBJECT, "Slurm detects the GPUs and their cores itself")];
    }
    let lines: Vec<Line> = entries(&text, &node.host.name()).iter().flat_map(|gres| compare(gres, machine)).collect();
    if lines.is_empty() {
        return vec![Line::ok(SUBJECT, "every GPU has cores near to it")];
    }
    lines
}

/// The GPU lines for this node.
fn entries(text: &str, host: &str) -> Vec<Gres> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let gpus = lines.filter(|line| word(line, "Name").is_some_and(|name| name.eq_ignore_ascii_case("gpu")));
    let here = gpus.filter(|line| word(line, "NodeName").is_none_or(|nodes| covers(nodes, host)));
    here.map(|line| Gres {
        minors: word(line, "File").map(minors).unwrap_or_default(),
        cores: word(line, "Cores").and_then(|cores| cores.parse().ok()),
    })
    .collect()
}

/// The value of `NAME=value` among the words of a line.
fn word<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let pairs = line.split_whitespace().filter_map(|word| word.split_once('='));
    pairs.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
}

/// Whether a node list such as `gpu[01-04],login1` has this host. Brackets hold numbers, with leading zeros or without.
fn covers(list: &str, host: &str) -> bool {
    let mut depth = 0_usize;
    let parts = list.split(|c| {
        depth = match c {
            '[' => depth + 1,
            ']' => depth.saturating_sub(1),
            _ => depth,
        };
        c == ',' && depth == 0
    });
    parts.into_iter().any(|part| match part.split_once('[') {
        None => part == host,
        Some((start, rest)) => {
            let (numbers, end) = rest.split_once(']').unwrap_or((rest, ""));
            let middle = host.strip_prefix(start).and_then(|rest| rest.strip_suffix(end));
            middle.and_then(number).is_some_and(|number| numbers.parse::<IdSet>().is_ok_and(|set| set.contains(number)))
        }
    })
}

/// `/dev/nvidia[0-3]` → 0 to 3.
fn minors(file: &str) -> Vec<u32> {
    let numbers = file.strip_prefix("/dev/nvidia").unwrap_or_default();
    let numbers = numbers.trim_start_matches('[').trim_end_matches(']');
    numbers.parse::<IdSet>().map(|set| set.iter().collect()).unwrap_or_default()
}

fn compare(gres: &Gres, machine: &Machine) -> Vec<Line> {
    let device = |minor: &u32| {
        let gpu = machine.gpus.iter().find(|gpu| gpu.minor == Some(*minor))?;
        let near = near_cores(machine, gpu)?;
        wrong(machine, *minor, gpu, gres.cores.as_ref(), &near)
    };
    gres.minors.iter().filter_map(device).collect()
}

/// The numbers of the cores near a GPU, as Slurm counts them.
fn near_cores(machine: &Machine, gpu: &Gpu) -> Option<IdSet> {
    let near = &gpu.locality.as_ref()?.cpus;
    let cores = machine.cores.iter().zip(0..).filter(|(core, _)| !core.pus.is_disjoint(near));
    Some(cores.map(|(_, number)| number).collect::<IdSet>()).filter(|cores| !cores.is_empty())
}

fn wrong(machine: &Machine, minor: u32, gpu: &Gpu, cores: Option<&IdSet>, near: &IdSet) -> Option<Line> {
    let what = format!("/dev/nvidia{minor} ({})", gpu.pci);
    let fix = format!("`Cores={near}` for /dev/nvidia{minor}, or `AutoDetect=nvml`");
    let cpus: CpuSet = machine.cpus_of_cores(near);
    match cores {
        None => Some(Line::warn(SUBJECT, format!("{what} has no `Cores=`: Slurm cannot place jobs near it")).fix(fix)),
        Some(cores) if cores.is_subset(near) => None,
        Some(cores) if cores.is_disjoint(near) => {
            let (cores, cpus) = (words::list(cores), words::shortened(&cpus, 40));
            Some(Line::fail(SUBJECT, format!("cores {cores} of {what} are far from it; near are CPUs {cpus}")).fix(fix))
        }
        Some(cores) => {
            Some(Line::warn(SUBJECT, format!("some of the cores {cores} of {what} are far from it")).fix(fix))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;
    use gpu_tune_engine::machine::testing;

    fn said(text: &str) -> Vec<(State, String)> {
        let mut machine = testing::hgx();
        (0..).zip(&mut machine.gpus).for_each(|(minor, gpu)| gpu.minor = Some(minor));
        let lines = entries(text, "n03").iter().flat_map(|gres| compare(gres, &machine)).collect::<Vec<_>>();
        lines.into_iter().map(|line| (line.state, line.text)).collect()
    }

    #[test]
    fn cores_next_to_their_gpus_are_fine() {
        assert_eq!(
            said("Name=gpu File=/dev/nvidia[0-3] Cores=0-55\nName=gpu File=/dev/nvidia[4-7] Cores=56-111\n"),
            []
        );
    }

    #[test]
    fn swapped_sockets_are_told_for_each_gpu() {
        let lines = said("NodeName=n[01-08] Name=gpu Type=h100 File=/dev/nvidia0 Cores=56-111\n");
        let text = "cores 56-111 of /dev/nvidia0 (0000:10:00.0) are far from it; near are CPUs 0-55,112-167";
        assert_eq!(lines, [(State::Fail, text.to_owned())]);
    }

    #[test]
    fn cores_of_both_sockets_and_no_cores_are_worth_a_look() {
        let lines = said("Name=gpu File=/dev/nvidia0 Cores=0-111\nName=gpu File=/dev/nvidia1\n");
        assert_eq!(lines.iter().map(|line| line.0).collect::<Vec<_>>(), [State::Warn, State::Warn]);
    }

    #[test]
    fn lines_of_other_nodes_and_other_resources_do_not_count() {
        assert_eq!(said("NodeName=n[1-2,4] Name=gpu File=/dev/nvidia0 Cores=56-111\nName=nic File=/dev/nvidia0\n"), []);
    }
}
