//! Shares cores out among GPUs so that no two ranks meet (rules 5, 6 and 7).
//!
//! A *locality* is a set of GPUs whose near cores overlap, usually the GPUs of one NUMA node. Its cores are divided evenly
//! among them. Cores of the same package that are near to no GPU (the GPU-less nodes of NPS4 and SNC) then go one by one
//! to whoever has least, so that sizes level out and nobody loses a near core to a GPU further away. A package without a
//! GPU gives its cores to nobody: memory across the socket link costs more than cores bring.
//!
//! Which of those cores goes to whom: machines tell no distances inside a package that differ, so *near* is the place in
//! hwloc's logical order. GPUs and cores are matched in that order from both beginnings, which makes the sum of all
//! distances the least and keeps each share in few pieces.
#![forbid(unsafe_code)]

use super::cores::{CoreSet, Cores};

/// One set of cores for each GPU, in the order of `near`, out of `from`. Sets are disjoint, or equal within a locality that
/// has fewer cores than GPUs: then each gets all of it, so that the kernel can level the load and no rank is slowest.
pub(super) fn exclusive(cores: &Cores, from: &CoreSet, near: &[CoreSet]) -> Vec<CoreSet> {
    let localities = localities(near);
    let mut parts = vec![CoreSet::new(); near.len()];
    for gpus in &localities {
        divide(near, gpus, &mut parts);
    }
    for package in cores.packages() {
        level(&(package & from), near, &mut parts);
    }
    for gpus in &localities {
        overlap_if_short(gpus, &mut parts);
    }
    parts
}

/// Cuts cores into `count` consecutive pieces whose sizes differ by at most one, the larger first.
pub(super) fn cut(cores: &CoreSet, count: usize) -> Vec<CoreSet> {
    let mut left = cores.iter();
    even(cores.len(), count).map(|size| left.by_ref().take(size).collect()).collect()
}

/// `total` as `count` numbers that differ by at most one, the larger first.
fn even(total: usize, count: usize) -> impl Iterator<Item = usize> {
    let (each, more) = (total / count.max(1), total % count.max(1));
    (0..count).map(move |i| each + usize::from(i < more))
}

/// Groups of GPUs (positions in `near`, ascending) whose near cores overlap, directly or through others.
fn localities(near: &[CoreSet]) -> Vec<Vec<usize>> {
    let mut found: Vec<(CoreSet, Vec<usize>)> = Vec::new();
    for (gpu, set) in near.iter().enumerate() {
        let (touching, apart): (Vec<_>, Vec<_>) = found.into_iter().partition(|(other, _)| !other.is_disjoint(set));
        let mut merged = (set.clone(), vec![gpu]);
        for (other, gpus) in touching {
            merged.0.extend(&other);
            merged.1.extend(gpus);
        }
        merged.1.sort_unstable();
        found = apart;
        found.push(merged);
    }
    found.into_iter().map(|(_, gpus)| gpus).collect()
}

/// Divides the cores of one locality evenly. Where near sets differ (one GPU knows its node, another only its package), the
/// smallest set is handed out first, to the GPUs that are near to nothing beyond it.
fn divide(near: &[CoreSet], gpus: &[usize], parts: &mut [CoreSet]) {
    let mut sets: Vec<CoreSet> = gpus.iter().filter_map(|&gpu| near.get(gpu)).cloned().collect();
    let mut free = sets.iter().fold(CoreSet::new(), |all, set| &all | set);
    let sizes: Vec<(usize, usize)> = gpus.iter().copied().zip(even(free.len(), gpus.len())).collect();
    sets.push(free.clone());
    sets.sort_by_key(|set| (set.len(), set.first()));
    sets.dedup();
    for set in sets {
        let within = |(gpu, _): &&(usize, usize)| near.get(*gpu).is_some_and(|near| near.is_subset(&set));
        let members: Vec<(usize, usize)> = sizes.iter().filter(within).copied().collect();
        free = &free - &hand_out(&(&set & &free), near, &members, parts);
    }
}

/// Gives the cores of one package that are near to no GPU to the GPUs of that package.
fn level(package: &CoreSet, near: &[CoreSet], parts: &mut [CoreSet]) {
    let here: Vec<_> = near.iter().enumerate().filter(|(_, set)| !set.is_disjoint(package)).collect();
    let spare = here.iter().fold(package.clone(), |left, (_, set)| &left - set);
    let hungry: Vec<(usize, usize)> = here.iter().map(|(gpu, _)| (*gpu, usize::MAX)).collect();
    hand_out(&spare, near, &hungry, parts);
}

/// Hands out `free` to GPUs, each up to a size, one core at a time to whoever has least; then picks which, GPUs and cores
/// both in logical order. Returns what was handed out.
fn hand_out(free: &CoreSet, near: &[CoreSet], sizes: &[(usize, usize)], parts: &mut [CoreSet]) -> CoreSet {
    let has = |gpu: usize, parts: &[CoreSet]| parts.get(gpu).map_or(0, CoreSet::len);
    let mut wanted: Vec<(usize, usize, usize)> =
        sizes.iter().map(|&(gpu, most)| (gpu, most, has(gpu, parts))).collect();
    for _ in 0..free.len() {
        let hungry = wanted.iter_mut().filter(|(_, most, size)| size < most);
        let Some(least) = hungry.min_by_key(|(_, _, size)| *size) else { break };
        least.2 += 1;
    }
    wanted.sort_by_key(|(gpu, ..)| near.get(*gpu).map(middle));
    let mut left = free.iter();
    let mut given = CoreSet::new();
    for (gpu, _, size) in wanted {
        let piece: CoreSet = left.by_ref().take(size - has(gpu, parts)).collect();
        give(parts, gpu, &piece);
        given.extend(&piece);
    }
    given
}

/// Twice the middle of a set of cores in logical order.
fn middle(set: &CoreSet) -> u32 {
    set.first().unwrap_or_default() + set.last().unwrap_or_default()
}

fn overlap_if_short(gpus: &[usize], parts: &mut [CoreSet]) {
    let whole = gpus.iter().filter_map(|&gpu| parts.get(gpu)).fold(CoreSet::new(), |all, part| &all | part);
    if whole.len() < gpus.len() {
        gpus.iter().for_each(|&gpu| give(parts, gpu, &whole));
    }
}

fn give(parts: &mut [CoreSet], gpu: usize, cores: &CoreSet) {
    if let Some(part) = parts.get_mut(gpu) {
        part.extend(cores);
    }
}
