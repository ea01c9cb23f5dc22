//! A step as it is known before its tasks are forked: what the admin and the user want, what Slurm gave, and the layout that
//! follows.
#![forbid(unsafe_code)]

pub(crate) mod board;
pub(crate) mod cpus;
mod facts;
pub(crate) mod own;
pub(crate) mod standing;
pub(crate) mod wish;

use crate::devices::Namespace;
use crate::launch::Launch;
use crate::spank::Handle;
use crate::{discovery, environment, launch};
use board::Board;
use gpu_tune_engine::fabric::Fabric;
use gpu_tune_engine::launch::binders;
use gpu_tune_engine::launch::rendezvous::{BATCH_STEP, INTERACTIVE_STEP};
use gpu_tune_engine::os::Os;
use gpu_tune_engine::os::linux::Linux;
use gpu_tune_engine::plan::{Binding, Layout, Mode, Request};
use gpu_tune_engine::profile::{Catalog, Memlock, Resolved};
use gpu_tune_engine::spec::{Choice, Lock, SiteConfig, Smt, Spec};
use gpu_tune_engine::text::{chain, shown};
use gpu_tune_engine::tune::{Host, Tuned, tune};
use gpu_tune_engine::{Code, CpuSet, Machine, Notice, trusted};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use wish::Wish;

/// Slurm's number of the step that adopts foreign processes (`SLURM_EXTERN_CONT`).
const EXTERN_STEP: u32 = 0xffff_fffc;

/// What root read for the step.
pub(crate) struct Prepared {
    spec: Spec,
    /// Not the user's, but that of `default=`.
    by_default: bool,
    /// Why, with `strict`, the profiles cannot be what the site wants.
    doubt: Option<Notice>,
    catalog: Catalog,
    machine: Result<Machine, Notice>,
    shim: Result<PathBuf, Notice>,
    notices: Vec<Notice>,
}

impl Prepared {
    /// Reads profiles and snapshot. `None` when the step is not to be touched.
    pub(crate) fn read(handle: &Handle<'_>, site: &SiteConfig, option: Option<&OsStr>) -> Option<Self> {
        if handle.step_id() == Some(EXTERN_STEP) {
            return None;
        }
        let own = option.map(|text| Spec::from_bytes(text.as_bytes())).transpose();
        let refused = own.is_err();
        let default = site.default.clone().filter(|_| !refused || site.locked(Lock::Off));
        // It is for steps with GPUs.
        let default = default.filter(|_| gpu_numbers(handle).is_some());
        let by_default = default.is_some();
        let without = if by_default { "the cluster's default is used" } else { WITHOUT_TUNING };
        let mut notices = Vec::new();
        let own = own.unwrap_or_else(|error| {
            notices.push(unusable(&error, error.help(), without));
            None
        });
        let asked = own.is_some();
        let spec = own.or(default);
        let Some(spec) = spec else {
            // The text came past srun's own check: an older job, or another srun. The task tells, nothing is changed.
            return refused.then(|| Self::only(notices));
        };
        if matches!(spec.profile, Choice::Off | Choice::List) && !(by_default && site.locked(Lock::Off)) {
            return None;
        }
        let (catalog, untrusted) = Catalog::load(&site.profile_dir);
        // A built-in profile is not the site's of that name.
        let doubt = trusted::check_dir(&site.profile_dir).err().filter(|error| site.strict && !error.is_missing());
        let doubt = doubt.map(|error| unusable(&error, error.help(), ""));
        notices.extend(untrusted);
        let (machine, shim) = (discovery::machine(site, asked), launch::find_shim(site));
        Some(Self { spec, by_default: !asked, doubt, catalog, machine, shim, notices })
    }

    fn only(notices: Vec<Notice>) -> Self {
        let nothing = Notice::new(Code::NoMachine, "not looked for");
        Self {
            spec: Spec::named("off"),
            by_default: false,
            doubt: None,
            catalog: Catalog::default(),
            machine: Err(nothing.clone()),
            shim: Err(nothing),
            notices,
        }
    }
}

const WITHOUT_TUNING: &str = "the step goes on without tuning";

fn unusable(error: &dyn std::error::Error, help: Option<String>, what_now: &str) -> Notice {
    let and = if what_now.is_empty() { "" } else { "; " };
    Notice::new(Code::Profile, format!("{}{and}{what_now}", chain(error))).help_if(help)
}

/// What the tasks of this node work from.
pub(crate) struct Step {
    /// The profile's name, for people and for `GPU_TUNE_PROFILE`.
    pub(crate) profile: String,
    pub(crate) machine: Machine,
    /// What the layout was made from: a task makes it anew if it finds other CPUs.
    pub(crate) request: Request,
    pub(crate) layout: Layout,
    /// The CPUs that slurmstepd may run on.
    pub(crate) cpus_before: CpuSet,
    pub(crate) wish: Wish,
    pub(crate) environment: environment::Plan,
    pub(crate) launch: Launch,
    pub(crate) memlock: Option<Memlock>,
    pub(crate) verbose: bool,
    pub(crate) dry_run: bool,
    pub(crate) strict: bool,
    /// Why the step cannot be tuned as asked. With `strict` its tasks end.
    pub(crate) failed: Option<Notice>,
    /// What the user should hear, once for the node.
    pub(crate) notices: Vec<Notice>,
    pub(crate) board: Option<Board>,
    /// Where the step's files are: a task that was moved elsewhere since is in a container.
    pub(crate) namespace: Option<Namespace>,
}

impl Step {
    /// Reads the step and makes its layout; `total_gpus` is what srun told. `None` when it is not to be touched.
    pub(crate) fn read(
        handle: &Handle<'_>,
        site: &SiteConfig,
        prepared: Prepared,
        total_gpus: Option<u32>,
    ) -> Option<Self> {
        let numbers = gpu_numbers(handle);
        let Prepared { spec, by_default, doubt, catalog, machine, shim, mut notices } = prepared;
        let (machine, mut failed) = match machine {
            Ok(machine) => (machine, None),
            // A step without GPUs gets the environment only, for which no machine is needed.
            Err(notice) => (Machine::default(), numbers.is_some().then_some(notice)),
        };
        let gpus = step_gpus(numbers.as_deref(), &machine, &mut failed);
        let tasks = handle.local_tasks().unwrap_or(1);
        let facts = facts::read(handle, &machine, &gpus, tasks);
        let mut step = Self { board: Board::new(tasks, gpus.len()).ok(), strict: site.strict, ..Self::default() };
        let host = Host {
            user: &|name| handle.getenv(name),
            nccl_conf: &environment::nccl_conf(),
            fabric: &|| Fabric::read(Path::new("/")),
        };
        match tune(&catalog, &spec, site, facts, &host) {
            Ok(Some(tuned)) => {
                step.launch = Launch::new(handle, &tuned.resolved, shim, total_gpus);
                step.fill(handle, machine, gpus, tuned);
            }
            Ok(None) if notices.is_empty() => return None,
            Ok(None) => {}
            Err(error) => {
                let error = if by_default { error.of_word("default") } else { error };
                let what_now = if site.strict { "" } else { WITHOUT_TUNING };
                failed = Some(unusable(&error, error.help(), what_now));
            }
        }
        notices.append(&mut step.notices);
        Some(Self { notices, failed: failed.or(doubt), ..step })
    }

    /// A step of which only faults are known.
    pub(crate) fn faulty(tasks: u32, strict: bool, mut notices: Vec<Notice>) -> Self {
        let failed = notices.pop();
        Self { strict, failed, notices, board: Board::new(tasks, 0).ok(), ..Self::default() }
    }

    /// Whether the caller is the one task that tells what concerns all.
    pub(crate) fn tells(&self) -> bool {
        self.board.as_ref().is_none_or(Board::tells)
    }

    /// The same for the limits, which each task raises as root.
    pub(crate) fn tells_limits(&self) -> bool {
        self.board.as_ref().is_none_or(Board::tells_limits)
    }

    fn fill(&mut self, handle: &Handle<'_>, machine: Machine, gpus: Vec<usize>, tuned: Tuned) {
        let Tuned { resolved, decisions } = tuned;
        let text = |name: &str| handle.getenv_text(name);
        self.wish = Wish::read(text("SLURM_CPU_BIND").as_deref(), text("SLURM_MEM_BIND").as_deref());
        self.cpus_before = Linux.get_affinity().unwrap_or_default();
        let of_cores = handle.step_cores().and_then(|list| cpus::of_cores(&list, &machine));
        let keeps_all = is_script(handle);
        self.request = Request {
            tasks: handle.local_tasks().unwrap_or(1),
            mode: if keeps_all { Mode::Launcher } else { self.launch.mode() },
            gpus,
            cpus: of_cores.map_or_else(|| self.cpus_before.clone(), |cores| &cores & &self.cpus_before),
            mems: Linux.mems_allowed().ok(),
            binding: self.binding(&resolved),
            gpu_numa: resolved.gpu_numa.clone(),
            keep_launcher: keeps_all,
        };
        self.layout = Layout::new(&machine, &self.request);
        self.machine = machine;
        self.namespace = Namespace::of_caller();
        (self.verbose, self.dry_run, self.memlock) = (resolved.verbose, resolved.dry_run, resolved.memlock);
        self.notices.extend(resolved.notices.iter().cloned());
        self.environment = environment::Plan::new(decisions, resolved.skipped);
        self.profile = resolved.name;
    }

    /// The binding, less what the user does himself.
    fn binding(&mut self, resolved: &Resolved) -> Binding {
        let mut binding = resolved.binding.clone();
        if self.wish.one_thread {
            binding.smt = Smt::One;
        }
        let of_command = self.launch.own_binding();
        let wish = binders::Wish {
            cpus: self.wish.cpus.then_some("--cpu-bind").or(of_command.cpus),
            memory: self.wish.memory.then_some("--mem-bind").or(of_command.memory),
        };
        binding.less(wish.cpus.is_some(), wish.memory.is_some());
        let later = || self.launch.binds_later().map(|word| format!("what `{word}` binds is left as it is"));
        self.notices.extend(wish.told().or_else(later).map(|message| Notice::new(Code::UserBinding, message)));
        binding
    }
}

impl Default for Step {
    fn default() -> Self {
        Self {
            profile: String::new(),
            machine: Machine::default(),
            request: Request::default(),
            layout: Layout::default(),
            cpus_before: CpuSet::new(),
            wish: Wish::default(),
            environment: environment::Plan::default(),
            launch: Launch::default(),
            memlock: None,
            verbose: false,
            dry_run: false,
            strict: false,
            failed: None,
            notices: Vec::new(),
            board: None,
            namespace: None,
        }
    }
}

/// The step's GPUs by Slurm's numbers. A batch script has its job's; in any other step the job's are those of others.
fn gpu_numbers(handle: &Handle<'_>) -> Option<String> {
    let of_job = || handle.getenv_text("SLURM_JOB_GPUS").filter(|_| is_script(handle));
    handle.getenv_text("SLURM_STEP_GPUS").or_else(of_job)
}

/// A batch script or an interactive shell.
fn is_script(handle: &Handle<'_>) -> bool {
    matches!(handle.step_id(), Some(BATCH_STEP | INTERACTIVE_STEP))
}

/// The step's GPUs as indices into the machine's. A number beyond the machine means that the snapshot describes another
/// one.
fn step_gpus(numbers: Option<&str>, machine: &Machine, failed: &mut Option<Notice>) -> Vec<usize> {
    let Some(numbers) = numbers.filter(|_| failed.is_none()) else { return Vec::new() };
    let gpus = own::of_step(numbers, machine).filter(|gpus| gpus.len() <= board::MOST_GPUS);
    if gpus.is_none() {
        let (numbers, gpus) = (shown(numbers), machine.gpus.len());
        let message = format!("the step has the GPUs {numbers}, but the node's description has {gpus}");
        let help =
            "look at `gpu-tune topo` on the node: the driver may not show all GPUs, or `topology=` names a wrong file";
        *failed = Some(Notice::new(Code::NoMachine, message).help(help));
    }
    gpus.unwrap_or_default()
}
