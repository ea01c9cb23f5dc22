//! The step that the options describe, as Slurm would give it.

use super::Args;
use crate::{CliError, words};
use gpu_tune_engine::plan::{Layout, Own, Request, TaskPlan, visible};
use gpu_tune_engine::profile::Resolved;
use gpu_tune_engine::{Code, CpuSet, Machine, NodeSet, Notice};

/// A step.
#[derive(Debug)]
pub(super) struct Step {
    /// For the planner.
    pub(super) request: Request,
    /// With `--gpus-per-task`, how many GPUs each task has of its own.
    each: Option<usize>,
    /// What was odd about `--visible`.
    pub(super) notices: Vec<Notice>,
}

/// Puts the step together. What leaves nothing to plan for is an error.
pub(super) fn of(args: &Args, machine: &Machine) -> Result<Step, CliError> {
    let (mut gpus, mut notices) = visible_gpus(args, machine)?;
    notices.extend(absent(args, machine));
    let each = args.gpus_per_task.map(to_usize);
    let tasks = args.tasks.unwrap_or_else(|| to_u32(gpus.len() / each.unwrap_or(1)).max(1));
    if let Some(each) = each {
        let needed = each.saturating_mul(to_usize(tasks));
        if needed > gpus.len() {
            return Err(too_few(tasks, each, gpus.len()));
        }
        // The others belong to no task, so Slurm would not have given them to the step.
        gpus.truncate(needed);
    }
    let request = Request {
        tasks,
        mode: args.mode.into(),
        gpus,
        cpus: allowed(args.cpus.as_ref(), machine)?,
        mems: args.mems.as_ref().map(|asked| nodes(asked, machine)).transpose()?,
        ..Request::default()
    };
    Ok(Step { request, each, notices })
}

impl Step {
    /// Takes over what the profile says about binding.
    pub(super) fn wish(&mut self, resolved: &Resolved) {
        self.request.binding = resolved.binding.clone();
        self.request.gpu_numa = resolved.gpu_numa.clone();
    }

    /// Every task's part.
    pub(super) fn tasks(&self, layout: &Layout) -> Vec<TaskPlan> {
        (0..self.request.tasks).map(|id| self.task(layout, id)).collect()
    }

    fn task(&self, layout: &Layout, id: u32) -> TaskPlan {
        let Some(each) = self.each else { return layout.task(id, Own::All) };
        let first = to_usize(id) * each;
        let slices: Vec<usize> = (first..first + each).collect();
        layout.task(id, Own::These { slices: &slices, turn: 0 })
    }
}

/// What `--visible` names, as indices into the machine's GPUs.
fn visible_gpus(args: &Args, machine: &Machine) -> Result<(Vec<usize>, Vec<Notice>), CliError> {
    let all: Vec<usize> = (0..machine.gpus.len()).collect();
    if all.is_empty() {
        return Err(CliError::nothing("the machine has no GPU, so there is nothing to plan")
            .with_help("`gpu-tune topo` shows what was found".to_owned()));
    }
    let Some(list) = &args.visible else { return Ok((all, Vec::new())) };
    let (positions, notices) = visible::resolve(list, machine, &all);
    if positions.is_empty() {
        return Err(CliError::nothing("`--visible` leaves no GPU, so there is nothing to plan"));
    }
    Ok((positions, notices))
}

fn allowed(asked: Option<&CpuSet>, machine: &Machine) -> Result<CpuSet, CliError> {
    let cpus = asked.map_or_else(|| machine.cpus.clone(), |asked| asked & &machine.cpus);
    match asked {
        Some(asked) if asked.is_empty() => Err(CliError::nothing("`--cpus` names no CPU, so there is nothing to plan")),
        Some(asked) if cpus.is_empty() => {
            let there = &machine.cpus;
            Err(CliError::nothing(format!("none of the CPUs {asked} is online on this machine, which has {there}")))
        }
        _ => Ok(cpus),
    }
}

/// What `--cpus` and `--mems` name beside what is there.
fn absent(args: &Args, machine: &Machine) -> impl Iterator<Item = Notice> {
    let cpus = args.cpus.as_ref().map(|asked| ("CPUs", asked - &machine.cpus));
    let mems = args.mems.as_ref().map(|asked| ("NUMA nodes", asked - &nodes_of(machine)));
    let odd = cpus.into_iter().chain(mems).filter(|(_, absent)| !absent.is_empty());
    odd.map(|(what, absent)| Notice::new(Code::NoMachine, format!("the machine has no {what} {absent}: passed over")))
}

fn nodes_of(machine: &Machine) -> NodeSet {
    machine.numa.iter().map(|node| node.id).collect()
}

/// NUMA nodes that are not there are passed over, as CPUs are.
fn nodes(asked: &NodeSet, machine: &Machine) -> Result<NodeSet, CliError> {
    let there = nodes_of(machine);
    let nodes = asked & &there;
    match (asked.is_empty(), nodes.is_empty()) {
        (true, _) => Err(CliError::nothing("`--mems` names no NUMA node, so no memory could be had")),
        (_, true) => {
            Err(CliError::nothing(format!("none of the NUMA nodes {asked} is on this machine, which has {there}")))
        }
        _ => Ok(nodes),
    }
}

fn too_few(tasks: u32, each: usize, there: usize) -> CliError {
    let (tasks, gpus) = (words::count(to_usize(tasks), "task"), words::count(each, "GPU"));
    CliError::nothing(format!("{tasks} with {gpus} each need more than the {there} visible"))
        .with_help("without `--gpus-per-task` the tasks share the GPUs".to_owned())
}

/// The target has at least 32 bits.
fn to_usize(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

fn to_u32(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
