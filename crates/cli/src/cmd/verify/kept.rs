//! How much of the environments of one user's processes is kept: there may be thousands of processes, each with megabytes.

use crate::proc::Environ;
use std::collections::BTreeMap;

/// In bytes. That of about 5000 processes with 150 variables in 30 KiB; many more than a node's ranks have.
const MOST: usize = 256 << 20;
/// What a variable takes beside its text: two strings, and their place in a map.
const EACH: usize = 128;

/// What is kept so far, by user.
#[derive(Debug, Default)]
pub(super) struct Kept(BTreeMap<Option<u32>, usize>);

impl Kept {
    /// Whether an environment may be kept too; if so, it counts.
    pub(super) fn has_room(&mut self, user: Option<u32>, environ: &Environ) -> bool {
        let kept = self.0.entry(user).or_default();
        let size: usize = environ.iter().map(|(name, value)| name.len() + value.len() + EACH).sum();
        let fits = size <= MOST.saturating_sub(*kept);
        *kept += if fits { size } else { 0 };
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_users_environments_leave_room_for_anothers() {
        let of_size = |size: usize| Environ::from([("A".to_owned(), "x".repeat(size - EACH - 1))]);
        let (mut kept, quarter) = (Kept::default(), of_size(MOST / 4));
        let fits: Vec<bool> = (0..5).map(|_| kept.has_room(Some(7), &quarter)).collect();
        assert_eq!(fits, [true, true, true, true, false]);
        assert!(kept.has_room(Some(8), &quarter) && !kept.has_room(Some(7), &of_size(EACH + 1)));
    }
}
