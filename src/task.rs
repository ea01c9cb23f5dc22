//! One task, between fork and exec: which GPUs are its own, its part of the layout, its environment, two system calls.
//!
//! What may be read here is little: the task's own variables and mask, and where devices are constrained, its device
//! cgroup. No file of the admin's, no library, no thread, no lock.
#![forbid(unsafe_code)]

use crate::spank::Handle;
use crate::step::board::Record;
use crate::step::own::{self, Own};
use crate::step::standing::{self, Standing, View};
use crate::step::{Step, cpus};
use crate::{devices, environment, logging, telling, trace};
use gpu_tune_engine::apply::{Outcome, apply};
use gpu_tune_engine::os::Os;
use gpu_tune_engine::os::linux::{Linux, end_now, set_memlock};
use gpu_tune_engine::plan::{self, Layout, TaskPlan, visible};
use gpu_tune_engine::profile::Memlock;
use gpu_tune_engine::spec::CpuPolicy;
use gpu_tune_engine::{Code, CpuSet, Notice};
use std::borrow::Cow;

/// As root: how much memory the task may lock. Slurm would set the soft limit once more, after the hooks, from a variable
/// that holds the submit host's; only where it begins with `U` did the user ask for it (`--propagate`).
pub(crate) fn raise_limits(handle: &Handle<'_>, step: &Step) {
    const VARIABLE: &str = "SLURM_RLIMIT_MEMLOCK";
    let bytes = match step.memlock {
        None | Some(Memlock::User) => return,
        Some(Memlock::Unlimited) => None,
        Some(Memlock::Bytes(bytes)) => Some(bytes),
    };
    let propagated = handle.getenv_text(VARIABLE).is_some_and(|value| value.starts_with('U'));
    if step.dry_run || propagated {
        return;
    }
    match set_memlock(bytes) {
        Ok(()) => drop(handle.put(VARIABLE, None)),
        Err(error) if step.tells_limits() => logging::warn_user(&limits_refused(&error)),
        Err(_) => {}
    }
}

fn limits_refused(error: &std::io::Error) -> Notice {
    Notice::new(Code::Limits, format!("cannot raise the limit of locked memory: setrlimit: {error}"))
        .help("slurmd needs CAP_SYS_RESOURCE: look at `LimitMEMLOCK=` and the capabilities of its service")
}

/// Tunes the task.
pub(crate) fn run(handle: &Handle<'_>, step: &Step) {
    let Some(local_id) = handle.task_id() else { return };
    end_if_strict(step, step.failed.as_ref());
    let mut task = Task { handle, step, local_id, os: Linux, notices: Vec::new() };
    let (record, layout) = task.tune();
    telling::after(handle, step, &layout, local_id, record, &task.notices);
}

/// One of the task's hooks panicked.
pub(crate) fn fault(step: &Step, notice: &Notice) {
    end_if_strict(step, Some(notice));
    if step.tells() {
        logging::warn_user(notice);
    }
}

/// With `strict`, a task that cannot be tuned as asked ends here, with the reason on the user's terminal. A failing hook of
/// an `optional` plugin would be ignored, and one of a `required` plugin would cost the node.
fn end_if_strict(step: &Step, reason: Option<&Notice>) {
    let Some(reason) = reason.filter(|_| step.strict && !step.dry_run) else { return };
    if step.tells() {
        log::error!("{}", reason.message);
        logging::help(reason.help.as_deref());
        logging::help(Some("`strict` in plugstack.conf ends tasks that cannot be tuned as asked"));
    }
    end_now(1)
}

struct Task<'a> {
    handle: &'a Handle<'a>,
    step: &'a Step,
    local_id: u32,
    os: Linux,
    notices: Vec<Notice>,
}

impl<'a> Task<'a> {
    fn tune(&mut self) -> (Record, Cow<'a, Layout>) {
        let own = self.own();
        let turn = self.turn(&own);
        let mut record = Record { own: bits(&own), turn, left_alone: false, outcome: Outcome::default() };
        let (layout, left_alone) = self.layout();
        let plan = select(&layout, self.local_id, &own, turn);
        if let Some(notice) = left_alone {
            self.notices.push(notice);
            record.left_alone = true;
        } else if !self.step.dry_run {
            record.outcome = trace::part(trace::BINDING, || apply(&mut self.os, &plan.share));
        }
        if !self.step.dry_run {
            // After the binding: a launcher's ranks are known by the CPUs that it has now.
            let mask = self.os.get_affinity().ok();
            let standing = environment::Standing { mask: mask.as_ref(), left_alone: record.left_alone };
            self.step.environment.set(self.handle, self.step, &plan, standing, &mut self.notices);
        }
        let refused = record.outcome.notices(&format!("task {}", self.local_id), &plan.share);
        let unbound = |notice: &&Notice| matches!(notice.code, Code::OneCpu | Code::NoMachine | Code::NoShim);
        let nothing = layout.notices.iter().chain(&self.notices).find(unbound);
        end_if_strict(self.step, refused.first().or(nothing));
        (record, layout)
    }

    fn own(&mut self) -> Own {
        let step = self.step;
        let (machine, gpus) = (&step.machine, &step.request.gpus);
        let list = self.handle.getenv_text(visible::variable(machine, gpus));
        let (own, notices) =
            own::find(list.as_deref(), machine, gpus, || devices::may_open(machine, gpus, step.namespace.as_ref()));
        self.notices.extend(notices);
        own
    }

    /// Which of the tasks on the same GPU this one is. With at most one task for each GPU nobody should meet another.
    fn turn(&mut self, own: &Own) -> u16 {
        let first = match own {
            Own::These(positions) => positions.first().copied(),
            Own::All => None,
        };
        let (Some(first), Some(board)) = (first, &self.step.board) else { return 0 };
        let turn = board.turn(first);
        let gpus = &self.step.request.gpus;
        if turn > 0 && usize::try_from(self.step.request.tasks).is_ok_and(|tasks| tasks <= gpus.len()) {
            let pci = gpus.get(first).and_then(|&gpu| self.step.machine.gpus.get(gpu)).map(|gpu| gpu.pci.to_string());
            let message = format!("task {} is on the GPU {} of another task", self.local_id, pci.unwrap_or_default());
            let help = "give each task its own with `--gpus-per-task=1`, or start no more tasks than wanted";
            self.notices.push(Notice::new(Code::GpuShared, message).help(help));
        }
        turn
    }

    /// The layout that holds for this task, or why it is to be left as it is.
    fn layout(&mut self) -> (Cow<'a, Layout>, Option<Notice>) {
        let made = Cow::Borrowed(&self.step.layout);
        if self.step.request.binding.cpu == CpuPolicy::Off {
            return (made, None);
        }
        match self.standing() {
            // A kernel that does not tell the mask will refuse to set one, and that is told.
            Ok(Standing::AsPlanned) | Err(_) => (made, None),
            Ok(Standing::LeftAlone(cpus)) => (made, Some(narrowed_by_others(self.local_id, &cpus))),
            Ok(Standing::Anew(cpus)) => {
                let request = plan::Request { cpus, ..self.step.request.clone() };
                (Cow::Owned(Layout::new(&self.step.machine, &request)), None)
            }
        }
    }

    fn standing(&mut self) -> std::io::Result<Standing> {
        let text = |name: &str| self.handle.getenv_text(name);
        let masks = cpus::masks(text("SLURM_CPU_BIND_TYPE").as_deref(), text("SLURM_CPU_BIND_LIST").as_deref());
        let view = View {
            planned: &self.step.request.cpus,
            before: &self.step.cpus_before,
            machine: &self.step.machine.cpus,
            masks: masks.as_deref(),
            local_id: usize::try_from(self.local_id).unwrap_or(usize::MAX),
        };
        standing::look(&mut self.os, &view)
    }
}

fn narrowed_by_others(local_id: u32, found: &CpuSet) -> Notice {
    let message = format!("task {local_id} is left as it is: something narrowed it to the CPUs {found} before us");
    Notice::new(Code::UserBinding, message)
}

/// A task's part of the layout.
pub(crate) fn select(layout: &Layout, local_id: u32, own: &Own, turn: u16) -> TaskPlan {
    match own {
        Own::All => layout.task(local_id, plan::Own::All),
        Own::These(slices) => layout.task(local_id, plan::Own::These { slices, turn: turn.into() }),
    }
}

/// Own GPUs as bits, for the board.
fn bits(own: &Own) -> Option<u64> {
    match own {
        Own::All => None,
        Own::These(positions) => Some(
            positions.iter().filter_map(|&at| u32::try_from(at).ok()).fold(0, |bits, at| bits | 1_u64.wrapping_shl(at)),
        ),
    }
}
