//! Decides what becomes of the command.

use super::around::{self, Local, Pods, Var};
use super::bound::BoundBy;
use super::{Args, words};
use crate::proc::Proc;
use crate::source::absolute;
use crate::{CliError, output, wish};
use gpu_tune_engine::env::{Decision, NCCL_CONF, NcclConf, RankValues};
use gpu_tune_engine::fabric::Fabric;
use gpu_tune_engine::launch::command::{self, Command};
use gpu_tune_engine::launch::environment::{Tuning, changes};
use gpu_tune_engine::launch::ours::{Change, OWN, undo};
use gpu_tune_engine::launch::{binders, plan_text, rendezvous};
use gpu_tune_engine::os::Os as _;
use gpu_tune_engine::os::linux::Linux;
use gpu_tune_engine::plan::{Layout, Mode, Own, Request, Share, TaskPlan, visible};
use gpu_tune_engine::profile::{Facts, Resolved};
use gpu_tune_engine::spec::{SiteConfig, USER_VARIABLE};
use gpu_tune_engine::text::chain;
use gpu_tune_engine::tune::{Host, Tuned, tune};
use gpu_tune_engine::{Code, CpuSet, Machine, Notice, regular, report};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

/// The command, and what it starts with.
#[derive(Debug, Default)]
pub(super) struct Start {
    pub(super) program: OsString,
    pub(super) args: Vec<OsString>,
    /// What is done to the environment.
    pub(super) changes: Vec<Change>,
    /// What the process is bound to.
    pub(super) share: Share,
    /// For `verbose`.
    pub(super) table: Vec<String>,
    /// What a person should hear.
    pub(super) notices: Vec<Notice>,
}

/// Decides. An unknown profile or a wrong option is an error; what cannot be had of a machine is only told, as in a job.
pub(super) fn start(args: &Args) -> Result<Start, CliError> {
    // The ranks may start elsewhere.
    let shim = absolute(&args.shim);
    let site = SiteConfig { fabric: args.fabric.clone(), shim, ..SiteConfig::default() };
    let (catalog, notices) = wish::catalog(args.profile_dir.as_deref(), false);
    // Why a profile is unknown may be what the directory is warned about.
    let told = |_: &CliError| notices.iter().for_each(output::warn);
    let variable = std::env::var_os(USER_VARIABLE).map(|text| text.to_string_lossy().into_owned());
    let (spec, command) = words::split(&args.words, variable.as_deref(), &catalog, &site).inspect_err(told)?;
    wish::fabric(&catalog, &site).inspect_err(told)?;
    let surroundings = Surroundings::read(command);
    let mut made = Start { notices, changes: surroundings.undone.clone(), ..Start::default() };
    if let Some((program, rest)) = command.split_first() {
        (made.program, made.args) = (program.clone(), rest.to_vec());
    }
    let (machine, gpus) = machine(args, &surroundings, &mut made.notices);
    let facts = surroundings.facts(&machine, &gpus.own);
    let host = Host {
        user: &|name| surroundings.var(name),
        nccl_conf: &NcclConf::load(Path::new(NCCL_CONF)).unwrap_or_default(),
        fabric: &|| Fabric::read(Path::new("/")),
    };
    if let Some(Tuned { resolved, decisions }) = tune(&catalog, &spec, &site, facts, &host).map_err(wish::refused)? {
        let (surroundings, machine) = (&surroundings, &machine);
        if surroundings.tells() {
            made.notices.extend(resolved.notices.iter().cloned());
        }
        Tuner { site: &site, surroundings, machine, resolved: &resolved, decisions: &decisions }.tune(&gpus, &mut made);
    }
    Ok(made)
}

/// What is found out about this process, before any machine.
struct Surroundings {
    command: Command,
    /// What the command binds itself.
    own_binding: binders::Wish,
    /// This process is a rank; never for a launcher, which some containers start with a local rank.
    local: Option<Local>,
    pods: Option<Pods>,
    nodes: Option<u32>,
    /// What takes away what an outer gpu-tune set.
    undone: Vec<Change>,
    /// The environment without that.
    env: BTreeMap<OsString, OsString>,
}

impl Surroundings {
    fn read(command: &[OsString]) -> Self {
        let argv: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
        let (command, own_binding) = (command::kind(&argv), binders::wish(&argv));
        let undone = undo(|name| std::env::var_os(name));
        let mut env: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
        for (name, value) in &undone {
            match value {
                Some(value) => env.insert(name.into(), value.clone()),
                None => env.remove(&OsString::from(name)),
            };
        }
        let var: Var<'_> = &|name| env.get(&OsString::from(name))?.to_str().map(str::to_owned);
        let local = around::local(var).filter(|_| command.mode() == Mode::Auto);
        let pods = Pods::read(var).filter(|_| local.is_none());
        let own_topology = matches!(command, Command::Torchrun { own_topology: true });
        let nodes = around::nodes(var, pods.as_ref(), own_topology);
        Self { command, own_binding, local, pods, nodes, undone, env }
    }

    fn var(&self, name: &str) -> Option<OsString> {
        self.env.get(&OsString::from(name)).cloned()
    }

    /// Whether an outer gpu-tune planned where this process runs.
    fn is_planned(&self) -> bool {
        self.undone.iter().any(|(name, _)| name == OWN[1])
    }

    /// Whether this process tells what concerns all ranks of the node: one of them is enough.
    fn tells(&self) -> bool {
        self.local.is_none_or(|local| local.rank == 0)
    }

    fn facts(&self, machine: &Machine, gpus: &[usize]) -> Facts {
        Facts {
            gpus: machine.models(gpus),
            nodes: self.nodes,
            tasks_per_node: Some(self.local.map_or(1, |local| local.size.unwrap_or(to_u32(gpus.len())))),
            container: self.in_container(),
            arch: std::env::consts::ARCH.to_owned(),
            ..Facts::default()
        }
    }

    /// The marks that Docker, Podman and Kubernetes leave.
    fn in_container(&self) -> bool {
        let files = ["/.dockerenv", "/run/.containerenv"];
        self.var("KUBERNETES_SERVICE_HOST").is_some() || files.iter().any(|file| Path::new(file).exists())
    }
}

/// The GPUs of this machine that may be used, and of these the ones that this process sees, as indices into the machine's.
#[derive(Default)]
struct Gpus {
    all: Vec<usize>,
    own: Vec<usize>,
}

/// A machine that cannot be read leaves the environment to be tuned.
fn machine(args: &Args, surroundings: &Surroundings, notices: &mut Vec<Notice>) -> (Machine, Gpus) {
    match args.source.read() {
        Ok((machine, told)) => {
            notices.extend(told);
            let gpus = gpus(&machine, surroundings, notices);
            (machine, gpus)
        }
        Err(error) => {
            let message = format!("only the environment is tuned: {}", chain(&error));
            notices.push(Notice::new(Code::NoMachine, message).help_if(error.help().map(str::to_owned)));
            (Machine::default(), Gpus::default())
        }
    }
}

/// In a container the PCI bus shows every GPU of the machine, NVML only those that the container may use, so these have
/// UUIDs.
fn gpus(machine: &Machine, surroundings: &Surroundings, notices: &mut Vec<Notice>) -> Gpus {
    let named = machine.gpus.iter().any(|gpu| gpu.uuid.is_some());
    let usable = machine.gpus.iter().enumerate().filter(|(_, gpu)| !named || gpu.uuid.is_some());
    let all: Vec<usize> = usable.map(|(at, _)| at).collect();
    let Some(list) = surroundings.var(visible::variable(machine, &all)) else { return Gpus { own: all.clone(), all } };
    let (positions, told) = visible::resolve(&list.to_string_lossy(), machine, &all);
    notices.extend(told);
    let own = positions.iter().filter_map(|position| all.get(*position).copied()).collect();
    Gpus { all, own }
}

struct Tuner<'a> {
    site: &'a SiteConfig,
    surroundings: &'a Surroundings,
    machine: &'a Machine,
    resolved: &'a Resolved,
    decisions: &'a [Decision],
}

impl Tuner<'_> {
    fn tune(&self, gpus: &Gpus, made: &mut Start) {
        let allowed = Linux.get_affinity().unwrap_or_default();
        let bound =
            self.surroundings.local.and_then(|_| BoundBy::find(&Proc::at("/proc"), std::process::id(), &allowed));
        // What an outer gpu-tune did needs no word.
        if let Some(bound) = bound.as_ref().filter(|_| self.surroundings.tells() && !self.surroundings.is_planned()) {
            made.notices.push(bound.told(&allowed));
        }
        let plan = self.plan(gpus, &allowed, bound.is_some(), &mut made.notices);
        let found = self.rendezvous(&plan, to_u32(gpus.own.len()));
        let ranks = self.ranks(&plan, &allowed, &mut made.notices);
        let values = RankValues::of(self.machine, &allowed, &plan);
        let tuning = Tuning {
            profile: &self.resolved.name,
            decisions: self.decisions,
            values: &values,
            rendezvous: &found.set,
            ranks: ranks.as_deref().map(|plan| (plan, &*self.site.shim)),
            own: plan.ranks.is_empty().then_some(&plan.share),
        };
        let changed = changes(&tuning, |name| self.surroundings.var(name));
        made.notices.extend(found.notices.into_iter().chain(changed.notices));
        if self.resolved.verbose {
            made.table = self.table(&plan, &values, &found.set);
        }
        if self.resolved.dry_run {
            return;
        }
        // A variable that is taken away and then set again ends up set.
        made.changes.extend(changed.changes);
        made.share = plan.share;
    }

    fn plan(&self, gpus: &Gpus, allowed: &CpuSet, bound: bool, notices: &mut Vec<Notice>) -> TaskPlan {
        let (local, own) = (self.surroundings.local, &gpus.own);
        let tasks = local.map_or(1, |local| local.size.unwrap_or(to_u32(own.len())).max(local.rank + 1));
        let mode = if local.is_some() { Mode::Rank } else { self.surroundings.command.mode() };
        // Ranks that see fewer GPUs than there are ranks see each its own; the plan is then made for all that there are. Who
        // sees none need not hear how far the others' are.
        let fewer = own.len() < usize::try_from(tasks).unwrap_or(0) && gpus.all.len() > own.len();
        let narrowed = fewer && !own.is_empty();
        let mut binding = self.resolved.binding.clone();
        let own_binding = self.surroundings.own_binding;
        binding.less(bound || own_binding.cpus.is_some(), own_binding.memory.is_some());
        let request = Request {
            tasks,
            mode,
            gpus: if narrowed { gpus.all.clone() } else { own.clone() },
            cpus: allowed.clone(),
            mems: Linux.mems_allowed().ok(),
            binding,
            gpu_numa: self.resolved.gpu_numa.clone(),
            keep_launcher: true,
        };
        let layout = Layout::new(self.machine, &request);
        if self.surroundings.tells() {
            notices.extend(layout.notices.iter().cloned().map(|notice| self.advised(notice, allowed)));
        }
        let slices: Vec<usize> = own.iter().filter_map(|gpu| gpus.all.iter().position(|other| other == gpu)).collect();
        let own = if narrowed { Own::These { slices: &slices, turn: 0 } } else { Own::All };
        layout.task(local.map_or(0, |local| local.rank), own)
    }

    /// Outside of Slurm no option of srun helps.
    fn advised(&self, notice: Notice, allowed: &CpuSet) -> Notice {
        let of_step = matches!(notice.code, Code::OneCpu | Code::Overlap | Code::GpuRemote | Code::NoMemory);
        let of_profile = notice.help.as_ref().is_some_and(|help| help.contains("`reserve`"));
        if !of_step || of_profile || self.surroundings.var("SLURM_JOB_ID").is_some() {
            return notice;
        }
        let help = format!(
            "this process may use the CPUs {allowed}: look at what narrows it, such as `taskset`, a container or a launcher"
        );
        Notice { help: Some(help), ..notice }
    }

    fn rendezvous(&self, plan: &TaskPlan, gpus: u32) -> rendezvous::Decision {
        if plan.ranks.is_empty() && self.surroundings.command.mode() == Mode::Auto {
            return rendezvous::Decision::default();
        }
        let peers = self.surroundings.pods.as_ref().map(Pods::peers);
        let (choice, command) = (self.resolved.rendezvous, self.surroundings.command);
        rendezvous::for_launcher_among(choice, command, gpus, peers, |name| self.surroundings.var(name).is_some())
    }

    /// The plan for the ranks of a launcher, if they are to be bound and the shim is there.
    fn ranks(&self, plan: &TaskPlan, allowed: &CpuSet, notices: &mut Vec<Notice>) -> Option<String> {
        let bound = plan.ranks.iter().any(|rank| rank.share != Share::default());
        if !self.resolved.workers || !bound {
            return None;
        }
        if self.surroundings.command == Command::Container {
            let message = "ranks are not bound: the command enters a container, which may lack the shim";
            notices.push(Notice::new(Code::NoShim, message).help("run `gpu-tune exec` inside the container"));
            return None;
        }
        if let Err(error) = regular::open(&self.site.shim) {
            let message = format!("ranks are not bound: cannot read `{}`: {error}", self.site.shim.display());
            notices.push(Notice::new(Code::NoShim, message).help("name the library with `--shim`"));
            return None;
        }
        let var = |name: &str| self.surroundings.var(name).map(OsString::into_encoded_bytes);
        Some(plan_text::encode(allowed, var, &plan.ranks))
    }

    fn table(&self, plan: &TaskPlan, values: &RankValues, rendezvous: &[(&str, String)]) -> Vec<String> {
        let mut lines = vec![format!("profile {}", self.resolved.name)];
        let mut plan = plan.clone();
        if !self.resolved.workers {
            plan.leave_ranks_alone();
        }
        lines.extend(report::table(self.machine, &[plan]));
        lines.extend(self.surroundings.own_binding.told());
        lines.extend(report::variables(self.decisions, &self.resolved.skipped, rendezvous, values));
        lines
    }
}

fn to_u32(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
