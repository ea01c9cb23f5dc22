//! Takes samples of the placements in turns and keeps the medians.

use super::places::Places;
use gpu_tune_engine::apply::{Outcome, apply};
use gpu_tune_engine::os::linux::Linux;
use gpu_tune_engine::plan::Share;
use std::thread;
use std::time::{Duration, Instant};

/// How long to go on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Budget {
    pub(super) time: Duration,
    /// Rounds that are made even if the time is over.
    pub(super) least: usize,
}

/// The medians of the three placements; `None` where one could not be had.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Medians {
    pub(super) near: Option<f64>,
    pub(super) far: Option<f64>,
    pub(super) unbound: Option<f64>,
}

/// Samples of `N` quantities at once, by turns near, far and unbound. `sample` runs in a fresh thread that is bound
/// already: mask and policy die with it, so unbound really is.
pub(super) fn in_turns<const N: usize, E: Send>(
    places: &Places,
    budget: Budget,
    sample: impl Fn() -> Result<[f64; N], E> + Sync,
) -> Result<[Medians; N], E> {
    let unbound = Share::default();
    let shares = [places.near.as_ref(), places.far.as_ref(), Some(&unbound)];
    let mut taken: [Vec<[f64; N]>; 3] = Default::default();
    let end = Instant::now() + budget.time;
    let mut round = 0;
    while round < budget.least || Instant::now() < end {
        for turn in 0..shares.len() {
            // Another one goes first in each round.
            let at = (turn + round) % shares.len();
            let (Some(Some(share)), Some(taken)) = (shares.get(at), taken.get_mut(at)) else { continue };
            if let Ok(sample) = bound(share, &sample) {
                taken.push(sample?);
            }
        }
        round += 1;
    }
    let [near, far, unbound] = taken.map(|samples| medians(&samples));
    Ok(std::array::from_fn(|which| Medians {
        near: near.get(which).copied().flatten(),
        far: far.get(which).copied().flatten(),
        unbound: unbound.get(which).copied().flatten(),
    }))
}

/// Those of the placements that this host makes. A machine's file may name nodes that it lacks, and a container may forbid the
/// call: numbers taken elsewhere would pass for that place's. Each refusal is told once; `refused` are those told before.
pub(super) fn possible(places: Places, refused: &mut Vec<Share>) -> Places {
    let mut tried = |share: &Share| {
        let Err(outcome) = bound(share, &|| ()) else { return true };
        if !refused.contains(share) {
            outcome.notices("the measuring thread", share).iter().for_each(crate::output::warn);
            refused.push(share.clone());
        }
        false
    };
    Places { near: places.near.filter(&mut tried), far: places.far.filter(&mut tried) }
}

/// Runs in a thread of its own, bound; an error where it cannot be bound so.
fn bound<T: Send>(share: &Share, run: &(impl Fn() -> T + Sync)) -> Result<T, Outcome> {
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let outcome = apply(&mut Linux, share);
            if outcome.is_fine() { Ok(run()) } else { Err(outcome) }
        });
        match thread.join() {
            Ok(answer) => answer,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

fn medians<const N: usize>(samples: &[[f64; N]]) -> [Option<f64>; N] {
    std::array::from_fn(|which| {
        let mut values: Vec<f64> = samples.iter().filter_map(|sample| sample.get(which).copied()).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;
    use std::sync::Mutex;

    fn places(far: bool) -> Places {
        Places { near: Some(Share::default()), far: far.then(Share::default) }
    }

    #[test]
    fn placements_take_turns_and_another_goes_first_each_round() {
        let count = Mutex::new(0_u32);
        let sample = || -> Result<[f64; 1], Infallible> {
            let mut count = count.lock().unwrap();
            *count += 1;
            Ok([f64::from(*count)])
        };
        let budget = Budget { time: Duration::ZERO, least: 3 };
        // Rounds: near far unbound, far unbound near, unbound near far.
        let Ok([result]) = in_turns(&places(true), budget, sample);
        assert_eq!(result, Medians { near: Some(6.0), far: Some(4.0), unbound: Some(5.0) });
    }

    #[test]
    fn without_a_far_node_there_is_no_far_number() {
        let Ok([result]) =
            in_turns(&places(false), Budget { time: Duration::ZERO, least: 3 }, || Ok::<_, Infallible>([1.0]));
        assert_eq!((result.far, result.near), (None, Some(1.0)));
    }

    #[test]
    fn a_place_that_this_host_does_not_have_is_not_measured() {
        let nowhere = Share { cpus: Some("60000".parse().unwrap()), memory: None };
        let places = Places { near: Some(Share::default()), far: Some(nowhere.clone()) };
        let Ok([result]) = in_turns(&places, Budget { time: Duration::ZERO, least: 3 }, || Ok::<_, Infallible>([1.0]));
        assert_eq!(result, Medians { near: Some(1.0), far: None, unbound: Some(1.0) });
        let mut refused = Vec::new();
        let left = possible(places, &mut refused);
        assert_eq!((left, refused), (Places { near: Some(Share::default()), far: None }, vec![nowhere]));
    }

    #[test]
    fn an_error_ends_it() {
        let budget = Budget { time: Duration::from_secs(60), least: 3 };
        assert_eq!(in_turns(&places(true), budget, || Err::<[f64; 1], _>("no")), Err("no"));
    }
}
