//! `gpu-tune topo` shows the node as a person thinks of it: packages, NUMA nodes and their cores, and each GPU and NIC
//! at the place it hangs, with what its link is and whether it is up.
//!
//! A NIC is listed below a GPU when both share a PCI switch: data between them then need not pass the processor
//! (`PIX`: one switch between them, `PXB`: several, as `nvidia-smi topo` says). Other NICs are listed at their NUMA
//! node or package. GPU numbers are gpu-tune's own, in PCI address order; they are the numbers of every other verb.
//!
//! With `--topology` the machine in a file is shown: what `lstopo node.xml` or `gpu-tune snapshot -o FILE` wrote on any
//! node. `--svg` draws a picture instead, `--json` writes the same facts for programs.

use crate::json::{MachineObject, SCHEMA, TopoDocument, Warning};
use crate::source::Source;
use crate::style::Style;
use crate::svg::{self, Picture};
use crate::tree::{GpuHere, Hanging, Node, Package, Sharing, Tree};
use crate::{CliError, output, words};
use gpu_tune_engine::machine::Nic;
use gpu_tune_engine::{CpuSet, Machine};
use std::path::PathBuf;
use std::process::ExitCode;

/// Options of `gpu-tune topo`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    source: Source,
    /// Write JSON.
    #[arg(long, conflicts_with = "svg")]
    json: bool,
    /// Draw a picture into this file, `-` for standard output.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// Shows the node.
pub fn run(args: &Args) -> Result<ExitCode, CliError> {
    let (machine, notices) = args.source.read()?;
    if args.json {
        output::print_json(&document(&machine, Warning::all(&notices)))?;
        return Ok(ExitCode::SUCCESS);
    }
    notices.iter().for_each(output::warn);
    match &args.svg {
        Some(path) => output::save(path, &svg::draw(&Picture { machine: &machine, title: title(args), step: None }))?,
        None => output::print(&text(&machine, Style::stdout()))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn title(args: &Args) -> String {
    let file = args.source.topology.as_ref().and_then(|path| path.file_stem());
    file.map_or("this node".to_owned(), |name| name.to_string_lossy().into_owned())
}

fn document(machine: &Machine, warnings: Vec<Warning>) -> TopoDocument {
    TopoDocument {
        schema: SCHEMA,
        driver: machine.driver.clone(),
        machine: MachineObject::of(machine),
        packages: machine.packages.iter().map(|package| package.cpus.clone()).collect(),
        cores: machine.cores.iter().map(|core| core.pus.clone()).collect(),
        warnings,
    }
}

/// The page for people; no line is wider than 100 columns.
fn text(machine: &Machine, style: Style) -> String {
    let tree = Tree::of(machine);
    let mut lines = vec![words::summary(machine)];
    for (number, package) in tree.packages.iter().enumerate() {
        lines.push(String::new());
        lines.extend(package_lines(number, package, style));
    }
    if !tree.loose.is_empty() {
        lines.push(String::new());
        lines.push(style.bold("at no single package, or nobody knows where"));
        lines.extend(hanging_lines(&tree.loose, "  ", style));
    }
    lines.join("\n") + "\n"
}

fn package_lines(number: usize, package: &Package<'_>, style: Style) -> Vec<String> {
    let name = format!("package {number}");
    let mut lines =
        vec![format!("{}{}CPUs {}", style.bold(&name), pad(&name, 36), words::shortened(&package.cpus, 58))];
    for node in &package.nodes {
        lines.push(node_line(node, style));
        lines.extend(hanging_lines(&node.hanging, "    ", style));
    }
    lines.extend(hanging_lines(&package.hanging, "  ", style));
    lines
}

fn node_line(node: &Node<'_>, style: Style) -> String {
    let (name, about) = words::node(node);
    let cpus: CpuSet = node.cores.iter().flat_map(|(_, core)| core.pus.iter()).collect();
    let plain = format!("  {name}  {about}");
    format!("  {}  {about}{}CPUs {}", style.bold(&name), pad(&plain, 36), words::shortened(&cpus, 58))
}

fn hanging_lines(hanging: &Hanging<'_>, indent: &str, style: Style) -> Vec<String> {
    let mut lines: Vec<String> = hanging.gpus.iter().flat_map(|here| gpu_lines(here, indent, style)).collect();
    lines.extend(hanging.nics.iter().map(|nic| format!("{indent}{}", nic_line(nic, None, style))));
    lines.extend(words::memory_nodes(&hanging.memory).iter().map(|text| format!("{indent}{}", style.dim(text))));
    lines
}

fn gpu_lines(here: &GpuHere<'_>, indent: &str, style: Style) -> Vec<String> {
    let name = style.bold(format!("GPU {}", here.index));
    let model = words::model(here.gpu);
    let uuid = style.dim(here.gpu.uuid.as_deref().unwrap_or("UUID unknown"));
    let mut lines = vec![format!("{indent}{name}  {}  {model}  {uuid}", here.gpu.pci)];
    let mig = here.gpu.mig.iter().map(|device| format!("{indent}  MIG  {}", style.dim(&device.uuid)));
    lines.extend(mig);
    let nics = here.nics.iter().map(|(nic, sharing)| format!("{indent}  {}", nic_line(nic, Some(*sharing), style)));
    lines.extend(nics);
    lines
}

fn nic_line(nic: &Nic, sharing: Option<Sharing>, style: Style) -> String {
    let name: String = nic.name.chars().take(16).collect();
    let pci = nic.pci.map_or("virtual".to_owned(), |pci| pci.to_string());
    let link = words::link(nic);
    let link = if nic.active() { link } else { style.warn(link) };
    let sharing = match sharing {
        Some(Sharing::Pix) => "  PIX",
        Some(Sharing::Pxb) => "  PXB",
        None => "",
    };
    format!("{name}  {pci}  {link}{sharing}")
}

/// The blanks that bring `text` to a column, two at least.
fn pad(text: &str, column: usize) -> String {
    " ".repeat(column.saturating_sub(text.chars().count()).max(2))
}
