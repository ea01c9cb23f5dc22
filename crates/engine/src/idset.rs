//! Sets of CPU numbers and of NUMA node numbers, in Linux's list notation.
#![forbid(unsafe_code)]

use crate::text::{is_digits, shown};
use roaring::RoaringBitmap;
use std::fmt;
use std::ops::{BitAnd, BitOr, Sub};
use std::str::FromStr;

/// The highest number a set may hold. The kernel's own limit for CPUs is 8192 (x86, `CONFIG_NR_CPUS`); the bound is there
/// so that a text like `0-4294967295` cannot make us allocate without end.
pub const MAX_ID: u32 = 65_535;

/// A set of kernel ids: logical CPUs (PUs) or NUMA nodes.
///
/// Its text form is Linux's cpulist (`0-7,16-23`), which every file of /sys, `taskset` and `numactl` use; the empty set is
/// the empty text.
#[derive(Clone, Default, PartialEq)]
pub struct IdSet(RoaringBitmap);

/// A set of logical CPUs by the kernel's numbering.
pub type CpuSet = IdSet;
/// A set of NUMA nodes by the kernel's numbering.
pub type NodeSet = IdSet;

/// Why a text is not a list of ids.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadList {
    /// Something that is neither a number nor a range.
    #[error("`{0}` is neither a number nor a range like `0-7`")]
    Item(String),
    /// A range that ends before it begins.
    #[error("the range `{0}` ends before it begins")]
    Backwards(String),
    /// A number above [`MAX_ID`].
    #[error("`{0}` is beyond the highest number taken, {MAX_ID}")]
    TooBig(String),
}

impl Eq for IdSet {}

impl IdSet {
    /// The empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether nothing is in the set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many ids are in the set.
    pub fn len(&self) -> usize {
        usize::try_from(self.0.len()).unwrap_or(usize::MAX)
    }

    /// Whether `id` is in the set.
    pub fn contains(&self, id: u32) -> bool {
        self.0.contains(id)
    }

    /// Adds an id. Ids above [`MAX_ID`] are not taken; the answer says whether the id is new.
    pub fn insert(&mut self, id: u32) -> bool {
        id <= MAX_ID && self.0.insert(id)
    }

    /// Takes an id out; the answer says whether it was there.
    pub fn remove(&mut self, id: u32) -> bool {
        self.0.remove(id)
    }

    /// The ids, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter()
    }

    /// The lowest id.
    pub fn first(&self) -> Option<u32> {
        self.0.min()
    }

    /// The highest id.
    pub fn last(&self) -> Option<u32> {
        self.0.max()
    }

    /// Whether every id of this set is also in `other`.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.0.is_subset(&other.0)
    }

    /// Whether the two sets share no id.
    pub fn is_disjoint(&self, other: &Self) -> bool {
        self.0.is_disjoint(&other.0)
    }

    /// Adds all ids of `other`.
    pub fn extend(&mut self, other: &Self) {
        self.0 |= &other.0;
    }
}

impl FromIterator<u32> for IdSet {
    fn from_iter<I: IntoIterator<Item = u32>>(ids: I) -> Self {
        let mut set = Self::new();
        for id in ids {
            set.insert(id);
        }
        set
    }
}

impl BitAnd for &IdSet {
    type Output = IdSet;
    fn bitand(self, other: &IdSet) -> IdSet {
        IdSet(&self.0 & &other.0)
    }
}

impl BitOr for &IdSet {
    type Output = IdSet;
    fn bitor(self, other: &IdSet) -> IdSet {
        IdSet(&self.0 | &other.0)
    }
}

impl Sub for &IdSet {
    type Output = IdSet;
    fn sub(self, other: &IdSet) -> IdSet {
        IdSet(&self.0 - &other.0)
    }
}

impl fmt::Display for IdSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ids = self.0.iter().peekable();
        let mut comma = "";
        while let Some(start) = ids.next() {
            let mut end = start;
            while ids.next_if_eq(&(end + 1)).is_some() {
                end += 1;
            }
            write!(f, "{comma}{start}")?;
            if end > start {
                write!(f, "-{end}")?;
            }
            comma = ",";
        }
        Ok(())
    }
}

impl fmt::Debug for IdSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

impl FromStr for IdSet {
    type Err = BadList;

    /// Reads a cpulist. White space around it, as files of /sys have it, is allowed; an empty text is the empty set.
    fn from_str(text: &str) -> Result<Self, BadList> {
        let text = text.trim();
        let mut set = Self::new();
        if text.is_empty() {
            return Ok(set);
        }
        for item in text.split(',') {
            let (start, end) = item.split_once('-').unwrap_or((item, item));
            let (start, end) = (number(start, item)?, number(end, item)?);
            if end < start {
                return Err(BadList::Backwards(shown(item)));
            }
            set.0.insert_range(start..=end);
        }
        Ok(set)
    }
}

fn number(text: &str, item: &str) -> Result<u32, BadList> {
    if !is_digits(text) {
        return Err(BadList::Item(shown(item)));
    }
    match text.parse() {
        Ok(id) if id <= MAX_ID => Ok(id),
        _ => Err(BadList::TooBig(shown(item))),
    }
}

impl serde::Serialize for IdSet {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for IdSet {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_comes_back_as_it_was_read() {
        for text in ["", "0", "0-7,16-23", "0,2,4", "0-1,3-4,6-12,15", "1023-1025,8191"] {
            assert_eq!(text.parse::<IdSet>().unwrap().to_string(), text);
        }
        assert_eq!("8-11,0-3,2-5\n".parse::<IdSet>().unwrap().to_string(), "0-5,8-11");
    }

    #[test]
    fn an_empty_list_of_a_node_without_cpus_is_an_empty_set() {
        for text in ["", "\n", " \n"] {
            assert_eq!(text.parse::<IdSet>(), Ok(IdSet::new()), "{text:?}");
        }
    }

    #[test]
    fn bad_lists_say_what_is_wrong() {
        let said = |text: &str| text.parse::<IdSet>().unwrap_err().to_string();
        assert_eq!(said("3-1"), "the range `3-1` ends before it begins");
        assert_eq!(said("x"), "`x` is neither a number nor a range like `0-7`");
        assert_eq!(said("0,,1"), "`` is neither a number nor a range like `0-7`");
        assert_eq!(said("-1"), "`-1` is neither a number nor a range like `0-7`");
        assert_eq!(said("0-4294967295"), "`0-4294967295` is beyond the highest number taken, 65535");
        assert_eq!(said("99999999999999999999"), "`99999999999999999999` is beyond the highest number taken, 65535");
    }
}
