//! One profile file: TOML in, [`Profile`] and findings out.

use super::toml_reader::{Key, Reader, Value};
use super::{Finding, Glob, Kind, Origin, Rule, Source, bounds, env_table};
use crate::PciAddress;
use crate::fabric::AddressRange;
use crate::plan::Reserve;
use crate::spec::{CpuPolicy, MemPolicy, RESERVED, Rendezvous, Smt, is_name};
use crate::text::{number, shown};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use toml::de::DeTable;

/// What one file says, before anything is inherited. `None` everywhere means that it does not say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// Its name: the file's without `.toml`.
    pub name: Arc<str>,
    /// Its file.
    pub source: Source,
    /// One line for `gpu-tune profile list`.
    pub description: String,
    /// `layer = true`: meant to stand on top of a profile.
    pub layer: bool,
    /// The profile it builds on.
    pub inherits: Option<Inherits>,
    /// A file whose settings stand below those of `[env]`.
    pub import: Option<Import>,
    /// GPU models it is for.
    pub gpu: Vec<Glob>,
    /// `allow_debug = true`: variables that NCCL documents for debugging only are meant.
    pub allow_debug: bool,
    /// `[env]`, in the order of names; of several rules for one variable and slot the first that applies counts.
    pub env: Vec<Rule>,
    /// `[bind]`.
    pub bind: BindPart,
    /// `[limits] memlock`.
    pub memlock: Option<Memlock>,
    /// `[launch] workers`.
    pub workers: Option<bool>,
    /// `[launch] rendezvous`.
    pub rendezvous: Option<Rendezvous>,
    /// `[machine.gpu_numa]`: GPU → NUMA node, for machines whose firmware does not know.
    pub gpu_numa: BTreeMap<PciAddress, u32>,
    /// `[fabric] address_range`.
    pub address_range: Option<AddressRange>,
    /// Where each key outside `[env]` is written, such as `bind.cpu`.
    pub places: BTreeMap<String, Origin>,
}

/// `inherits`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inherits {
    /// The profile's name.
    pub name: String,
    /// The line that says so.
    pub line: usize,
}

/// `import`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    /// The file, an absolute path.
    pub path: PathBuf,
    /// The line that names it.
    pub line: usize,
}

/// `[bind]` of one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BindPart {
    /// `cpu`.
    pub cpu: Option<CpuPolicy>,
    /// `mem`.
    pub mem: Option<MemPolicy>,
    /// `smt`.
    pub smt: Option<Smt>,
    /// `reserve`.
    pub reserve: Option<Reserve>,
    /// `prefer = "priority"`.
    pub prefer_priority: Option<bool>,
}

/// How much memory a task may lock (`RLIMIT_MEMLOCK`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memlock {
    /// `"unlimited"`.
    Unlimited,
    /// So many bytes: a number, or a text like `"64GiB"`.
    Bytes(u64),
    /// `"user"`: the user's limit, as without the key; undoes what was inherited.
    User,
}

impl fmt::Display for Memlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unlimited => f.write_str("unlimited"),
            Self::Bytes(bytes) => write!(f, "{bytes}"),
            Self::User => f.write_str("user"),
        }
    }
}

const TOP: &[&str] = &[
    "description",
    "inherits",
    "import",
    "layer",
    "gpu",
    "allow_debug",
    "env",
    "bind",
    "limits",
    "launch",
    "machine",
    "fabric",
];
const BIND: &[&str] = &["cpu", "mem", "smt", "reserve", "prefer"];

impl Profile {
    /// Reads a file's text. No profile comes back if anything in it is an error; there may be findings in either case.
    pub fn parse(name: &str, source: &Source, text: &str) -> (Option<Self>, Vec<Finding>) {
        let (profile, findings) = Self::draft(name, source, text);
        let usable = findings.iter().all(|finding| finding.kind != Kind::Error);
        (usable.then_some(profile), findings)
    }

    /// The same with whatever can be read of a file that has errors, for those who look for more of them.
    pub(super) fn draft(name: &str, source: &Source, text: &str) -> (Self, Vec<Finding>) {
        let mut reader = Reader::new(text, source);
        let mut profile = Self::empty(name, source);
        if let Some(table) = reader.parse() {
            profile.read(&mut reader, &table);
        }
        let origin = |(key, (line, column))| {
            let (layer, file) = (profile.name.clone(), source.file.clone());
            (key, Origin { layer, file, line, column, builtin: source.builtin })
        };
        profile.places = std::mem::take(&mut reader.places).into_iter().map(origin).collect();
        (profile, reader.findings)
    }

    fn empty(name: &str, source: &Source) -> Self {
        Self {
            name: name.into(),
            source: source.clone(),
            description: String::new(),
            layer: false,
            inherits: None,
            import: None,
            gpu: Vec::new(),
            allow_debug: false,
            env: Vec::new(),
            bind: BindPart::default(),
            memlock: None,
            workers: None,
            rendezvous: None,
            gpu_numa: BTreeMap::new(),
            address_range: None,
            places: BTreeMap::new(),
        }
    }

    fn read(&mut self, reader: &mut Reader<'_>, table: &DeTable<'_>) {
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "description" => self.description = reader.string(value, bounds::VALUE).unwrap_or_default(),
                "inherits" => self.inherits = inherits(reader, value),
                "import" => self.import = import(reader, value),
                "layer" => self.layer = reader.boolean(value).unwrap_or_default(),
                "gpu" => self.gpu = globs(reader, value),
                "allow_debug" => self.allow_debug = reader.boolean(value).unwrap_or_default(),
                "env" => self.env = env_table::read(reader, value, &self.name, &self.source),
                "bind" => self.bind = bind(reader, value),
                "limits" => section(reader, value, "limits", &["memlock"], |reader, _, value| {
                    self.memlock = memlock(reader, value);
                }),
                "launch" => self.launch(reader, value),
                "machine" => section(reader, value, "machine", &["gpu_numa"], |reader, _, value| {
                    self.gpu_numa = gpu_numa(reader, value);
                }),
                "fabric" => section(reader, value, "fabric", &["address_range"], |reader, _, value| {
                    self.address_range = address_range(reader, value);
                }),
                _ => reader.unknown(key, "in a profile", TOP),
            }
        }
    }

    fn launch(&mut self, reader: &mut Reader<'_>, value: &Value<'_>) {
        section(reader, value, "launch", &["workers", "rendezvous"], |reader, key, value| match key {
            "workers" => self.workers = reader.boolean(value),
            _ => self.rendezvous = reader.word(value),
        });
    }
}

/// Hands every known key of `[name]` to `take`, keeps where it is written, and reports the others.
fn section(
    reader: &mut Reader<'_>,
    value: &Value<'_>,
    name: &str,
    known: &[&str],
    mut take: impl FnMut(&mut Reader<'_>, &str, &Value<'_>),
) {
    each(reader, value, &format!("in `[{name}]`"), known, |reader, key, value| {
        let place = reader.position(&value.span());
        reader.places.insert(format!("{name}.{key}"), place);
        take(reader, key, value);
    });
}

/// Hands every known key of a table to `take`, and reports the others.
pub(super) fn each(
    reader: &mut Reader<'_>,
    value: &Value<'_>,
    place: &str,
    known: &[&str],
    mut take: impl FnMut(&mut Reader<'_>, &str, &Value<'_>),
) {
    let Some(table) = reader.table(value) else { return };
    for (key, value) in table {
        if known.contains(&key.get_ref().as_ref()) {
            take(reader, key.get_ref(), value);
        } else {
            reader.unknown(key, place, known);
        }
    }
}

fn inherits(reader: &mut Reader<'_>, value: &Value<'_>) -> Option<Inherits> {
    let name = reader.string(value, bounds::VALUE)?;
    if is_name(&name) && !RESERVED.contains(&name.as_str()) {
        return Some(Inherits { name, line: reader.position(&value.span()).0 });
    }
    reader.error(value.span(), format!("expected the name of a profile, found `{}`", shown(&name)), None);
    None
}

fn import(reader: &mut Reader<'_>, value: &Value<'_>) -> Option<Import> {
    let path = PathBuf::from(reader.string(value, bounds::VALUE)?);
    if !path.is_absolute() {
        reader.error(value.span(), "expected the path of a file from `/` on", None);
        return None;
    }
    Some(Import { path, line: reader.position(&value.span()).0 })
}

pub(super) fn globs(reader: &mut Reader<'_>, value: &Value<'_>) -> Vec<Glob> {
    let texts = reader.strings(value).unwrap_or_default();
    if texts.iter().any(String::is_empty) {
        reader.error(value.span(), "an empty pattern fits nothing", None);
    }
    texts.iter().map(|text| Glob::new(text)).collect()
}

fn bind(reader: &mut Reader<'_>, value: &Value<'_>) -> BindPart {
    let mut part = BindPart::default();
    section(reader, value, "bind", BIND, |reader, key, value| match key {
        "cpu" => part.cpu = reader.word(value),
        "mem" => part.mem = reader.word(value),
        "smt" => part.smt = reader.word(value),
        "reserve" => part.reserve = reserve(reader, value),
        _ => part.prefer_priority = prefer(reader, value),
    });
    part
}

fn reserve(reader: &mut Reader<'_>, value: &Value<'_>) -> Option<Reserve> {
    let text = reader.string(value, bounds::VALUE)?;
    match (text.as_str(), text.parse()) {
        ("", _) => Some(Reserve::Nothing),
        ("first-core-per-numa", _) => Some(Reserve::FirstCorePerNuma),
        (_, Ok(cpus)) => Some(Reserve::Cpus(cpus)),
        (_, Err(error)) => {
            let help = "`reserve` is a list of CPUs like `0-3,64-67`, or `first-core-per-numa`".to_owned();
            reader.error(value.span(), error.to_string(), Some(help));
            None
        }
    }
}

fn prefer(reader: &mut Reader<'_>, value: &Value<'_>) -> Option<bool> {
    match reader.string(value, bounds::VALUE)?.as_str() {
        "" => Some(false),
        "priority" => Some(true),
        other => {
            let message = format!("expected `priority` or nothing, found `{}`", shown(other));
            reader.error(value.span(), message, None);
            None
        }
    }
}

fn memlock(reader: &mut Reader<'_>, value: &Value<'_>) -> Option<Memlock> {
    if value.get_ref().is_integer() {
        return reader.number(value).map(Memlock::Bytes);
    }
    let text = reader.string(value, bounds::VALUE)?;
    let limit = match text.as_str() {
        "unlimited" => Some(Memlock::Unlimited),
        "user" => Some(Memlock::User),
        size => bytes(size).map(Memlock::Bytes),
    };
    if limit.is_none() {
        let message = format!("expected `unlimited`, `user` or a size like `64GiB`, found `{}`", shown(&text));
        reader.error(value.span(), message, None);
    }
    limit
}

/// `64GiB`, `512MiB`, `64KiB`, `1TiB`.
fn bytes(text: &str) -> Option<u64> {
    let (count, shift) = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40)]
        .iter()
        .find_map(|(unit, shift)| text.strip_suffix(unit).map(|count| (count, *shift)))?;
    number::<u64>(count)?.checked_mul(1 << shift)
}

fn gpu_numa(reader: &mut Reader<'_>, value: &Value<'_>) -> BTreeMap<PciAddress, u32> {
    let mut map = BTreeMap::new();
    let Some(table) = reader.table(value) else { return map };
    for (key, value) in table {
        if let (Some(gpu), Some(node)) = (gpu_address(reader, key), node(reader, value)) {
            map.insert(gpu, node);
        }
    }
    map
}

fn node(reader: &mut Reader<'_>, value: &Value<'_>) -> Option<u32> {
    let node = u32::try_from(reader.number(value)?).ok();
    if node.is_none() {
        reader.error(value.span(), "no NUMA node has such a number", None);
    }
    node
}

fn gpu_address(reader: &mut Reader<'_>, key: &Key<'_>) -> Option<PciAddress> {
    let address = key.get_ref().parse::<PciAddress>();
    if let Err(error) = &address {
        reader.error(key.span(), error.to_string(), None);
    }
    address.ok()
}

fn address_range(reader: &mut Reader<'_>, value: &Value<'_>) -> Option<AddressRange> {
    let text = reader.string(value, bounds::VALUE)?;
    let range = text.parse::<AddressRange>();
    if let Err(error) = &range {
        reader.error(value.span(), format!("{error}, found `{}`", shown(&text)), None);
    }
    range.ok()
}
