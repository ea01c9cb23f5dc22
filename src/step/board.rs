//! What the tasks of a node tell each other: a page of shared memory, made before the fork.
//!
//! Tasks do not wait for each other. Each takes its turn on its first GPU, does its work, writes down what became of it, and
//! the one that comes last tells the user about all: one table and one warning of a kind for each node.
#![forbid(unsafe_code)]

use gpu_tune_engine::apply::Outcome;
use gpu_tune_engine::os::linux::SharedWords;
use std::sync::atomic::Ordering::SeqCst;

/// Most GPUs of a step on one node that a record can name.
pub(crate) const MOST_GPUS: usize = 64;

/// The page.
#[derive(Debug)]
pub(crate) struct Board {
    words: SharedWords,
    gpus: usize,
    tasks: usize,
}

/// What became of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record {
    /// Its GPUs as bits, by position in the step's list; `None`: all, dealt out by local id.
    pub(crate) own: Option<u64>,
    /// Its turn among the tasks of its first GPU.
    pub(crate) turn: u16,
    /// It was left as it is, because somebody else bound it.
    pub(crate) left_alone: bool,
    /// What the kernel refused.
    pub(crate) outcome: Outcome,
}

const ARRIVED: usize = 0;
const TOLD: usize = 1;
const TOLD_LIMITS: usize = 2;
const HEAD: usize = 3;
/// Words of one task: its GPUs and its state.
const OF_TASK: usize = 2;

const WRITTEN: u64 = 1 << 63;
const OWN: u64 = 1 << 62;
const LEFT_ALONE: u64 = 1 << 61;
const ERRNO_BITS: u64 = 0xfff;

impl Board {
    /// A page for that many tasks and GPUs of the step.
    ///
    /// # Errors
    /// When the kernel has no memory.
    pub(crate) fn new(tasks: u32, gpus: usize) -> std::io::Result<Self> {
        let tasks = usize::try_from(tasks).unwrap_or(usize::MAX / 16);
        let words = SharedWords::new(HEAD + gpus + tasks.saturating_mul(OF_TASK))?;
        Ok(Self { words, gpus, tasks })
    }

    /// Takes the next turn on a GPU: 0 for the first task.
    pub(crate) fn turn(&self, gpu: usize) -> u16 {
        let word = (gpu < self.gpus).then(|| self.words.get(HEAD + gpu)).flatten();
        word.map_or(0, |word| u16::try_from(word.fetch_add(1, SeqCst)).unwrap_or(u16::MAX))
    }

    /// Whether nobody has told yet what the caller is about to tell; true for exactly one task.
    pub(crate) fn tells(&self) -> bool {
        self.words.get(TOLD).is_some_and(|word| word.swap(1, SeqCst) == 0)
    }

    /// The same for what is told of limits.
    pub(crate) fn tells_limits(&self) -> bool {
        self.words.get(TOLD_LIMITS).is_some_and(|word| word.swap(1, SeqCst) == 0)
    }

    /// Writes down what became of a task. True for the last one of the node.
    pub(crate) fn write(&self, local_id: u32, record: Record) -> bool {
        let (Some(own), Some(state)) = (self.word(local_id, 0), self.word(local_id, 1)) else { return false };
        own.store(record.own.unwrap_or(0), SeqCst);
        state.store(packed(record), SeqCst);
        let before = self.words.get(ARRIVED).map_or(u64::MAX, |arrived| arrived.fetch_add(1, SeqCst));
        usize::try_from(before).is_ok_and(|before| before + 1 == self.tasks)
    }

    /// What a task wrote.
    pub(crate) fn read(&self, local_id: u32) -> Option<Record> {
        let (own, state) = (self.word(local_id, 0)?.load(SeqCst), self.word(local_id, 1)?.load(SeqCst));
        (state & WRITTEN != 0).then(|| unpacked(own, state))
    }

    fn word(&self, local_id: u32, which: usize) -> Option<&std::sync::atomic::AtomicU64> {
        let id = usize::try_from(local_id).ok().filter(|id| *id < self.tasks)?;
        self.words.get(HEAD + self.gpus + id * OF_TASK + which)
    }
}

fn packed(record: Record) -> u64 {
    let flag = |set: bool, bit: u64| if set { bit } else { 0 };
    let errno = |errno: Option<i32>| u64::try_from(errno.unwrap_or(0)).unwrap_or(0) & ERRNO_BITS;
    WRITTEN
        | flag(record.own.is_some(), OWN)
        | flag(record.left_alone, LEFT_ALONE)
        | u64::from(record.turn) << 24
        | errno(record.outcome.affinity) << 12
        | errno(record.outcome.mempolicy)
}

fn unpacked(own: u64, state: u64) -> Record {
    let errno = |shift: u32| i32::try_from((state >> shift) & ERRNO_BITS).ok().filter(|errno| *errno != 0);
    Record {
        own: (state & OWN != 0).then_some(own),
        turn: u16::try_from((state >> 24) & 0xffff).unwrap_or(0),
        left_alone: state & LEFT_ALONE != 0,
        outcome: Outcome { affinity: errno(12), mempolicy: errno(0) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_back_as_it_was_written_and_the_last_task_knows_it_is_last() {
        let board = Board::new(2, 4).unwrap();
        let outcome = Outcome { affinity: Some(libc::EINVAL), mempolicy: Some(libc::EPERM) };
        let first = Record { own: Some(0b1010), turn: 3, left_alone: true, outcome };
        let second = Record { own: None, turn: 0, left_alone: false, outcome: Outcome::default() };
        assert_eq!(board.read(0), None);
        assert!(!board.write(0, first));
        assert!(board.write(1, second));
        assert_eq!((board.read(0), board.read(1)), (Some(first), Some(second)));
        assert_eq!(board.read(2), None);
        assert!(!board.write(2, second));
    }

    #[test]
    fn turns_are_counted_for_each_gpu_and_one_task_tells() {
        let board = Board::new(2, 2).unwrap();
        assert_eq!([board.turn(0), board.turn(0), board.turn(1), board.turn(9)], [0, 1, 0, 0]);
        assert_eq!([board.tells(), board.tells()], [true, false]);
    }
}
