//! The JSON that other programs rely on, apart from the engine's own types, so that neither can change the other by
//! accident.
//!
//! Names and meaning are stable; fields may be added. Lists of CPUs and NUMA nodes are Linux cpulist text, except where
//! a device's few nodes are an array. What nobody knows is `null`; a device about whose place nobody knows has no nodes
//! and no CPUs.

use gpu_tune_engine::env::{Decision, Outcome};
use gpu_tune_engine::machine::{LinkLayer, Locality};
use gpu_tune_engine::plan::{MemKind, Share, nics};
use gpu_tune_engine::profile::{Origin, Skipped};
use gpu_tune_engine::spec::Word as _;
use gpu_tune_engine::{CpuSet, Machine, NodeSet, Notice, PciAddress};
use serde::Serialize;
use std::collections::BTreeMap;

/// The version of every document here.
pub const SCHEMA: u32 = 1;

/// `gpu-tune plan --json`.
#[derive(Debug, Serialize)]
pub struct PlanDocument {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The profile with its layers, as it came out of `auto`.
    pub profile: String,
    /// `launcher` if any task starts ranks, else `rank`.
    pub mode: &'static str,
    /// The node.
    pub machine: MachineObject,
    /// The tasks, by local id.
    pub tasks: Vec<TaskObject>,
    /// Variables that the profile names and that are left alone in every task.
    pub left_alone: Vec<ProfileVariable>,
    /// What a person should hear.
    pub warnings: Vec<Warning>,
}

/// `gpu-tune topo --json`.
#[derive(Debug, Serialize)]
pub struct TopoDocument {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Version of the NVIDIA driver.
    pub driver: Option<String>,
    /// The node, as in the plan.
    pub machine: MachineObject,
    /// Packages, each with its CPUs.
    pub packages: Vec<CpuSet>,
    /// Cores in hwloc's logical order, each with its hardware threads.
    pub cores: Vec<CpuSet>,
    /// What a person should hear.
    pub warnings: Vec<Warning>,
}

/// `gpu-tune verify --json`.
#[derive(Debug, Serialize)]
pub struct VerifyDocument {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The ranks, and the launchers that started them.
    pub ranks: Vec<RankVerdict>,
}

/// One rank as it runs.
#[derive(Debug, Serialize)]
pub struct RankVerdict {
    /// `SLURM_JOB_ID`.
    pub job: Option<String>,
    /// `SLURM_STEP_ID`.
    pub step: Option<String>,
    /// `SLURM_LOCALID`.
    pub task: Option<u32>,
    /// The local rank that a launcher gave it.
    pub local_rank: Option<u32>,
    /// Its processes.
    pub pids: Vec<u32>,
    /// How many threads they have.
    pub threads: usize,
    /// CPUs of the first process's threads, all together.
    pub cpus: CpuSet,
    /// Planned CPUs; `null` without a plan, or when the plan leaves the mask alone.
    pub planned_cpus: Option<CpuSet>,
    /// The memory policy as the kernel writes it; `null` where it cannot be read.
    pub policy: Option<String>,
    /// Bytes of its memory on each NUMA node.
    pub bytes: BTreeMap<u32, u64>,
    /// Whether everything is as planned; `null` without a plan.
    pub ok: Option<bool>,
    /// What is not.
    pub differences: Vec<String>,
    /// What probably did it.
    pub blame: Vec<String>,
    /// What else there is to know, such as why there is no plan.
    pub notes: Vec<String>,
    /// Variables that libraries below the framework read, by name, as the first process was started with them; empty where its
    /// environment tells nothing.
    pub environment: Vec<RankVariable>,
}

/// One variable of a running rank.
#[derive(Debug, Serialize)]
pub struct RankVariable {
    /// Its name.
    pub name: String,
    /// Its value; bytes that are no UTF-8 are U+FFFD.
    pub value: String,
    /// Whose value it is: `gpu-tune` or `user or image`.
    pub from: &'static str,
}

/// `gpu-tune doctor --json`.
#[derive(Debug, Serialize)]
pub struct DoctorDocument {
    /// [`SCHEMA`].
    pub schema: u32,
    /// One for each thing looked at.
    pub lines: Vec<DoctorLine>,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
pub struct DoctorLine {
    /// `ok`, `warn`, `fail` or `skip`.
    pub state: &'static str,
    /// What was looked at.
    pub subject: &'static str,
    /// What was seen.
    pub text: String,
    /// What to do.
    pub fix: Option<String>,
}

/// `gpu-tune bench --json`.
#[derive(Debug, Serialize)]
pub struct BenchDocument {
    /// [`SCHEMA`].
    pub schema: u32,
    /// `copy to GPU` or `copy in memory`.
    pub what: &'static str,
    /// A GPU or a NUMA node each.
    pub rows: Vec<BenchRow>,
}

/// What was measured of a GPU or a NUMA node.
#[derive(Debug, Serialize)]
pub struct BenchRow {
    /// Its name.
    pub name: String,
    /// Bandwidth; within memory, what is read and written counts.
    pub bytes_per_second: Placements,
    /// How long a copy of eight bytes takes; `null` within memory.
    pub latency_seconds: Option<Placements>,
}

/// Medians by where the process was; `null` where there is no such place.
#[derive(Debug, Serialize)]
pub struct Placements {
    /// On the nearest NUMA node, its memory too.
    pub near: Option<f64>,
    /// On a NUMA node of another package, its memory too.
    pub far: Option<f64>,
    /// Where the kernel put it.
    pub unbound: Option<f64>,
}

/// A node.
#[derive(Debug, Serialize)]
pub struct MachineObject {
    /// Online CPUs.
    pub cpus: CpuSet,
    /// NUMA nodes, ascending by id.
    pub numa: Vec<NumaObject>,
    /// GPUs, ascending by PCI address.
    pub gpus: Vec<GpuObject>,
    /// RDMA devices, ascending by name.
    pub nics: Vec<NicObject>,
}

/// A NUMA node.
#[derive(Debug, Serialize)]
pub struct NumaObject {
    /// The kernel's number.
    pub id: u32,
    /// Its CPUs; empty for a node that is only memory.
    pub cpus: CpuSet,
    /// Its memory; `null` when unknown.
    pub memory_bytes: Option<u64>,
}

/// A GPU.
#[derive(Debug, Serialize)]
pub struct GpuObject {
    /// Its place in PCI address order: the number that the rest of the document uses.
    pub index: usize,
    /// PCI address.
    pub pci: PciAddress,
    /// NVML's UUID.
    pub uuid: Option<String>,
    /// Product name.
    pub model: Option<String>,
    /// Near NUMA nodes.
    pub numa: Vec<u32>,
    /// Near CPUs.
    pub cpus: CpuSet,
    /// RDMA devices with an active port, nearest first.
    pub nics: Vec<NearNicObject>,
}

/// An RDMA device as seen from a GPU.
#[derive(Debug, Serialize)]
pub struct NearNicObject {
    /// `mlx5_0`.
    pub name: String,
    /// What the two share: `switch`, `root`, `numa` or `other`.
    pub near: &'static str,
}

/// An RDMA device.
#[derive(Debug, Serialize)]
pub struct NicObject {
    /// `mlx5_0`.
    pub name: String,
    /// PCI address; virtual devices have none.
    pub pci: Option<PciAddress>,
    /// Near NUMA nodes.
    pub numa: Vec<u32>,
    /// `infiniband`, `ethernet` or `other`; `null` where its ports differ.
    pub link_layer: Option<LinkLayer>,
}

/// What becomes of one task.
#[derive(Debug, Serialize)]
pub struct TaskObject {
    /// `SLURM_LOCALID`.
    pub local_id: u32,
    /// Its GPUs.
    pub gpus: Vec<usize>,
    /// Where it runs and has its memory.
    #[serde(flatten)]
    pub place: Place,
    /// The ranks that it starts; empty in rank mode.
    pub ranks: Vec<RankObject>,
    /// What is done to its environment.
    pub env: Vec<EnvObject>,
}

/// What becomes of one rank that a launcher starts.
#[derive(Debug, Serialize)]
pub struct RankObject {
    /// Its local rank.
    pub local_rank: u32,
    /// Its GPU.
    pub gpu: usize,
    /// Where it runs and has its memory.
    #[serde(flatten)]
    pub place: Place,
}

/// Where a process runs and has its memory.
#[derive(Debug, Serialize)]
pub struct Place {
    /// The CPUs it may run on; all that the step owns when the plan leaves its mask alone.
    pub cpus: CpuSet,
    /// The nodes that its memory policy names; empty with `off`.
    pub mems: NodeSet,
    /// `preferred`, `bind`, or `off` for none.
    pub policy: &'static str,
}

/// One variable.
#[derive(Debug, Serialize)]
pub struct EnvObject {
    /// Its name.
    pub name: String,
    /// Its value; `null` for one that is removed.
    pub value: Option<String>,
    /// What the profile says: `default`, `force`, `unset`, `prepend` or `append`.
    pub action: &'static str,
    /// Where that stands, such as `profile h200`.
    pub from: String,
    /// The file it is written in.
    pub file: String,
    /// The line.
    pub line: usize,
}

/// What a person should hear.
#[derive(Debug, Serialize)]
pub struct Warning {
    /// Stable, such as `gpu-remote`.
    pub code: &'static str,
    /// For people.
    pub message: String,
}

impl MachineObject {
    /// The machine's stable part.
    pub fn of(machine: &Machine) -> Self {
        let numa = machine.numa.iter().map(|node| NumaObject {
            id: node.id,
            cpus: node.cpus.clone(),
            memory_bytes: node.memory_bytes,
        });
        let gpus = machine.gpus.iter().enumerate().map(|(index, gpu)| GpuObject {
            index,
            pci: gpu.pci,
            uuid: gpu.uuid.clone(),
            model: gpu.model.clone(),
            numa: nodes(gpu.locality.as_ref()),
            cpus: gpu.locality.as_ref().map(|near| near.cpus.clone()).unwrap_or_default(),
            nics: near_nics(machine, index),
        });
        let nics = machine.nics.iter().map(|nic| NicObject {
            name: nic.name.clone(),
            pci: nic.pci,
            numa: nodes(nic.locality.as_ref()),
            link_layer: nic.link_layer(),
        });
        Self { cpus: machine.cpus.clone(), numa: numa.collect(), gpus: gpus.collect(), nics: nics.collect() }
    }
}

fn near_nics(machine: &Machine, gpu: usize) -> Vec<NearNicObject> {
    let object = |seen: nics::SeenNic<'_>| NearNicObject { name: seen.nic.name.clone(), near: seen.nearness.as_str() };
    nics::by_distance(machine, gpu).into_iter().map(object).collect()
}

fn nodes(locality: Option<&Locality>) -> Vec<u32> {
    locality.map(|near| near.nodes.iter().collect()).unwrap_or_default()
}

impl Place {
    /// A share of a step that owns `allowed`.
    pub fn of(share: &Share, allowed: &CpuSet) -> Self {
        let (policy, mems) = match &share.memory {
            Some(memory) => (policy(memory.policy), memory.nodes.clone()),
            None => ("off", NodeSet::new()),
        };
        Self { cpus: share.cpus.as_ref().unwrap_or(allowed).clone(), mems, policy }
    }
}

fn policy(kind: MemKind) -> &'static str {
    match kind {
        MemKind::Preferred => "preferred",
        MemKind::Bind => "bind",
    }
}

impl Warning {
    /// Notices as they are in documents.
    pub fn all(notices: &[Notice]) -> Vec<Self> {
        notices.iter().map(|notice| Self { code: notice.code.as_str(), message: notice.message.clone() }).collect()
    }
}

/// `gpu-tune profile list --json`.
#[derive(Debug, Serialize)]
pub struct ProfileList {
    /// [`SCHEMA`].
    pub schema: u32,
    /// All profiles and layers, by name.
    pub profiles: Vec<ProfileEntry>,
}

/// A profile that can be named.
#[derive(Debug, Serialize)]
pub struct ProfileEntry {
    /// Its name.
    pub name: String,
    /// Meant to stand on top of a profile.
    pub layer: bool,
    /// What it is for; `null` for a file that cannot be used.
    pub description: Option<String>,
    /// Its file.
    pub file: String,
    /// The file came with gpu-tune.
    pub builtin: bool,
    /// GPU models it is for.
    pub gpu: Vec<String>,
    /// Why it cannot be used.
    pub error: Option<String>,
}

/// `gpu-tune profile show --json`.
#[derive(Debug, Serialize)]
pub struct ProfileDocument {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The profile with its layers, as it came out of `auto`.
    pub profile: String,
    /// Every file that took part, the most general first.
    pub layers: Vec<String>,
    /// Variables that are set or removed.
    pub env: Vec<ProfileVariable>,
    /// Variables that a profile names and that are left alone.
    pub left_alone: Vec<ProfileVariable>,
    /// Everything else.
    pub settings: Vec<Setting>,
    /// What a person should hear.
    pub warnings: Vec<Warning>,
}

/// A variable that a profile names.
#[derive(Debug, Serialize)]
pub struct ProfileVariable {
    /// Its name.
    pub name: String,
    /// Its value, with the placeholders that only a task can fill; `null`: removed or left alone.
    pub value: Option<String>,
    /// What the profile asks for; `null` where the condition does not hold.
    pub action: Option<&'static str>,
    /// The bound of a number.
    pub at_most: Option<String>,
    /// `profile NAME`.
    pub from: String,
    /// The file it is written in.
    pub file: String,
    /// The line.
    pub line: usize,
    /// Why it is so, where it is not simply the profile's value.
    pub reason: Option<String>,
}

impl ProfileVariable {
    /// From what was decided.
    pub fn decided(decision: &Decision) -> Self {
        let value = (decision.acts() && decision.outcome != Outcome::Unset).then(|| decision.value_text());
        Self {
            value,
            action: Some(decision.action.word()),
            at_most: decision.at_most(),
            ..Self::new(&decision.name, &decision.origin, &decision.reason)
        }
    }

    /// From a rule that does not apply.
    pub fn skipped(skipped: &Skipped) -> Self {
        Self::new(&skipped.name, &skipped.origin, &skipped.reason)
    }

    /// What a profile names and that is left alone.
    pub fn left_alone(decisions: &[Decision], skipped: &[Skipped]) -> Vec<Self> {
        let kept = decisions.iter().filter(|decision| !decision.acts()).map(Self::decided);
        kept.chain(skipped.iter().map(Self::skipped)).collect()
    }

    fn new(name: &str, origin: &Origin, reason: &str) -> Self {
        Self {
            name: name.to_owned(),
            value: None,
            action: None,
            at_most: None,
            from: format!("profile {}", origin.layer),
            file: origin.file.to_string(),
            line: origin.line,
            reason: Some(reason.to_owned()).filter(|reason| !reason.is_empty()),
        }
    }
}

/// A value outside `[env]`.
#[derive(Debug, Serialize)]
pub struct Setting {
    /// Such as `bind.cpu`.
    pub key: String,
    /// Its value as text.
    pub value: String,
    /// The file it is written in; `null`: the option's own, or nobody's.
    pub file: Option<String>,
    /// The line.
    pub line: Option<usize>,
    /// The file came with gpu-tune.
    pub builtin: bool,
}

/// `gpu-tune profile diff --json`.
#[derive(Debug, Serialize)]
pub struct ProfileDifferences {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The first profile.
    pub one: String,
    /// The second.
    pub other: String,
    /// The keys that differ.
    pub differences: Vec<Difference>,
}

/// One key in two profiles.
#[derive(Debug, Serialize)]
pub struct Difference {
    /// Such as `bind.cpu` or `env.NCCL_DEBUG`.
    pub key: String,
    /// What the first says: several entries where conditions decide, none if it does not name the key.
    pub one: Vec<Written>,
    /// What the second says.
    pub other: Vec<Written>,
}

/// A value as it is written.
#[derive(Debug, Serialize)]
pub struct Written {
    /// The value, with action and conditions.
    pub value: String,
    /// The file.
    pub file: String,
    /// The line.
    pub line: usize,
    /// The file came with gpu-tune.
    pub builtin: bool,
}

/// `gpu-tune profile check --json`.
#[derive(Debug, Serialize)]
pub struct ProfileFindings {
    /// [`SCHEMA`].
    pub schema: u32,
    /// How many files were looked at.
    pub files: usize,
    /// How many findings are errors.
    pub errors: usize,
    /// How many are warnings.
    pub warnings: usize,
    /// What is wrong.
    pub findings: Vec<FindingObject>,
}

/// One thing that is wrong in a file.
#[derive(Debug, Serialize)]
pub struct FindingObject {
    /// `error` or `warning`.
    pub level: &'static str,
    /// The file.
    pub file: String,
    /// The line, from 1; `null`: the whole file.
    pub line: Option<usize>,
    /// The column in characters, from 1.
    pub column: Option<usize>,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub help: Option<String>,
}
