//! A set of CPU or NUMA node numbers, as the kernel wants it: one bit each.
use crate::bytes;

/// How many numbers a set can hold: the most CPUs that Linux can be built for (`NR_CPUS_RANGE_END` of x86 with
/// `CONFIG_CPUMASK_OFFSTACK`, 8192).
pub const BITS: u32 = 8192;
const WORDS: usize = 128;

/// One kibibyte: never copied, always filled in place.
#[derive(Debug)]
pub struct Set([u64; WORDS]);

impl Set {
    /// The empty set.
    pub const fn empty() -> Self {
        Self([0; WORDS])
    }

    /// The bits, the lowest number first.
    pub fn words(&self) -> &[u64; WORDS] {
        &self.0
    }

    /// The bits, for a system call to fill.
    pub fn words_mut(&mut self) -> &mut [u64; WORDS] {
        &mut self.0
    }

    /// Whether both hold the same numbers.
    pub fn same(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|(a, b)| a == b)
    }

    /// Adds the numbers of a Linux cpulist (`0-7,16`). False if the text is anything else, is empty or names a number that
    /// does not fit; the set is then worthless.
    #[must_use]
    pub fn read(&mut self, list: &[u8]) -> bool {
        let mut rest = Some(list);
        while let Some(text) = rest {
            let (item, tail) = bytes::cut(text, b',');
            if !self.read_item(item) {
                return false;
            }
            rest = tail;
        }
        true
    }

    fn read_item(&mut self, item: &[u8]) -> bool {
        let (start, end) = bytes::cut(item, b'-');
        let (Some(start), Some(end)) = (bytes::number(start), bytes::number(end.unwrap_or(start))) else {
            return false;
        };
        if start > end || end >= BITS {
            return false;
        }
        for id in start..=end {
            if let Some(word) = self.0.get_mut(id as usize / 64) {
                *word |= 1 << (id % 64);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn ids(list: &str) -> Option<Vec<u32>> {
        let mut set = Set::empty();
        let fine = set.read(list.as_bytes());
        fine.then(|| (0..BITS).filter(|id| set.words()[*id as usize / 64] >> (id % 64) & 1 == 1).collect())
    }

    #[test]
    fn a_list_gives_its_numbers() {
        assert_eq!(ids("0"), Some([0].into()));
        assert_eq!(ids("0-3,62-65,8191"), Some([0, 1, 2, 3, 62, 63, 64, 65, 8191].into()));
    }

    #[test]
    fn anything_else_is_refused() {
        for list in
            ["", ",", "1,", ",1", "3-1", "8192", "0-8192", "0-4294967295", "a", "0x3", "1-2-3", "-1", "1-", "0 "]
        {
            assert_eq!(ids(list), None, "{list:?}");
        }
    }
}
