//! Which cores and nodes each GPU's slice has (rules 1, 3, 5, 6, 7, 9, 10 and 12).

use super::super::{Binding, Layout, Request, Reserve};
use super::{check, cpus, slices, whole};
use crate::Code;
use crate::machine::testing::{Shape, dgx_a100, gh200_x4, hgx, turin, with_gpus};
use crate::machine::{Machine, NumaNode, Vendor};
use crate::spec::{CpuPolicy, MemPolicy, Smt};

fn binding(cpu: CpuPolicy) -> Binding {
    Binding { cpu, ..Binding::default() }
}

#[test]
fn gpus_of_an_nps4_machine_get_their_own_node_and_a_fair_share_of_the_gpuless_ones() {
    let expect = [
        "0-31,128-159 @ 0-1 first 1",
        "32-63,160-191 @ 2-3 first 2",
        "64-79,96-111,192-207,224-239 @ 4,6 first 6",
        "80-95,112-127,208-223,240-255 @ 5,7 first 7",
    ];
    check(&turin(), &whole(&turin()), &expect, &[]);
}

#[test]
fn numa_binding_gives_each_rank_the_node_of_its_gpu() {
    let request = Request { binding: binding(CpuPolicy::Numa), ..whole(&turin()) };
    let expect = ["16-31,144-159 @ 1", "32-47,160-175 @ 2", "96-111,224-239 @ 6", "112-127,240-255 @ 7"];
    check(&turin(), &request, &expect, &[]);
}

#[test]
fn socket_binding_gives_each_rank_the_package_of_its_gpu() {
    let request = Request { binding: binding(CpuPolicy::Socket), ..whole(&turin()) };
    let expect = [
        "0-63,128-191 @ 0-3 first 1",
        "0-63,128-191 @ 0-3 first 2",
        "64-127,192-255 @ 4-7 first 6",
        "64-127,192-255 @ 4-7 first 7",
    ];
    check(&turin(), &request, &expect, &[]);
}

/// Two nodes of four cores; GPUs 0 and 1 are each below a cache of node 0, GPU 2 below one of node 1.
fn below_caches() -> Machine {
    let mut machine = with_gpus(Shape { packages: 1, nodes: 2, cores: 4, smt: 1 }.machine(), &[&[0], &[0], &[1]]);
    for (gpu, near) in machine.gpus.iter_mut().zip(["0-1", "2-3", "4-5"]) {
        gpu.locality.as_mut().unwrap().cpus = cpus(near);
    }
    machine
}

#[test]
fn a_gpu_below_a_cache_gets_the_cores_below_it() {
    let layout = Layout::new(&below_caches(), &Request { cpus: cpus("0-5"), ..whole(&below_caches()) });
    assert_eq!(slices(&layout), ["0-1 @ 0", "2-3 @ 0", "4-5 @ 1"]);
}

#[test]
fn a_gpu_whose_cache_is_not_the_steps_is_near_to_the_rest_of_its_node() {
    let request = Request { cpus: cpus("0-1,4-7"), ..whole(&below_caches()) };
    check(&below_caches(), &request, &["0,6 @ 0-1 first 0", "1,7 @ 0-1 first 0", "4-5 @ 1"], &[]);
    let elsewhere = Request { cpus: cpus("6-7"), gpus: vec![1], tasks: 1, ..Request::default() };
    let layout = check(&below_caches(), &elsewhere, &["6-7 @ 1"], &[Code::GpuRemote]);
    assert_eq!(
        layout.notices[0].message,
        "GPU 0000:11:00.0 on NUMA node 0 is far from the step's CPUs 6-7 (NUMA node 1): every host-to-GPU copy crosses a link \
         between nodes"
    );
}

#[test]
fn numa_binding_gives_the_whole_node_to_a_gpu_below_a_cache_too() {
    let request = Request { binding: binding(CpuPolicy::Numa), ..whole(&below_caches()) };
    check(&below_caches(), &request, &["0-3 @ 0", "0-3 @ 0", "4-7 @ 1"], &[]);
}

#[test]
fn gpu_order_that_is_not_numa_order_is_kept() {
    let request = Request { binding: binding(CpuPolicy::Numa), ..whole(&dgx_a100()) };
    let layout = Layout::new(&dgx_a100(), &request);
    let nodes: Vec<u32> = layout.slices.iter().map(|slice| slice.whole.memory.as_ref().unwrap().first).collect();
    assert_eq!(nodes, [3, 3, 1, 1, 7, 7, 5, 5]);
}

#[test]
fn two_gpus_on_one_node_of_four_share_that_node_and_its_gpuless_neighbour() {
    let layout = Layout::new(&dgx_a100(), &whole(&dgx_a100()));
    let expect = [
        "32-39,48-55,160-167,176-183 @ 2-3 first 3",
        "40-47,56-63,168-175,184-191 @ 2-3 first 3",
        "0-7,16-23,128-135,144-151 @ 0-1 first 1",
        "8-15,24-31,136-143,152-159 @ 0-1 first 1",
    ];
    assert_eq!(slices(&layout)[..4], expect);
}

#[test]
fn per_socket_locality_keeps_each_rank_in_its_socket() {
    let machine = with_gpus(
        Shape { packages: 2, nodes: 4, cores: 16, smt: 2 }.machine(),
        &[&[0, 1, 2, 3], &[0, 1, 2, 3], &[4, 5, 6, 7], &[4, 5, 6, 7]],
    );
    let expect = [
        "0-31,128-159 @ 0-1 first 0",
        "32-63,160-191 @ 2-3 first 2",
        "64-95,192-223 @ 4-5 first 4",
        "96-127,224-255 @ 6-7 first 6",
    ];
    check(&machine, &whole(&machine), &expect, &[]);
}

#[test]
fn a_gpu_that_knows_only_its_package_leaves_the_node_of_the_other_to_it() {
    let shape = Shape { packages: 2, nodes: 4, cores: 4, smt: 1 };
    let machine = with_gpus(shape.machine(), &[&[1], &[0, 1, 2, 3]]);
    check(&machine, &whole(&machine), &["0-7 @ 0-1 first 1", "8-15 @ 2-3 first 2"], &[]);
}

#[test]
fn without_any_locality_allowed_cpus_are_divided_evenly_and_memory_left_alone() {
    let nobody_knows: [&[u32]; 4] = [&[]; 4];
    let below_the_whole_machine: [&[u32]; 4] = [&[0, 1]; 4];
    for near in [nobody_knows, below_the_whole_machine] {
        let machine = with_gpus(Shape { packages: 2, nodes: 1, cores: 8, smt: 1 }.machine(), &near);
        check(&machine, &whole(&machine), &["0-3 @ -", "4-7 @ -", "8-11 @ -", "12-15 @ -"], &[Code::NoLocality]);
    }
}

#[test]
fn the_admins_map_says_what_firmware_does_not() {
    let machine = with_gpus(Shape { packages: 2, nodes: 1, cores: 4, smt: 1 }.machine(), &[&[], &[0]]);
    let map = machine.gpus.iter().zip([1, 1]).map(|(gpu, node)| (gpu.pci, node)).collect();
    let request = Request { gpu_numa: map, ..whole(&machine) };
    check(&machine, &request, &["4-5 @ 1", "6-7 @ 1"], &[]);
}

#[test]
fn a_map_to_a_node_that_is_not_there_is_passed_over_and_told() {
    let machine = with_gpus(Shape { packages: 2, nodes: 1, cores: 4, smt: 1 }.machine(), &[&[1]]);
    let request = Request { gpu_numa: [(machine.gpus[0].pci, 9)].into(), ..whole(&machine) };
    check(&machine, &request, &["4-7 @ 1"], &[Code::Profile]);
}

#[test]
fn on_a_machine_with_one_node_unknown_means_that_node_and_nobody_is_warned() {
    let machine = with_gpus(Shape { packages: 1, nodes: 1, cores: 8, smt: 1 }.machine(), &[&[], &[]]);
    check(&machine, &whole(&machine), &["0-3 @ 0", "4-7 @ 0"], &[]);
}

#[test]
fn gpu_memory_nodes_are_never_named_and_each_gh200_gets_its_72_cores() {
    let expect = ["0-71 @ 0", "72-143 @ 1", "144-215 @ 2", "216-287 @ 3"];
    check(&gh200_x4(), &whole(&gh200_x4()), &expect, &[]);
}

#[test]
fn gpus_far_from_all_allowed_cpus_keep_a_fair_share_and_are_named() {
    let request = Request { cpus: cpus("0-15"), ..whole(&hgx()) };
    let expect = ["0-1 @ 0", "2-3 @ 0", "4-5 @ 0", "6-7 @ 0", "8-9 @ 0", "10-11 @ 0", "12-13 @ 0", "14-15 @ 0"];
    let layout = check(&hgx(), &request, &expect, &[Code::GpuRemote]);
    let notice = &layout.notices[0];
    assert_eq!(
        notice.message,
        "GPUs 0000:14:00.0,0000:15:00.0,0000:16:00.0,0000:17:00.0 on NUMA node 1 are far from the step's CPUs 0-15 (NUMA node 0): \
         every host-to-GPU copy crosses a link between nodes"
    );
    assert!(notice.help.as_ref().unwrap().contains("--gres-flags=enforce-binding"));
    assert_eq!(layout.slices.iter().map(|slice| slice.remote).collect::<Vec<_>>(), [[false; 4], [true; 4]].concat());
}

#[test]
fn numa_and_socket_binding_survive_a_step_on_one_of_two_nodes() {
    for policy in [CpuPolicy::Numa, CpuPolicy::Socket] {
        let request = Request { cpus: cpus("0-55"), binding: binding(policy), ..whole(&hgx()) };
        check(&hgx(), &request, &["0-55 @ 0"; 8], &[Code::GpuRemote]);
    }
}

#[test]
fn eighteen_cores_for_four_gpus_are_5_5_4_4() {
    let machine = with_gpus(Shape { packages: 1, nodes: 1, cores: 18, smt: 1 }.machine(), &[&[0][..]; 4]);
    check(&machine, &whole(&machine), &["0-4 @ 0", "5-9 @ 0", "10-13 @ 0", "14-17 @ 0"], &[]);
}

#[test]
fn three_cores_for_four_gpus_overlap_with_a_warning() {
    let machine = with_gpus(Shape { packages: 1, nodes: 1, cores: 3, smt: 1 }.machine(), &[&[0][..]; 4]);
    check(&machine, &whole(&machine), &["0-2 @ 0"; 4], &[Code::Overlap]);
}

#[test]
fn siblings_are_read_from_the_machine_wherever_they_are() {
    let mut adjacent = with_gpus(Shape { packages: 1, nodes: 1, cores: 4, smt: 2 }.machine(), &[&[0][..]; 2]);
    check(&adjacent, &whole(&adjacent), &["0-1,4-5 @ 0", "2-3,6-7 @ 0"], &[]);
    for (core, first) in adjacent.cores.iter_mut().zip([0, 2, 4, 6]) {
        core.pus = [first, first + 1].into_iter().collect();
    }
    check(&adjacent, &whole(&adjacent), &["0-3 @ 0", "4-7 @ 0"], &[]);
}

#[test]
fn one_thread_per_core_is_the_first_allowed_one() {
    let request = Request {
        cpus: cpus("0,2,4-7"),
        binding: Binding { smt: Smt::One, ..Binding::default() },
        ..whole(&with_gpus(Shape { packages: 1, nodes: 1, cores: 4, smt: 2 }.machine(), &[&[0][..]; 2]))
    };
    let machine = with_gpus(Shape { packages: 1, nodes: 1, cores: 4, smt: 2 }.machine(), &[&[0][..]; 2]);
    check(&machine, &request, &["0,5 @ 0", "2,7 @ 0"], &[]);
}

#[test]
fn memory_may_be_insisted_on_or_left_alone() {
    let request = |mem| Request { binding: Binding { mem, ..binding(CpuPolicy::Numa) }, ..whole(&turin()) };
    assert_eq!(slices(&Layout::new(&turin(), &request(MemPolicy::Bind)))[0], "16-31,144-159 @ 1!");
    assert_eq!(slices(&Layout::new(&turin(), &request(MemPolicy::Off)))[0], "16-31,144-159 @ -");
}

#[test]
fn memory_without_cpu_binding_is_the_gpus_own_node() {
    let request = Request { binding: binding(CpuPolicy::Off), ..whole(&hgx()) };
    check(&hgx(), &request, &["- @ 0", "- @ 0", "- @ 0", "- @ 0", "- @ 1", "- @ 1", "- @ 1", "- @ 1"], &[]);
}

#[test]
fn nodes_that_the_step_may_not_use_are_not_named() {
    let request = Request { mems: Some(cpus("0-3")), ..whole(&turin()) };
    let layout = Layout::new(&turin(), &request);
    assert_eq!(slices(&layout)[1..3], ["32-63,160-191 @ 2-3 first 2", "64-79,96-111,192-207,224-239 @ -"]);
}

#[test]
fn memory_that_the_step_may_not_have_is_told_with_the_nodes_and_gpus() {
    let one = Request { mems: Some(cpus("0")), ..whole(&hgx()) };
    let layout = Layout::new(&hgx(), &one);
    let told: Vec<_> = layout.notices.iter().map(|notice| (notice.code, notice.message.as_str())).collect();
    let gpus = hgx().gpus[4..].iter().map(|gpu| gpu.pci.to_string()).collect::<Vec<_>>().join(",");
    let message = format!(
        "the step may not have memory of NUMA node 1, where the CPUs for GPUs {gpus} are: that memory is not asked for"
    );
    assert_eq!(told, [(Code::NoMemory, message.as_str())]);
    let both = Request { mems: Some(cpus("0-1")), ..whole(&hgx()) };
    assert_eq!(Layout::new(&hgx(), &both).notices, []);
}

#[test]
fn a_single_cpu_that_the_reservation_leaves_is_the_profiles_fault() {
    let reserve = Reserve::Cpus(cpus("0"));
    let binding = Binding { reserve, ..Binding::default() };
    let layout = Layout::new(&hgx(), &Request { cpus: cpus("0-1"), binding, ..whole(&hgx()) });
    assert_eq!(layout.notices[0].message, "8 ranks have a single CPU 1, as CPUs 0 are reserved: nothing is bound");
    assert!(layout.notices[0].help.as_ref().unwrap().contains("shorten `reserve`"));
}

#[test]
fn a_single_cpu_for_several_ranks_is_told_once_and_nothing_is_changed() {
    let layout = check(&hgx(), &Request { cpus: cpus("3"), ..whole(&hgx()) }, &["- @ -"; 8], &[Code::OneCpu]);
    assert_eq!(layout.notices[0].message, "8 ranks have a single CPU 3: nothing is bound");
    check(&hgx(), &Request { cpus: cpus("3,115"), ..whole(&hgx()) }, &["- @ -"; 8], &[Code::OneCpu]);
    let alone = Request { cpus: cpus("3"), gpus: vec![0], tasks: 1, ..Request::default() };
    check(&hgx(), &alone, &["3 @ 0"], &[]);
}

#[test]
fn cpus_that_the_machine_does_not_have_are_never_bound() {
    check(&hgx(), &Request { cpus: cpus("300-310"), ..whole(&hgx()) }, &["- @ -"; 8], &[Code::NoMachine]);
    check(&hgx(), &Request { cpus: cpus(""), ..whole(&hgx()) }, &["- @ -"; 8], &[Code::NoMachine]);
    let partly = Request { cpus: cpus("0-1,300-310"), gpus: vec![0], tasks: 1, ..Request::default() };
    check(&hgx(), &partly, &["0-1 @ 0"], &[]);
}

#[test]
fn reserved_cpus_are_nobodys() {
    let reserve = |reserve| Request { binding: Binding { reserve, ..Binding::default() }, ..whole(&hgx()) };
    let layout = Layout::new(&hgx(), &reserve(Reserve::FirstCorePerNuma));
    assert_eq!(slices(&layout)[0], "1-14,113-126 @ 0");
    assert_eq!(slices(&layout)[4], "57-70,169-182 @ 1");
    let layout = Layout::new(&hgx(), &reserve(Reserve::Cpus(cpus("0-7,112-119,56"))));
    assert_eq!(slices(&layout)[0], "8-19,120-131 @ 0");
    assert_eq!(slices(&layout)[4], "57-69,168-181 @ 1");
}

#[test]
fn a_reservation_that_would_leave_nothing_is_not_kept() {
    let binding = Binding { reserve: Reserve::Cpus(cpus("0-7")), ..Binding::default() };
    let request = Request { binding, cpus: cpus("2-5"), gpus: vec![0, 1], tasks: 2, ..Request::default() };
    check(&hgx(), &request, &["2-3 @ 0", "4-5 @ 0"], &[Code::ReserveIgnored]);
}

#[test]
fn priority_cores_only_and_an_equal_number_for_every_rank() {
    let mut machine = with_gpus(Shape { packages: 2, nodes: 1, cores: 8, smt: 1 }.machine(), &[&[0], &[0], &[1], &[1]]);
    for (at, core) in machine.cores.iter_mut().enumerate() {
        core.highest_perf = Some(if [0, 2, 4, 6, 7, 8, 10, 12, 14].contains(&at) { 46 } else { 39 });
    }
    let request = Request { binding: Binding { prefer_priority: true, ..Binding::default() }, ..whole(&machine) };
    check(&machine, &request, &["0,2 @ 0", "6-7 @ 0", "8,10 @ 1", "12,14 @ 1"], &[]);
}

#[test]
fn too_few_priority_cores_are_told_and_all_cores_used() {
    let mut machine = with_gpus(Shape { packages: 2, nodes: 1, cores: 4, smt: 1 }.machine(), &[&[0], &[0], &[1], &[1]]);
    for (at, core) in machine.cores.iter_mut().enumerate() {
        core.highest_perf = Some(if at < 3 { 46 } else { 39 });
    }
    let request = Request { binding: Binding { prefer_priority: true, ..Binding::default() }, ..whole(&machine) };
    check(&machine, &request, &["0-1 @ 0", "2-3 @ 0", "4-5 @ 1", "6-7 @ 1"], &[Code::PriorityCores]);
}

#[test]
fn a_machine_without_priority_cores_is_planned_as_ever() {
    let mut machine = hgx();
    let request = Request { binding: Binding { prefer_priority: true, ..Binding::default() }, ..whole(&machine) };
    let plain = slices(&Layout::new(&machine, &whole(&machine)));
    assert_eq!(slices(&Layout::new(&machine, &request)), plain);
    machine.cores.iter_mut().for_each(|core| core.highest_perf = Some(40));
    check(&machine, &request, &plain.iter().map(String::as_str).collect::<Vec<_>>(), &[]);
}

#[test]
fn only_allowed_cpus_of_the_near_node_are_given_in_a_partial_allocation() {
    let request = Request { cpus: cpus("4-9,60-63,116-121,172-175"), gpus: vec![1, 4], tasks: 2, ..Request::default() };
    check(&hgx(), &request, &["4-9,116-121 @ 0", "60-63,172-175 @ 1"], &[]);
    for policy in [CpuPolicy::Numa, CpuPolicy::Socket] {
        let request = Request { binding: binding(policy), ..request.clone() };
        check(&hgx(), &request, &["4-9,116-121 @ 0", "60-63,172-175 @ 1"], &[]);
    }
}

#[test]
fn gb200_memory_of_gpus_is_not_taken_for_the_gpus_node() {
    let mut machine = Shape { packages: 2, nodes: 1, cores: 72, smt: 1 }.machine();
    for id in [2, 10, 18, 26] {
        let memory = NumaNode { id, memory_bytes: Some(192 << 30), gpu_memory: true, ..NumaNode::default() };
        machine.numa.push(memory);
    }
    let machine = with_gpus(machine, &[&[0, 2], &[0, 10], &[1, 18], &[1, 26]]);
    check(&machine, &whole(&machine), &["0-35 @ 0", "36-71 @ 0", "72-107 @ 1", "108-143 @ 1"], &[]);
}

#[test]
fn a_gpu_at_a_node_without_cpus_has_no_known_place_and_is_taken_in_where_there_is_room() {
    let mut machine = Shape { packages: 2, nodes: 1, cores: 4, smt: 1 }.machine();
    machine.numa.push(NumaNode { id: 7, memory_bytes: Some(1 << 30), ..NumaNode::default() });
    let machine = with_gpus(machine, &[&[0], &[7]]);
    check(&machine, &whole(&machine), &["0-3 @ 0", "4-7 @ -"], &[Code::NoLocality]);
}

#[test]
fn cores_of_a_node_without_memory_give_no_policy() {
    let mut machine = hgx();
    machine.numa[1].memory_bytes = Some(0);
    let layout = Layout::new(&machine, &whole(&machine));
    assert_eq!(slices(&layout)[3..5], ["42-55,154-167 @ 0", "56-69,168-181 @ -"]);
}

#[test]
fn sparse_numa_ids_and_cpu_ids_beyond_1024_are_numbers_like_any_other() {
    let mut machine = with_gpus(Shape { packages: 2, nodes: 1, cores: 4, smt: 1 }.machine(), &[&[0], &[1]]);
    let far = |set: &mut crate::CpuSet| *set = set.iter().map(|cpu| cpu * 100 + 1000).collect();
    far(&mut machine.cpus);
    machine.packages.iter_mut().for_each(|package| far(&mut package.cpus));
    machine.cores.iter_mut().for_each(|core| far(&mut core.pus));
    machine.numa.iter_mut().zip([8, 252]).for_each(|(node, id)| (node.id, _) = (id, far(&mut node.cpus)));
    machine.gpus.iter_mut().flat_map(|gpu| &mut gpu.locality).for_each(|place| far(&mut place.cpus));
    check(&machine, &whole(&machine), &["1000,1100,1200,1300 @ 8", "1400,1500,1600,1700 @ 252"], &[]);
}

#[test]
fn isolated_cpus_that_the_step_owns_are_given_like_any_other() {
    let mut machine = hgx();
    machine.isolated = cpus("0-13");
    assert_eq!(slices(&Layout::new(&machine, &whole(&machine)))[0], "0-13,112-125 @ 0");
}

#[test]
fn instinct_gpus_are_planned_the_same_way() {
    let near: [&[u32]; 8] = [&[3], &[3], &[1], &[1], &[0], &[0], &[2], &[2]];
    let mut machine = with_gpus(Shape { packages: 1, nodes: 4, cores: 16, smt: 2 }.machine(), &near);
    machine.gpus.iter_mut().for_each(|gpu| gpu.vendor = Vendor::Amd);
    let layout = check(
        &machine,
        &whole(&machine),
        &[
            "48-55,112-119 @ 3",
            "56-63,120-127 @ 3",
            "16-23,80-87 @ 1",
            "24-31,88-95 @ 1",
            "0-7,64-71 @ 0",
            "8-15,72-79 @ 0",
            "32-39,96-103 @ 2",
            "40-47,104-111 @ 2",
        ],
        &[],
    );
    assert!(layout.slices.iter().all(|slice| !slice.remote));
}

#[test]
fn a_package_without_gpus_gives_its_cores_to_nobody() {
    let request = Request { gpus: vec![0], tasks: 1, ..whole(&hgx()) };
    check(&hgx(), &request, &["0-55,112-167 @ 0"], &[]);
}

#[test]
fn more_ranks_than_cores_share_all_of_them_and_are_named_once() {
    let request = Request { cpus: cpus("0-2,56"), tasks: 16, ..whole(&hgx()) };
    let layout = check(
        &hgx(),
        &request,
        &["0-2 @ 0", "0-2 @ 0", "0-2 @ 0", "0-2 @ 0", "56 @ 1", "56 @ 1", "56 @ 1", "56 @ 1"],
        &[Code::Overlap],
    );
    assert!(layout.notices[0].help.as_ref().unwrap().contains("--cpus-per-task"));
}

#[test]
fn gpu_numbers_that_the_machine_does_not_have_are_no_panic() {
    let request = Request { gpus: vec![0, 99, usize::MAX], tasks: u32::MAX, ..whole(&hgx()) };
    let layout = Layout::new(&hgx(), &request);
    assert_eq!(layout.slices.len(), 3);
    assert_eq!(layout.notices.iter().map(|notice| notice.code).collect::<Vec<_>>(), [Code::NoLocality, Code::Overlap]);
}

#[test]
fn a_gpu_whose_near_cpus_are_all_reserved_is_far_and_the_help_names_the_reservation() {
    let binding = Binding { reserve: Reserve::Cpus(cpus("0-55,112-167")), ..Binding::default() };
    let request = Request { binding, gpus: vec![0, 4], tasks: 2, ..whole(&hgx()) };
    let layout = check(&hgx(), &request, &["56-83,168-195 @ 1", "84-111,196-223 @ 1"], &[Code::GpuRemote]);
    assert!(layout.notices[0].help.as_ref().unwrap().contains("`reserve`"));
}
