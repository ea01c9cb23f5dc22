//! plugstack.conf: which SPANK plugins there are, and ours among them.
//!
//! It is read as Slurm reads it (src/common/plugstack.c, spank(7)): `include` takes a pattern of glob(3), from the directory
//! of the file that it stands in, and may be nested; a plugin without a slash is looked for in `PluginDir`; what is no
//! line of that kind is passed over with an error. Slurm follows a file that includes itself without end: srun of 22.05 crashes.

use super::host::Host;
use super::slurm::Conf;
use glob::{MatchOptions, Pattern, glob_with};
use gpu_tune_engine::spec::{SiteConfig, SpecError};
use std::fs;
use std::path::{Path, PathBuf};

/// The plugins in the order in which Slurm calls them.
#[derive(Debug, Default)]
pub(super) struct Plugstack {
    /// The file, as on the node; `None` when it is not known where it would be.
    pub(super) path: Option<PathBuf>,
    /// Whether it is there.
    pub(super) found: bool,
    /// It and the files that it includes, in the order in which they are read.
    pub(super) files: Vec<PathBuf>,
    pub(super) entries: Vec<Entry>,
    /// Lines that Slurm passes over: where, and what is wrong.
    pub(super) ignored: Vec<String>,
    /// Patterns that no file fits: where, and the pattern.
    pub(super) empty: Vec<String>,
    /// A file that includes itself, if need be through others: where.
    pub(super) circle: Option<String>,
}

/// One plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// `FILE:LINE`.
    pub(super) place: String,
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
        let mut reader = Reader { host, folders: plugin_dirs(conf), stack: Self::default(), open: Vec::new() };
        reader.file(&path);
        Self { found: host.exists(&path), path: Some(path), ..reader.stack }
    }

    /// Our own place in the order: the first, where there are several.
    pub(super) fn ours(&self) -> Option<(usize, &Entry)> {
        self.entries.iter().enumerate().find(|(_, entry)| entry.is("gpu_tune.so"))
    }

    /// Our words, those of the first of our lines; the defaults without one.
    pub(super) fn site(&self) -> Result<SiteConfig, SpecError> {
        let words = self.ours().map(|(_, entry)| entry.words.as_slice()).unwrap_or_default();
        SiteConfig::parse(&words.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// All lines that name us.
    pub(super) fn all_ours(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.is("gpu_tune.so"))
    }

    /// The place of pyxis.
    pub(super) fn pyxis(&self) -> Option<usize> {
        self.entries.iter().position(|entry| entry.is("spank_pyxis.so"))
    }
}

/// Where plugins without a slash are: as slurm.conf says, else where the usual builds have them.
fn plugin_dirs(conf: &Conf) -> Vec<PathBuf> {
    let usual =
        || format!("/usr/lib/{}-linux-gnu/slurm-wlm:/usr/lib64/slurm:/usr/local/lib/slurm", std::env::consts::ARCH);
    let dirs = conf.get("PluginDir").map_or_else(usual, str::to_owned);
    dirs.split(':').map(PathBuf::from).collect()
}

struct Reader<'a> {
    host: &'a Host,
    folders: Vec<PathBuf>,
    stack: Plugstack,
    /// The files that are being read, each including the next.
    open: Vec<PathBuf>,
}

impl Reader<'_> {
    fn file(&mut self, path: &Path) {
        let Some(text) = self.host.read(path) else { return };
        let Ok(real) = fs::canonicalize(self.host.path(path)) else { return };
        self.open.push(real);
        self.stack.files.push(path.to_owned());
        // Not `lines`: a carriage return before the end of a line is a part of Slurm's last word.
        for (number, line) in (1..).zip(text.split('\n')) {
            self.line(path, &format!("{}:{number}", path.display()), line);
        }
        self.open.pop();
    }

    fn line(&mut self, file: &Path, place: &str, line: &str) {
        let mut words = line.split('#').next().unwrap_or_default().split([' ', '\t']).filter(|word| !word.is_empty());
        match (words.next(), words.next()) {
            (Some("include"), Some(pattern)) => self.include(file, place, pattern),
            (Some(kind @ ("optional" | "required")), Some(plugin)) => {
                let (required, plugin) = (kind == "required", self.plugin(plugin));
                let words = words.map(str::to_owned).collect();
                self.stack.entries.push(Entry { place: place.to_owned(), required, plugin, words });
            }
            (Some(word @ ("include" | "optional" | "required")), None) => {
                self.stack.ignored.push(format!("{place}: nothing behind `{word}`"));
            }
            (Some(word), _) => {
                self.stack.ignored.push(format!("{place}: `{word}` is none of optional, required, include"));
            }
            (None, _) => {}
        }
    }

    fn include(&mut self, file: &Path, place: &str, pattern: &str) {
        let pattern = file.parent().unwrap_or(Path::new("/")).join(pattern);
        let files = files(self.host, &pattern);
        if files.is_empty() {
            self.stack.empty.push(format!("{place}: no file fits `{}`", pattern.display()));
        }
        for path in files {
            if fs::canonicalize(self.host.path(&path)).is_ok_and(|real| self.open.contains(&real)) {
                self.stack.circle.get_or_insert(place.to_owned());
            } else {
                self.file(&path);
            }
        }
    }

    fn plugin(&self, word: &str) -> PathBuf {
        let places = self.folders.iter().map(|folder| folder.join(word)).filter(|_| !word.starts_with('/'));
        places.into_iter().find(|path| self.host.exists(path)).unwrap_or_else(|| PathBuf::from(word))
    }
}

/// The files that fit a pattern, sorted, as on the node. Those that begin with a dot fit only a pattern that does.
fn files(host: &Host, pattern: &Path) -> Vec<PathBuf> {
    // `**` has no meaning of its own in glob(3), unlike in the crate.
    let mut pattern = pattern.to_string_lossy().into_owned();
    while pattern.contains("**") {
        pattern = pattern.replace("**", "*");
    }
    let options =
        MatchOptions { require_literal_separator: true, require_literal_leading_dot: true, ..MatchOptions::new() };
    let root = host.root().to_string_lossy().into_owned();
    let below = format!("{}/{}", Pattern::escape(root.trim_end_matches('/')), pattern.trim_start_matches('/'));
    match glob_with(&below, options) {
        Ok(found) => found.flatten().map(|path| host.on_node(&path)).collect(),
        // An unclosed bracket is an ordinary letter for glob(3).
        Err(_) => Some(PathBuf::from(pattern)).filter(|path| host.exists(path)).into_iter().collect(),
    }
}
