//! `gpu-tune doctor` looks whether this node is ready for gpu-tune and for fast GPU jobs, one line for each thing, with the
//! fix where something is wrong:
//!
//! - the plugin: its line in plugstack.conf, its file, whether srun and slurmd have it loaded (a wrong stamp or a missing
//!   library would show there), its place behind pyxis, the shim, the command, the snapshot, the profiles;
//! - Slurm: TaskPlugin, ConstrainCores, ConstrainDevices, and the cores that gres.conf gives each GPU against those that
//!   are really near;
//! - GPUs: the driver, NVML, GPUDirect RDMA (nvidia-peermem or dma-buf), the IMEX channel on GB200;
//! - network: adapters that are down, the RoCE v2 address table, /etc/nccl.conf against the profiles;
//! - kernel: locked memory, automatic NUMA balancing, transparent huge pages.
//!
//! Where `topology=` in plugstack.conf names a file, the machine is read from it, as steps do. With `--topology` the machine is
//! that of another file, and what only the node itself could tell of its devices is skipped.
//!
//! Nothing is changed. What cannot be seen is skipped with the reason; as root more can be seen. The exit status is 1 when
//! a line says `fail`; `warn` alone is 0.

mod described;
mod fabric;
mod gpus;
mod gres;
mod host;
mod kept;
mod kernel;
mod line;
mod plugin;
mod plugstack;
mod slurm;

use crate::source::Source;
use crate::style::Style;
use crate::{CliError, output};
use described::Described;
use gpu_tune_engine::spec::{SiteConfig, SpecError};
use gpu_tune_engine::text::chain;
use gpu_tune_engine::{Machine, Notice};
use host::Host;
use line::{Line, State};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of `gpu-tune doctor`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    source: Source,
    /// Slurm's configuration [default: SLURM_CONF, else where slurmd or the distribution has it]
    #[arg(long, value_name = "FILE")]
    slurm_conf: Option<PathBuf>,
    /// Write JSON
    #[arg(long)]
    json: bool,
    /// Look at a described node below this directory, for tests
    #[arg(long, value_name = "DIR", hide = true, default_value = "/")]
    root: PathBuf,
}

/// Everything that the checks look at.
#[derive(Debug)]
struct Node {
    host: Host,
    /// The machine, and what was odd while it was read; without one the line that tells why.
    machine: Result<(Machine, Vec<Notice>), Line>,
    slurm: Result<slurm::Conf, slurm::Absent>,
    plugstack: plugstack::Plugstack,
    /// The words behind the plugin, the defaults without its line.
    site: Result<SiteConfig, SpecError>,
    /// What `topology=` among them names.
    described: Option<Described>,
    /// The machine comes from a file.
    replayed: bool,
    /// From that of `--topology`, which may be of any machine; that of `topology=` is of this one.
    other: bool,
}

impl Node {
    fn machine(&self) -> Option<&Machine> {
        self.machine.as_ref().ok().map(|(machine, _)| machine)
    }

    /// Whether the machine is another than the one whose files are looked at.
    fn is_another(&self) -> bool {
        self.other && self.host.root() == Path::new("/")
    }
}

/// Looks at everything.
pub fn run(args: &Args) -> Result<ExitCode, CliError> {
    let node = node(args);
    let mut lines = plugin::check(&node);
    lines.extend(slurm::check(&node));
    lines.extend(gres::check(&node));
    lines.extend(gpus::check(&node));
    lines.extend(fabric::check(&node));
    lines.extend(kernel::check(&node.host));
    if args.json {
        output::print_json(&line::document(&lines))?;
    } else {
        output::print(&line::text(&lines, Style::stdout()))?;
    }
    let failed = lines.iter().any(|line| line.state == State::Fail);
    Ok(ExitCode::from(u8::from(failed)))
}

fn node(args: &Args) -> Node {
    let host = Host::at(&args.root);
    let slurm = slurm::Conf::find(&host, args.slurm_conf.as_deref());
    let plugstack = plugstack::Plugstack::read(&host, slurm.as_ref().ok());
    let site = plugstack.site();
    let file = site.as_ref().ok().and_then(|site| site.topology.as_deref());
    let described = file.map(|file| Described::read(&host, file));
    let other = args.source.topology.is_some();
    let machine = match &described {
        Some(described) if !other => {
            let unknown = |_| Line::skip("machine", "unknown without the file of `topology=`");
            described.machine.clone().map_err(unknown)
        }
        Some(_) | None => {
            let unread = |error| Line::fail("machine", chain(&error)).fix("`gpu-tune topo` shows the same");
            args.source.read().map_err(unread)
        }
    };
    Node { replayed: other || described.is_some(), other, host, machine, slurm, plugstack, site, described }
}
