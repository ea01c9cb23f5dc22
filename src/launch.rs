//! Launchers and ranks: who binds the processes that Slurm does not start, how those of a step find each other, and how
//! what an outer step set goes away.
//!
//! The engine decides; here its questions are answered from the step's environment.
#![forbid(unsafe_code)]

use crate::spank::{Handle, own_env};
use crate::step::Step;
use gpu_tune_engine::launch::command::{self, Command};
use gpu_tune_engine::launch::rendezvous::{self, BATCH_STEP, Decision, Gpus, Place};
use gpu_tune_engine::launch::{binders, gpus, ours, plan_text};
use gpu_tune_engine::plan::{Mode, Share, TaskPlan};
use gpu_tune_engine::profile::Resolved;
use gpu_tune_engine::spec::{Rendezvous, SiteConfig};
use gpu_tune_engine::{Code, CpuSet, Notice, regular, trusted};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// What a step's launchers need to know.
#[derive(Debug, Clone)]
pub(crate) struct Launch {
    command: Command,
    own_binding: binders::Wish,
    binds_later: Option<String>,
    rendezvous: Rendezvous,
    workers: bool,
    shim: Result<PathBuf, Notice>,
    /// How many GPUs the whole step was asked to have, if it was asked so.
    total_gpus: Option<u32>,
}

impl Default for Launch {
    fn default() -> Self {
        let nothing = Notice::new(Code::NoShim, "not looked for");
        Self {
            command: Command::Other,
            own_binding: binders::Wish::default(),
            binds_later: None,
            rendezvous: Rendezvous::Off,
            workers: false,
            shim: Err(nothing),
            total_gpus: None,
        }
    }
}

/// As root: whether the shim may be put into other people's processes.
pub(crate) fn find_shim(site: &SiteConfig) -> Result<PathBuf, Notice> {
    match trusted::check(&site.shim) {
        Ok(()) => Ok(site.shim.clone()),
        Err(error) => {
            let message = format!("the ranks of launchers are not bound: {}", gpu_tune_engine::text::chain(&error));
            let help = error.help().unwrap_or_else(|| "name the shim in plugstack.conf: `shim=PATH`".to_owned());
            Err(Notice::new(Code::NoShim, message).help(help))
        }
    }
}

impl Launch {
    pub(crate) fn new(
        handle: &Handle<'_>,
        resolved: &Resolved,
        shim: Result<PathBuf, Notice>,
        total_gpus: Option<u32>,
    ) -> Self {
        let argv: Vec<String> = handle.command().iter().map(|word| word.to_string_lossy().into_owned()).collect();
        Self {
            command: command::kind(&argv),
            own_binding: binders::wish(&argv),
            binds_later: binders::later(&argv).map(str::to_owned),
            rendezvous: resolved.rendezvous,
            workers: resolved.workers,
            shim,
            total_gpus,
        }
    }

    /// What the tasks are, as far as their command tells.
    pub(crate) fn mode(&self) -> Mode {
        self.command.mode()
    }

    /// What the command binds itself before anything of it runs (`srun numactl …`).
    pub(crate) fn own_binding(&self) -> binders::Wish {
        self.own_binding
    }

    /// Whether somebody wants the ranks of launchers bound.
    pub(crate) fn binds_ranks(&self) -> bool {
        self.workers
    }

    /// The word of the command that binds ranks later.
    pub(crate) fn binds_later(&self) -> Option<&str> {
        self.binds_later.as_deref()
    }

    /// The plan for the ranks that a task starts, as text, and the shim. `cpus` are the task's own.
    pub(crate) fn ranks(
        &self,
        handle: &Handle<'_>,
        plan: &TaskPlan,
        cpus: &CpuSet,
    ) -> Result<Option<(String, &PathBuf)>, Notice> {
        if !self.workers || plan.ranks.iter().all(|rank| rank.share == Share::default()) {
            return Ok(None);
        }
        let shim = self.shim.as_ref().map_err(Clone::clone)?;
        if self.command == Command::Container {
            let message =
                "the ranks of launchers are not bound: the command enters a container, which may lack the shim";
            let help = "let Slurm make the container (pyxis, `--container`), or run `gpu-tune exec` inside it";
            return Err(Notice::new(Code::NoShim, message).help(help));
        }
        can_be_loaded(shim)?;
        let var = |name: &str| handle.getenv(name).map(OsString::into_encoded_bytes);
        Ok(Some((plan_text::encode(cpus, var, &plan.ranks), shim)))
    }

    /// The variables by which a task finds its peers.
    pub(crate) fn rendezvous(&self, handle: &Handle<'_>, step: &Step, plan: &TaskPlan) -> Decision {
        let text = |name: &str| handle.getenv_text(name);
        let batch = step.request.keep_launcher;
        let hosts = if batch { text("SLURMD_NODENAME") } else { text("SLURM_STEP_NODELIST") }.unwrap_or_default();
        let place = Place {
            job: handle.job_id().unwrap_or(0),
            step: handle.step_id().unwrap_or(BATCH_STEP),
            hosts: &hosts,
            nodes: handle.nodes().filter(|_| !batch).unwrap_or(1),
            node: handle.node_id().filter(|_| !batch).unwrap_or(0),
            tasks: handle.total_tasks().filter(|_| !batch).unwrap_or(1),
            tasks_here: step.request.tasks,
            task: handle.global_task_id().unwrap_or(0),
            local_task: plan.local_id,
        };
        let user = |name: &str| handle.getenv(name).is_some();
        if plan.ranks.is_empty() && self.mode() == Mode::Auto && !batch {
            return rendezvous::for_rank(self.rendezvous, &place, user);
        }
        let here = u32::try_from(plan.gpus.len()).unwrap_or(0);
        let of_node = text("SLURM_GPUS_ON_NODE").and_then(|count| count.parse().ok()).unwrap_or(here);
        let gpus =
            Gpus { here, even: self.total_gpus.is_none_or(|total| total == of_node.saturating_mul(place.nodes)) };
        rendezvous::for_launcher(self.rendezvous, self.command, gpus, &place, user)
    }
}

/// Whether the loader will find the shim, asked as the task's user in the task's mount namespace: a container may lack
/// the file, its directory may be closed. The loader of each program would complain.
fn can_be_loaded(shim: &Path) -> Result<(), Notice> {
    // Not a pipe, at which the task would wait for ever.
    let (why, help) = match regular::open(shim) {
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            ("may not read", "the file and the way to it must be open to all users: `chmod a+rX`")
        }
        _ => ("does not see", "mount the file into the container, at the same path"),
    };
    let message = format!("the ranks of launchers are not bound: the task {why} `{}`", shim.display());
    Err(Notice::new(Code::NoShim, message).help(help))
}

/// In srun: lets the nodes know.
pub(crate) fn tell_total_gpus() {
    let words: Vec<String> = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    if let Some(total) = gpus::in_total(&words, std::env::var("SLURM_GPUS").ok().as_deref()) {
        own_env::set(ours::TOTAL_GPUS, total.to_string().as_ref());
    }
}

/// Takes away what an outer step set, from the job's environment. Returns what srun told about the step's GPUs.
pub(crate) fn forget_outer(handle: &Handle<'_>) -> Option<u32> {
    let total = handle.getenv_text(ours::TOTAL_GPUS).and_then(|total| total.parse().ok());
    for (name, value) in ours::undo(|name| handle.getenv(name)) {
        if let Err(error) = handle.put(&name, value.as_deref()) {
            log::info!("`{name}` of an outer step stays: {error}");
        }
    }
    total
}

/// The same in srun, sbatch and salloc, before Slurm copies their environment: a step of ours may run there, and what it has
/// must not travel into another job or to another node.
pub(crate) fn forget_own() {
    for (name, value) in ours::undo(|name| std::env::var_os(name)) {
        match value {
            Some(value) => own_env::set(&name, &value),
            None => own_env::remove(&name),
        }
    }
}
