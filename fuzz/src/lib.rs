#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

pub mod survivor;

use gpu_tune_engine::plan::{Layout, Mode, Own, Request, Reserve, Share, visible};
use gpu_tune_engine::spec::{CpuPolicy, MemPolicy, Smt};
use gpu_tune_engine::{CpuSet, Machine};

/// A fuzzer's bytes, taken apart.
#[derive(Debug)]
pub struct Input<'a> {
    /// What is wished, one byte a wish.
    pub wishes: &'a [u8],
    /// The CPUs that the step owns; what is no list means all.
    pub cpus: &'a str,
    /// Text of `CUDA_VISIBLE_DEVICES`.
    pub visible: &'a str,
    /// The machine's file.
    pub file: &'a [u8],
}

impl<'a> Input<'a> {
    /// `None` without three lines of text.
    pub fn new(data: &'a [u8]) -> Option<Self> {
        let mut parts = data.splitn(4, |byte| *byte == b'\n');
        let wishes = parts.next()?;
        let cpus = std::str::from_utf8(parts.next()?).ok()?;
        let visible = std::str::from_utf8(parts.next()?).ok()?;
        Some(Self { wishes, cpus, visible, file: parts.next()? })
    }

    fn wish(&self, at: usize) -> usize {
        self.wishes.get(at).copied().unwrap_or_default().into()
    }

    fn request(&self, machine: &Machine) -> Request {
        let gpus: Vec<usize> = (0..machine.gpus.len().min(256)).collect();
        let mut request = Request {
            tasks: [1, 2, 4, 8, 3, 16, 0, u32::MAX][self.wish(0) % 8],
            mode: [Mode::Auto, Mode::Rank, Mode::Launcher][self.wish(1) % 3],
            cpus: self.cpus.parse().unwrap_or_else(|_| machine.cpus.clone()),
            gpus,
            keep_launcher: self.wish(2) % 4 == 3,
            ..Request::default()
        };
        request.binding.cpu =
            [CpuPolicy::Exclusive, CpuPolicy::Numa, CpuPolicy::Socket, CpuPolicy::Off][self.wish(3) % 4];
        request.binding.mem = [MemPolicy::Preferred, MemPolicy::Bind, MemPolicy::Off][self.wish(4) % 3];
        request.binding.smt = [Smt::All, Smt::One][self.wish(5) % 2];
        request.binding.prefer_priority = self.wish(6) % 2 == 1;
        request.binding.reserve = match self.wish(7) % 3 {
            0 => Reserve::Nothing,
            1 => Reserve::FirstCorePerNuma,
            _ => Reserve::Cpus((0..32).collect()),
        };
        request
    }
}

/// Plans every task and checks what always holds.
pub fn plan(machine: &Machine, input: &Input<'_>) {
    let request = input.request(machine);
    let (own, _) = visible::resolve(input.visible, machine, &request.gpus);
    assert!(own.iter().all(|at| *at < request.gpus.len()), "a position that the step does not have");
    let layout = Layout::new(machine, &request);
    assert_eq!(layout.slices.len(), request.gpus.len(), "a GPU without a slice");
    assert_eq!(layout, Layout::new(machine, &request), "two plans from one input");
    for slice in &layout.slices {
        slice.shares.iter().chain([&slice.whole]).for_each(|share| check(machine, &request.cpus, share));
    }
    for id in (0..request.tasks.min(64)).chain([u32::MAX]) {
        for plan in [layout.task(id, Own::All), layout.task(id, Own::These { slices: &own, turn: id as usize })] {
            plan.ranks.iter().map(|rank| &rank.share).for_each(|share| check(machine, &request.cpus, share));
        }
    }
}

fn check(machine: &Machine, allowed: &CpuSet, share: &Share) {
    if let Some(cpus) = &share.cpus {
        assert!(!cpus.is_empty() && cpus.is_subset(allowed), "{cpus} of {allowed}");
    }
    if let Some(memory) = &share.memory {
        assert!(memory.nodes.contains(memory.first), "the first of {}", memory.nodes);
        assert!(memory.nodes.iter().all(|node| machine.has_host_memory(node)), "no memory in {}", memory.nodes);
    }
}
