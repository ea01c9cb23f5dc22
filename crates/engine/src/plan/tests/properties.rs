//! What holds for every machine and every step.

use super::super::layout::usable_cpus;
use super::super::locality::near_cpus;
use super::super::testing::disagreement;
use super::super::{Binding, Layout, Mode, Own, Request, Share};
use super::generate::steps;
use crate::machine::{Core, Gpu, Locality, Machine, NumaNode, Package};
use crate::spec::{CpuPolicy, MemPolicy, Smt};
use crate::{CpuSet, IdSet};
use proptest::prelude::*;

fn shares(layout: &Layout) -> impl Iterator<Item = &Share> {
    layout.slices.iter().flat_map(|slice| std::iter::once(&slice.whole).chain(&slice.shares))
}

/// The CPUs that ranks may have: allowed, and not reserved unless all are.
fn free(machine: &Machine, request: &Request) -> CpuSet {
    usable_cpus(machine, request, &mut Vec::new())
}

fn cores_in(machine: &Machine, cpus: &CpuSet) -> usize {
    machine.cores.iter().filter(|core| !core.pus.is_disjoint(cpus)).count()
}

/// Numbers that differ from the given ones in value and in order.
fn renamed(id: u32) -> u32 {
    5000 + (id * 7919) % 7993
}

fn renamed_set(set: &IdSet) -> IdSet {
    set.iter().map(renamed).collect()
}

fn renamed_machine(machine: &Machine) -> Machine {
    let node = |node: &NumaNode| NumaNode { id: renamed(node.id), cpus: renamed_set(&node.cpus), ..node.clone() };
    let mut numa: Vec<NumaNode> = machine.numa.iter().map(node).collect();
    numa.sort_by_key(|node| node.id);
    let place = |place: &Locality| Locality {
        cpus: renamed_set(&place.cpus),
        nodes: renamed_set(&place.nodes),
        ..place.clone()
    };
    Machine {
        cpus: renamed_set(&machine.cpus),
        packages: machine.packages.iter().map(|package| Package { cpus: renamed_set(&package.cpus) }).collect(),
        cores: machine.cores.iter().map(|core| Core { pus: renamed_set(&core.pus), ..core.clone() }).collect(),
        gpus: machine
            .gpus
            .iter()
            .map(|gpu| Gpu { locality: gpu.locality.as_ref().map(place), ..gpu.clone() })
            .collect(),
        numa,
        ..machine.clone()
    }
}

fn renamed_share(share: &Share) -> Share {
    let mut share = share.clone();
    share.cpus = share.cpus.as_ref().map(renamed_set);
    if let Some(memory) = &mut share.memory {
        memory.nodes = renamed_set(&memory.nodes);
        memory.first = renamed(memory.first);
    }
    share
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_gpu_keeps_a_slice_in_the_steps_order((machine, request) in steps()) {
        let layout = Layout::new(&machine, &request);
        let gpus: Vec<usize> = layout.slices.iter().map(|slice| slice.gpu).collect();
        prop_assert_eq!(gpus, request.gpus);
        prop_assert!(layout.slices.iter().all(|slice| !slice.shares.is_empty()));
    }

    #[test]
    fn nobody_gets_a_cpu_that_is_not_allowed_or_is_reserved((machine, request) in steps()) {
        let layout = Layout::new(&machine, &request);
        let free = free(&machine, &request);
        prop_assert!(free.is_subset(&request.cpus));
        for cpus in shares(&layout).filter_map(|share| share.cpus.as_ref()) {
            prop_assert!(cpus.is_subset(&free), "{} beyond {}", cpus, free);
        }
    }

    #[test]
    fn everybody_gets_something_while_there_is_anything_to_share((machine, request) in steps()) {
        let layout = Layout::new(&machine, &request);
        let cores = cores_in(&machine, &free(&machine, &request));
        let ranks = request.gpus.len().max(request.tasks as usize);
        let bound = request.binding.cpu != CpuPolicy::Off && cores > 0 && (cores > 1 || ranks <= 1);
        for share in shares(&layout) {
            prop_assert_eq!(share.cpus.as_ref().is_some_and(|cpus| !cpus.is_empty()), bound);
            prop_assert!(share.cpus.is_some() == bound, "an empty mask is never set");
        }
    }

    #[test]
    fn a_core_goes_to_a_rank_with_all_its_threads_or_not_at_all((machine, request) in steps()) {
        let layout = Layout::new(&machine, &request);
        let free = free(&machine, &request);
        for cpus in shares(&layout).filter_map(|share| share.cpus.as_ref()) {
            for core in machine.cores.iter().map(|core| &core.pus & &free).filter(|core| !core.is_disjoint(cpus)) {
                match request.binding.smt {
                    Smt::All => prop_assert!(core.is_subset(cpus)),
                    Smt::One => prop_assert_eq!((&core & cpus).iter().collect::<Vec<_>>(), [core.first().unwrap()]),
                }
            }
        }
    }

    #[test]
    fn exclusive_sets_are_equal_or_disjoint((machine, mut request) in steps()) {
        request.binding.cpu = CpuPolicy::Exclusive;
        let layout = Layout::new(&machine, &request);
        let sets = |share: fn(&super::super::Slice) -> Vec<&Share>| {
            layout.slices.iter().flat_map(share).filter_map(|share| share.cpus.clone()).collect::<Vec<_>>()
        };
        for sets in [sets(|slice| vec![&slice.whole]), sets(|slice| slice.shares.iter().collect())] {
            for (one, other) in sets.iter().flat_map(|one| sets.iter().map(move |other| (one, other))) {
                prop_assert!(one == other || one.is_disjoint(other), "{} and {}", one, other);
            }
        }
    }

    #[test]
    fn gpus_at_one_place_have_sizes_within_one_core((machine, mut request) in steps()) {
        request.binding.cpu = CpuPolicy::Exclusive;
        request.gpu_numa.clear();
        let layout = Layout::new(&machine, &request);
        let known = |place: &Locality| !place.cpus.is_empty() && place.cpus != machine.cpus;
        let place = |slice: &super::super::Slice| machine.gpus[slice.gpu].locality.clone().filter(known);
        for slice in layout.slices.iter().filter(|slice| place(slice).is_some() && !slice.remote) {
            let size = |slice: &super::super::Slice| cores_in(&machine, &slice.whole.cpus.clone().unwrap_or_default());
            for other in layout.slices.iter().filter(|other| place(other) == place(slice)) {
                // MPS ranks under `prefer = "priority"` are equal among ranks instead.
                let each = |slice: &super::super::Slice| size(slice) / slice.shares.len();
                let near = size(slice).abs_diff(size(other)) <= 1 || each(slice) == each(other);
                prop_assert!(near, "{} and {}", size(slice), size(other));
            }
            let shares: Vec<usize> =
                slice.shares.iter().map(|share| cores_in(&machine, &share.cpus.clone().unwrap_or_default())).collect();
            prop_assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1);
        }
    }

    #[test]
    fn memory_policies_name_only_allowed_nodes_with_memory_that_is_no_gpus((machine, request) in steps()) {
        let layout = Layout::new(&machine, &request);
        for memory in shares(&layout).filter_map(|share| share.memory.as_ref()) {
            prop_assert!(request.binding.mem != MemPolicy::Off);
            prop_assert!(!memory.nodes.is_empty() && memory.nodes.contains(memory.first));
            for id in memory.nodes.iter() {
                let node = machine.numa.iter().find(|node| node.id == id).unwrap();
                prop_assert!(node.memory_bytes != Some(0) && !node.gpu_memory && !node.cpus.is_empty());
                prop_assert!(request.mems.as_ref().is_none_or(|mems| mems.contains(id)));
            }
        }
    }

    #[test]
    fn memory_follows_the_cores_that_were_given((machine, request) in steps()) {
        prop_assume!(request.binding.cpu != CpuPolicy::Off);
        for share in shares(&Layout::new(&machine, &request)) {
            let Some((cpus, memory)) = share.cpus.as_ref().zip(share.memory.as_ref()) else { continue };
            prop_assert!(memory.nodes.is_subset(&machine.nodes_of(cpus)));
        }
    }

    #[test]
    fn one_cause_is_told_once_and_says_what_to_do((machine, request) in steps()) {
        let layout = Layout::new(&machine, &request);
        let codes: std::collections::BTreeSet<_> = layout.notices.iter().map(|notice| notice.code).collect();
        prop_assert_eq!(codes.len(), layout.notices.len(), "{:?}", layout.notices);
        for notice in &layout.notices {
            prop_assert!(notice.help.as_ref().is_some_and(|help| !help.ends_with('.')));
            prop_assert!(!notice.message.ends_with('.') && !notice.message.contains('\n'));
        }
    }

    #[test]
    fn the_same_input_gives_the_same_plan((machine, request) in steps()) {
        let layout = Layout::new(&machine, &request);
        prop_assert_eq!(&layout, &Layout::new(&machine.clone(), &request.clone()));
        prop_assert_eq!(layout.task(3, Own::All), layout.task(3, Own::All));
    }

    #[test]
    fn other_numbers_give_the_same_plan_in_other_numbers((machine, mut request) in steps()) {
        request.binding.smt = Smt::All;
        let layout = Layout::new(&machine, &request);
        let mut other = request.clone();
        other.cpus = renamed_set(&request.cpus);
        other.mems = request.mems.as_ref().map(renamed_set);
        other.gpu_numa = request.gpu_numa.iter().map(|(&pci, &node)| (pci, renamed(node))).collect();
        if let super::super::Reserve::Cpus(cpus) = &mut other.binding.reserve {
            *cpus = renamed_set(cpus);
        }
        let expect: Vec<Share> = shares(&layout).map(renamed_share).collect();
        let got: Vec<Share> = shares(&Layout::new(&renamed_machine(&machine), &other)).cloned().collect();
        prop_assert_eq!(got, expect);
    }

    #[test]
    fn a_second_model_comes_to_the_same_plan((machine, mut request) in steps()) {
        request.binding = Binding::default();
        let cores = cores_in(&machine, &request.cpus);
        let ranks = request.gpus.len().max(request.tasks as usize);
        prop_assume!(!request.gpus.is_empty() && cores > 0 && (cores > 1 || ranks == 1));
        prop_assert_eq!(disagreement(&machine, &request), Ok(()));
    }

    #[test]
    fn a_gpu_is_far_only_across_a_link_between_nodes((machine, request) in steps()) {
        let usable = machine.nodes_of(&free(&machine, &request));
        for slice in Layout::new(&machine, &request).slices.iter().filter(|slice| slice.remote) {
            let near = near_cpus(&machine, slice.gpu, &request.gpu_numa).unwrap();
            prop_assert!(machine.nodes_of(&near).is_disjoint(&usable), "{} and {}", near, usable);
        }
    }

    #[test]
    fn tasks_between_them_drive_every_gpu((machine, request) in steps()) {
        prop_assume!(request.tasks > 0);
        let layout = Layout::new(&machine, &request);
        let plans: Vec<_> = (0..request.tasks).map(|id| layout.task(id, Own::All)).collect();
        let mut driven: Vec<usize> = plans.iter().flat_map(|plan| plan.gpus.iter().copied()).collect();
        let uses = driven.len();
        driven.sort_unstable();
        driven.dedup();
        prop_assert_eq!(&driven, &request.gpus);
        prop_assert_eq!(uses, if driven.is_empty() { 0 } else { driven.len().max(request.tasks as usize) });
    }

    #[test]
    fn tasks_stay_within_what_the_step_owns((machine, request) in steps()) {
        let layout = Layout::new(&machine, &request);
        for plan in (0..request.tasks).map(|id| layout.task(id, Own::All)) {
            let rank_mode = request.mode == Mode::Rank || (request.mode == Mode::Auto && plan.gpus.len() <= 1);
            prop_assert_eq!(plan.ranks.is_empty(), rank_mode || plan.gpus.is_empty());
            prop_assert_eq!(plan.ranks.iter().map(|rank| rank.gpu).collect::<Vec<_>>(), if plan.ranks.is_empty() { vec![] } else { plan.gpus.clone() });
            prop_assert!(plan.share.cpus.as_ref().is_none_or(|cpus| !cpus.is_empty() && cpus.is_subset(&request.cpus)));
            prop_assert!(plan.ranks.is_empty() || plan.share.memory.is_none(), "a launcher keeps the default memory policy");
        }
    }
}
