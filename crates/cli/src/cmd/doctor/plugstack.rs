//! plugstack.conf: which SPANK plugins there are, and ours among them.

use super::host::Host;
use super::slurm::Conf;
use std::fs;
use std::path::{Path, PathBuf};

/// The plugins in the order in which Slurm calls them.
#[derive(Debug, Default)]
pub(super) struct Plugstack {
    /// The file, as on the node; `None` when it is not known where it would be.
    pub(super) path: Option<PathBuf>,
    /// Whether it is there.
    pub(super) found: bool,
    pub(super) entries: Vec<Entry>,
}

/// One plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// `optional` or `required`.
    pub(super) required: bool,
    /// The plugin's file.
    pub(super) plugin: PathBuf,
    pub(super) words: Vec<String>,
}

impl Entry {
    fn is(&self, file: &str) -> bool {
        self.plugin.file_name().is_some_and(|name| name == file)
    }
}

impl Plugstack {
    /// Reads the file that slurm.conf names, by default the one beside it.
    pub(super) fn read(host: &Host, slurm: Option<&Conf>) -> Self {
        let Some(conf) = slurm else { return Self::default() };
        let path = conf.get("PlugStackConfig").map_or_else(|| conf.beside("plugstack.conf"), PathBuf::from);
        let mut entries = Vec::new();
        add(host, &path, &mut entries, 0);
        Self { found: host.exists(&path), path: Some(path), entries }
    }

    /// Our own place in the order.
    pub(super) fn ours(&self) -> Option<(usize, &Entry)> {
        self.entries.iter().enumerate().find(|(_, entry)| entry.is("gpu_tune.so"))
    }

    /// The place of pyxis.
    pub(super) fn pyxis(&self) -> Option<usize> {
        self.entries.iter().position(|entry| entry.is("spank_pyxis.so"))
    }
}

fn add(host: &Host, path: &Path, entries: &mut Vec<Entry>, depth: usize) {
    for line in host.read(path).unwrap_or_default().lines() {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_whitespace().map(str::to_owned);
        match (words.next().as_deref(), words.next()) {
            (Some("include"), Some(pattern)) if depth < 8 => {
                files(host, path, &pattern).iter().for_each(|file| add(host, file, entries, depth + 1));
            }
            (Some(kind @ ("optional" | "required")), Some(plugin)) => entries.push(Entry {
                required: kind == "required",
                plugin: PathBuf::from(plugin),
                words: words.collect(),
            }),
            _ => {}
        }
    }
}

/// `include` takes a pattern; a `*` in the file's name is what people use.
fn files(host: &Host, from: &Path, pattern: &str) -> Vec<PathBuf> {
    let pattern = from.parent().unwrap_or(Path::new("/")).join(pattern);
    let name = pattern.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let Some((start, end)) = name.split_once('*') else { return vec![pattern] };
    let folder = pattern.parent().unwrap_or(Path::new("/"));
    let names = fs::read_dir(host.path(folder)).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let fits = |name: &str| name.len() >= start.len() + end.len() && name.starts_with(start) && name.ends_with(end);
    let mut found: Vec<PathBuf> =
        names.filter(|name| name.to_str().is_some_and(fits)).map(|name| folder.join(name)).collect();
    found.sort();
    found
}
