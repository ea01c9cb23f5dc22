//! Which of the step's GPUs a list of visible devices names: the text of `CUDA_VISIBLE_DEVICES` or `ROCR_VISIBLE_DEVICES`.
//!
//! Entries are indices in the step's order, UUIDs or their beginnings (`GPU-8932f937`), MIG UUIDs (`MIG-…`) and the old
//! MIG names (`MIG-GPU-<uuid>/<gi>/<ci>`). A MIG device stands for its GPU.
#![forbid(unsafe_code)]

use crate::machine::{Gpu, Vendor};
use crate::text::{is_digits, shown};
use crate::{Code, Machine, Notice};

/// The variable in which the runtime of these GPUs (indices into [`Machine::gpus`]) looks for its list.
pub fn variable(machine: &Machine, gpus: &[usize]) -> &'static str {
    let first = gpus.first().and_then(|&gpu| machine.gpus.get(gpu));
    match first.map(|gpu| gpu.vendor) {
        Some(Vendor::Amd) => "ROCR_VISIBLE_DEVICES",
        Some(Vendor::Nvidia) | None => "CUDA_VISIBLE_DEVICES",
    }
}

/// Positions in `step_gpus` (which holds indices into [`Machine::gpus`]) in the list's order.
///
/// An empty list, `-1` and `NoDevFiles` (which old Slurm writes) mean no GPU. As for CUDA, the list ends at the first `-1`
/// and at the first index of no GPU (CUDA C++ programming guide, environment variables). Another entry that names no GPU
/// of the step, or several, is passed over: the description may be older than a MIG device. One notice names all such. If
/// nothing else is left, all GPUs of the step are returned: what the task sees is not known then.
pub fn resolve(list: &str, machine: &Machine, step_gpus: &[usize]) -> (Vec<usize>, Vec<Notice>) {
    let mut step = Step { machine, gpus: step_gpus, found: Vec::new() };
    let mut bad = Vec::new();
    let entries = list.split(',').map(str::trim);
    for entry in entries.take_while(|entry| !["", "-1", "NoDevFiles"].contains(entry)) {
        if let Err(reason) = step.take(entry) {
            bad.push(format!("`{}` {reason}", shown(entry)));
            if is_digits(entry) {
                break;
            }
        }
    }
    if bad.is_empty() {
        return (step.found, Vec::new());
    }
    let nothing = step.found.is_empty();
    let found = if nothing { (0..step_gpus.len()).collect() } else { step.found };
    (found, vec![bad_entries(&bad, if nothing { "all GPUs of the step count" } else { "the others count" })])
}

fn bad_entries(bad: &[String], left: &str) -> Notice {
    const SHOWN: usize = 4;
    let more = if bad.len() > SHOWN { format!(" and {} more", bad.len() - SHOWN) } else { String::new() };
    let first = bad.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    Notice::new(Code::BadVisible, format!("visible devices: {first}{more}: {left}"))
        .help("name the step's GPUs by index or by the UUIDs that `nvidia-smi -L` shows; `gpu-tune snapshot` after a change of MIG")
}

struct Step<'a> {
    machine: &'a Machine,
    gpus: &'a [usize],
    found: Vec<usize>,
}

impl Step<'_> {
    fn take(&mut self, entry: &str) -> Result<(), &'static str> {
        let position = match entry.strip_prefix("MIG-") {
            _ if is_digits(entry) => self.index(entry)?,
            Some(old) if old.starts_with("GPU-") => self.free(self.by_uuid(old.split('/').next().unwrap_or(old))?),
            Some(_) => self.mig(entry)?,
            None => self.by_uuid(entry)?,
        };
        // CUDA shows a GPU once, however often it is named; MIG devices are devices of their own.
        if entry.starts_with("MIG-") || !self.found.contains(&position) {
            self.found.push(position);
        }
        Ok(())
    }

    fn index(&self, entry: &str) -> Result<usize, &'static str> {
        let index = entry.parse::<usize>().ok().filter(|index| *index < self.gpus.len());
        index.ok_or("is beyond the step's last GPU, and for CUDA the list ends there")
    }

    fn by_uuid(&self, prefix: &str) -> Result<usize, &'static str> {
        let named = |gpu: &Gpu| gpu.uuid.as_ref().is_some_and(|uuid| begins(uuid, prefix));
        self.only(|gpu| named(gpu)).ok_or("is no GPU of the step")?
    }

    fn mig(&self, prefix: &str) -> Result<usize, &'static str> {
        let named = |gpu: &Gpu| gpu.mig.iter().any(|mig| begins(&mig.uuid, prefix));
        match self.only(named) {
            Some(found) => self.device(found?, prefix),
            // The description may be older than the MIG device; with one GPU there is no doubt.
            None if self.distinct() == 1 => Ok(self.free(0)),
            None => Err("is no MIG device of the step's GPUs"),
        }
    }

    /// The position that belongs to this MIG device, where the step has one for each device of the GPU.
    fn device(&self, position: usize, prefix: &str) -> Result<usize, &'static str> {
        let Some(&gpu) = self.gpus.get(position) else { return Ok(position) };
        let places: Vec<usize> = (0..self.gpus.len()).filter(|&at| self.gpus.get(at) == Some(&gpu)).collect();
        let devices = self.machine.gpus.get(gpu).map_or(&[][..], |gpu| &gpu.mig);
        let mut named = devices.iter().enumerate().filter(|(_, mig)| begins(&mig.uuid, prefix)).map(|(at, _)| at);
        let place = named.next().filter(|_| devices.len() == places.len()).and_then(|at| places.get(at).copied());
        if named.next().is_some() { Err("names several MIG devices") } else { Ok(place.unwrap_or(self.free(position))) }
    }

    /// The first position of that GPU which is not taken yet, else the first.
    fn free(&self, position: usize) -> usize {
        let same = |at: &usize| self.gpus.get(*at) == self.gpus.get(position);
        (0..self.gpus.len()).filter(same).find(|at| !self.found.contains(at)).unwrap_or(position)
    }

    /// The first position of the one GPU that fits; `None` when none does, an error when several do.
    fn only(&self, fits: impl Fn(&Gpu) -> bool) -> Option<Result<usize, &'static str>> {
        let gpu = |at: usize| self.gpus.get(at).and_then(|&gpu| self.machine.gpus.get(gpu));
        let mut fitting = (0..self.gpus.len()).filter(|&at| gpu(at).is_some_and(&fits));
        let first = fitting.next()?;
        let other = fitting.any(|at| self.gpus.get(at) != self.gpus.get(first));
        Some(if other { Err("names several GPUs") } else { Ok(first) })
    }

    fn distinct(&self) -> usize {
        self.gpus.iter().collect::<std::collections::BTreeSet<_>>().len()
    }
}

/// UUIDs are hexadecimal text: its case does not matter.
fn begins(uuid: &str, prefix: &str) -> bool {
    uuid.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}
