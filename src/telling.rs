//! What the user hears of a step: one table and one warning of a kind for each node, from the task that comes last.
#![forbid(unsafe_code)]

use crate::logging::{user_line, warn_user};
use crate::spank::Handle;
use crate::step::Step;
use crate::step::board::{Board, Record};
use crate::step::own::Own;
use crate::task::select;
use gpu_tune_engine::apply::Outcome;
use gpu_tune_engine::os::Os;
use gpu_tune_engine::os::linux::Linux;
use gpu_tune_engine::plan::{Layout, Share, TaskPlan};
use gpu_tune_engine::spec::CpuPolicy;
use gpu_tune_engine::{Code, IdSet, Notice, report};
use std::collections::BTreeMap;

/// Writes down what became of a task, tells what only this task knows, and if it is the last one tells about all.
/// `layout` is the one that this task found to hold.
pub(crate) fn after(handle: &Handle<'_>, step: &Step, layout: &Layout, local_id: u32, record: Record, own: &[Notice]) {
    let last = step.board.as_ref().is_none_or(|board| board.write(local_id, record));
    // What these say of one task holds for all.
    let of_all = [Code::Env, Code::NoShim, Code::PeersHidden, Code::Rendezvous];
    let own: Vec<&Notice> = own.iter().filter(|notice| last || !of_all.contains(&notice.code)).collect();
    tell(step, own);
    if last {
        tell_step(handle, step, layout);
    }
}

fn tell<'a>(step: &Step, notices: impl IntoIterator<Item = &'a Notice>) {
    for notice in notices {
        match is_detail(step, notice) {
            true if step.verbose => user_line!("note: {}", notice.message),
            true => {}
            false => warn_user(notice),
        }
    }
}

/// What the user asked for himself, or what follows from something that is told anyway: only for those who ask.
fn is_detail(step: &Step, notice: &Notice) -> bool {
    match notice.code {
        Code::PeersHidden | Code::UserBinding => true,
        // A variable whose value comes from the binding, where nothing is bound.
        Code::Env => step.failed.is_some() || step.request.binding.cpu == CpuPolicy::Off,
        _ => false,
    }
}

fn tell_step(handle: &Handle<'_>, step: &Step, layout: &Layout) {
    tell(step, &step.notices);
    tell(step, &step.failed);
    tell(step, &layout.notices);
    let table = step.verbose || step.dry_run;
    // The other tasks' plans are made anew here. Where nothing is told of them, this task has not the time.
    let told = |record: &Record| table || !record.outcome.is_fine();
    let tasks = step.board.as_ref().map(|board| finished(step, layout, board, told)).unwrap_or_default();
    refused(&tasks).iter().for_each(warn_user);
    if table {
        tell_table(handle, step, &tasks);
    }
}

/// The plan of every task whose record is wanted, and what became of it.
fn finished(step: &Step, layout: &Layout, board: &Board, wanted: impl Fn(&Record) -> bool) -> Vec<(TaskPlan, Record)> {
    let records = (0..step.request.tasks).filter_map(|id| board.read(id).map(|record| (id, record)));
    let plan = |(id, record): (u32, Record)| (select(layout, id, &own(record), record.turn), record);
    records.filter(|(_, record)| wanted(record)).map(plan).collect()
}

fn own(record: Record) -> Own {
    match record.own {
        None => Own::All,
        Some(bits) => Own::These((0..u64::BITS as usize).filter(|at| bits >> at & 1 == 1).collect()),
    }
}

/// What the kernel refused, each kind once with all its tasks.
fn refused(tasks: &[(TaskPlan, Record)]) -> Vec<Notice> {
    let mut alike: BTreeMap<(Option<i32>, Option<i32>), (IdSet, Share)> = BTreeMap::new();
    for (plan, record) in tasks.iter().filter(|(_, record)| !record.outcome.is_fine()) {
        let Outcome { affinity, mempolicy } = record.outcome;
        let group = alike.entry((affinity, mempolicy)).or_insert_with(|| (IdSet::new(), plan.share.clone()));
        group.0.insert(plan.local_id);
    }
    let notices = alike.iter().flat_map(|(&(affinity, mempolicy), (ids, share))| {
        let who = if ids.len() == 1 { format!("task {ids}") } else { format!("tasks {ids}") };
        Outcome { affinity, mempolicy }.notices(&who, share)
    });
    notices.collect()
}

fn tell_table(handle: &Handle<'_>, step: &Step, tasks: &[(TaskPlan, Record)]) {
    let changed = if step.dry_run { ", dry run: nothing was changed" } else { "" };
    let node = handle.getenv_text("SLURMD_NODENAME").unwrap_or_default();
    user_line!("node {node}: profile `{}`, CPUs {}{changed}", step.profile, step.request.cpus);
    let mut plans: Vec<TaskPlan> = tasks.iter().map(|(plan, record)| as_it_became(plan, *record)).collect();
    // Before the ranks: the variables were made from the shares that they would have.
    let mask = Linux.get_affinity().unwrap_or_else(|_| step.request.cpus.clone());
    let first = plans.first().map(|plan| step.environment.lines(handle, step, plan, &mask)).unwrap_or_default();
    if !step.launch.binds_ranks() {
        plans.iter_mut().for_each(TaskPlan::leave_ranks_alone);
    }
    report::table(&step.machine, &plans).iter().for_each(|line| user_line!("{line}"));
    first.iter().for_each(|line| user_line!("{line}"));
}

/// The plan less what was not done.
fn as_it_became(plan: &TaskPlan, record: Record) -> TaskPlan {
    let mut plan = plan.clone();
    if record.left_alone || record.outcome.affinity.is_some() {
        plan.share.cpus = None;
    }
    if record.left_alone || record.outcome.mempolicy.is_some() {
        plan.share.memory = None;
    }
    plan
}
