//! Which part each task gets, for every number of tasks and GPUs (rules 7, 8, 13 and 14).

use super::super::{Layout, Mode, Own, Request, TaskPlan};
use super::{cpus, shown, whole};
use crate::machine::Machine;
use crate::machine::testing::{hgx, turin};
use crate::spec::CpuPolicy;

fn tasks(machine: &Machine, request: &Request) -> Vec<TaskPlan> {
    let layout = Layout::new(machine, request);
    (0..request.tasks).map(|id| layout.task(id, Own::All)).collect()
}

fn gpus(plans: &[TaskPlan]) -> Vec<Vec<usize>> {
    plans.iter().map(|plan| plan.gpus.clone()).collect()
}

#[test]
fn as_many_tasks_as_gpus_drive_one_each() {
    let plans = tasks(&hgx(), &whole(&hgx()));
    assert_eq!(gpus(&plans), (0..8).map(|gpu| vec![gpu]).collect::<Vec<_>>());
    assert!(plans.iter().all(|plan| plan.ranks.is_empty()));
    assert_eq!(shown(&plans[5].share), "70-83,182-195 @ 1");
}

#[test]
fn fewer_tasks_launch_equal_blocks() {
    let plans = tasks(&hgx(), &Request { tasks: 2, ..whole(&hgx()) });
    assert_eq!(gpus(&plans), [[0, 1, 2, 3], [4, 5, 6, 7]]);
    assert_eq!(shown(&plans[1].share), "56-111,168-223 @ -");
    let ranks: Vec<String> = plans[1].ranks.iter().map(|rank| shown(&rank.share)).collect();
    assert_eq!(ranks, ["56-69,168-181 @ 1", "70-83,182-195 @ 1", "84-97,196-209 @ 1", "98-111,210-223 @ 1"]);
    assert_eq!(
        plans[1].ranks.iter().map(|rank| (rank.local_rank, rank.gpu)).collect::<Vec<_>>(),
        [(0, 4), (1, 5), (2, 6), (3, 7)]
    );
}

#[test]
fn blocks_differ_by_at_most_one_gpu() {
    let plans = tasks(&hgx(), &Request { tasks: 3, ..whole(&hgx()) });
    assert_eq!(gpus(&plans), [vec![0, 1, 2], vec![3, 4, 5], vec![6, 7]]);
}

#[test]
fn a_launcher_that_is_alone_keeps_all_allowed_cpus() {
    let request = Request { tasks: 1, cpus: cpus("0-99"), ..whole(&hgx()) };
    let plans = tasks(&hgx(), &request);
    assert_eq!(shown(&plans[0].share), "0-99 @ -");
    assert_eq!(plans[0].ranks.len(), 8);
}

#[test]
fn a_batch_shell_keeps_what_it_has_and_its_ranks_get_slices() {
    let plans = tasks(&hgx(), &Request { tasks: 1, keep_launcher: true, ..whole(&hgx()) });
    assert_eq!(shown(&plans[0].share), "- @ -");
    assert_eq!(shown(&plans[0].ranks[7].share), "98-111,210-223 @ 1");
}

#[test]
fn a_launcher_of_one_gpu_is_a_launcher_if_told_so() {
    let request = Request { tasks: 1, gpus: vec![3], mode: Mode::Launcher, ..whole(&turin()) };
    let plans = tasks(&turin(), &request);
    assert_eq!(shown(&plans[0].share), "0-255 @ -");
    assert_eq!(plans[0].ranks.len(), 1);
}

#[test]
fn one_process_that_drives_several_gpus_gets_all_their_cores_and_nodes() {
    let request = Request { tasks: 2, mode: Mode::Rank, ..whole(&turin()) };
    let plans = tasks(&turin(), &request);
    assert_eq!(shown(&plans[0].share), "0-63,128-191 @ 0-3 first 1");
    assert!(plans[0].ranks.is_empty());
}

#[test]
fn two_tasks_per_gpu_split_its_cores() {
    let request = Request { tasks: 8, gpus: vec![0, 1, 4, 5], ..whole(&hgx()) };
    let plans = tasks(&hgx(), &request);
    assert_eq!(gpus(&plans), [[0], [1], [4], [5], [0], [1], [4], [5]]);
    assert_eq!(shown(&plans[0].share), "0-13,112-125 @ 0");
    assert_eq!(shown(&plans[4].share), "14-27,126-139 @ 0");
}

#[test]
fn a_task_with_gpus_of_its_own_gets_their_slices() {
    let layout = Layout::new(&hgx(), &whole(&hgx()));
    let plan = layout.task(3, Own::These { slices: &[6], turn: 0 });
    assert_eq!((plan.gpus.as_slice(), shown(&plan.share).as_str()), (&[6][..], "84-97,196-209 @ 1"));
    let none = layout.task(3, Own::These { slices: &[99], turn: 7 });
    assert_eq!(none, TaskPlan { local_id: 3, ..TaskPlan::default() });
}

#[test]
fn two_mig_devices_of_one_gpu_divide_its_cores() {
    let request = Request { tasks: 2, gpus: vec![2, 2], ..whole(&hgx()) };
    let plans = tasks(&hgx(), &request);
    assert_eq!(gpus(&plans), [[2], [2]]);
    assert_eq!(shown(&plans[0].share), "0-27,112-139 @ 0");
    assert_eq!(shown(&plans[1].share), "28-55,140-167 @ 0");
}

#[test]
fn without_cpu_binding_no_mask_is_changed() {
    let mut request = Request { tasks: 1, ..whole(&hgx()) };
    request.binding.cpu = CpuPolicy::Off;
    let plans = tasks(&hgx(), &request);
    assert_eq!(shown(&plans[0].share), "- @ -");
    assert_eq!(shown(&plans[0].ranks[0].share), "- @ 0");
}

#[test]
fn a_step_without_gpus_is_left_alone_quietly() {
    let request = Request { tasks: 4, gpus: vec![], ..whole(&hgx()) };
    let layout = Layout::new(&hgx(), &request);
    assert_eq!((layout.slices.len(), layout.notices.len()), (0, 0));
    assert_eq!(layout.task(2, Own::All), TaskPlan { local_id: 2, ..TaskPlan::default() });
}

#[test]
fn ranks_follow_the_order_of_the_visible_devices() {
    let request = Request { tasks: 1, ..whole(&hgx()) };
    let layout = Layout::new(&hgx(), &request);
    let (own, _) = super::super::visible::resolve("3,6,5,4,0,7,1,2", &hgx(), &request.gpus);
    let plan = layout.task(0, Own::These { slices: &own, turn: 0 });
    assert_eq!(plan.ranks.iter().map(|rank| rank.gpu).collect::<Vec<_>>(), [3, 6, 5, 4, 0, 7, 1, 2]);
    assert_eq!(shown(&plan.ranks[0].share), "42-55,154-167 @ 0");
    assert_eq!(shown(&plan.ranks[1].share), "84-97,196-209 @ 1");
}

#[test]
fn tasks_that_each_count_their_only_gpu_as_0_are_placed_by_what_they_may_open() {
    let request = Request { tasks: 4, gpus: vec![4, 5, 6, 7], ..whole(&hgx()) };
    let layout = Layout::new(&hgx(), &request);
    for at in 0..4 {
        let plan = layout.task(u32::try_from(at).unwrap(), Own::These { slices: &[at], turn: 0 });
        assert_eq!(plan.gpus, [4 + at]);
        assert_eq!(plan.share.memory.unwrap().nodes, cpus("1"));
    }
}
