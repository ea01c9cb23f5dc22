//! Slurm's own configuration, read from its files: no daemon is asked, so it works where none runs.

use super::Node;
use super::host::Host;
use super::line::Line;
use gpu_tune_engine::trusted;
use std::path::{Path, PathBuf};
use std::{env, io};

/// Where slurm.conf is when nobody says: distributions, SchedMD's default, and the caches of configless nodes.
const PLACES: [&str; 5] = [
    "/etc/slurm/slurm.conf",
    "/etc/slurm-llnl/slurm.conf",
    "/usr/local/etc/slurm.conf",
    "/run/slurm/conf/slurm.conf",
    "/var/spool/slurmd/conf-cache/slurm.conf",
];

/// slurm.conf and its directory, where the other files are.
#[derive(Debug)]
pub(super) struct Conf {
    /// As on the node.
    pub(super) path: PathBuf,
    text: String,
}

/// Why there is no slurm.conf to look at.
#[derive(Debug)]
pub(super) enum Absent {
    /// It is in none of the places.
    NotFound,
    /// Somebody named one that cannot be read: another would not be the one that he meant.
    Unreadable { path: PathBuf, why: io::Error, fix: &'static str },
}

impl Conf {
    /// Finds and reads it: the one that is named, by `--slurm-conf` or else by SLURM_CONF, and no other; where none is, that
    /// of slurmd or the first there is in the usual places.
    pub(super) fn find(host: &Host, named: Option<&Path>) -> Result<Self, Absent> {
        let here = host.root() == Path::new("/");
        let from_env = || env::var_os("SLURM_CONF").map(PathBuf::from).filter(|_| here);
        let (path, fix) = match (named, from_env()) {
            (Some(path), _) => (path.to_owned(), "name one with `--slurm-conf` that is there and can be read"),
            (None, Some(path)) => (path, "correct SLURM_CONF in the environment, or unset it"),
            (None, None) => return Self::usual(host).ok_or(Absent::NotFound),
        };
        // A person names it from where he stands.
        let path = std::path::absolute(&path).ok().filter(|_| here).unwrap_or(path);
        Self::read(host, &path).map_err(|why| Absent::Unreadable { path, why, fix })
    }

    fn usual(host: &Host) -> Option<Self> {
        let places = of_slurmd(host).into_iter().chain(PLACES.iter().map(PathBuf::from));
        places.into_iter().find_map(|path| Self::read(host, &path).ok())
    }

    fn read(host: &Host, path: &Path) -> io::Result<Self> {
        let text = host.try_read(path)?;
        Ok(Self { text: with_includes(host, path, &text, &mut FILES_MAX.clone()), path: path.to_owned() })
    }

    /// A parameter's value; names are case-insensitive, the last one counts.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        value(&self.text, name)
    }

    /// A file beside slurm.conf.
    pub(super) fn beside(&self, name: &str) -> PathBuf {
        self.path.with_file_name(name)
    }
}

/// `-f FILE` of the running slurmd, if nobody else can have written that file: srun loads the plugins that it names, here
/// perhaps as root.
fn of_slurmd(host: &Host) -> Option<PathBuf> {
    let words = host.proc().cmdline(*host.processes("slurmd").first()?).ok()?;
    let at = words.iter().position(|word| word == "-f")?;
    words.get(at + 1).map(PathBuf::from).filter(|file| trusted::check_linked(&host.path(file)).is_ok())
}

/// How many files are read: some may include each other.
const FILES_MAX: usize = 100;

/// The text with that of the files it includes, each named from the directory of the one it stands in (tried with 22.05).
fn with_includes(host: &Host, path: &Path, own: &str, left: &mut usize) -> String {
    let mut text = String::new();
    for line in own.lines() {
        let mut words = line.split_whitespace();
        match (words.next(), words.next()) {
            (Some(word), Some(file)) if word.eq_ignore_ascii_case("include") => {
                let path = path.with_file_name(file);
                *left = left.saturating_sub(1);
                let included = host.read(&path).filter(|_| *left > 0);
                text += &included.map(|own| with_includes(host, &path, &own, left)).unwrap_or_default();
            }
            _ => text += line,
        }
        text.push('\n');
    }
    text
}

/// The value of `NAME=value` in a file of Slurm's form.
pub(super) fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let settings = text.lines().filter_map(|line| line.split('#').next()?.trim().split_once('='));
    settings.filter(|(key, _)| key.trim().eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).next_back()
}

/// Everything about slurm.conf and cgroup.conf.
pub(super) fn check(node: &Node) -> Vec<Line> {
    let conf = match &node.slurm {
        Ok(conf) => conf,
        Err(Absent::NotFound) => {
            return vec![Line::skip("slurm.conf", "no slurm.conf is found; `--slurm-conf` names one")];
        }
        Err(Absent::Unreadable { path, why, fix }) => {
            return vec![Line::fail("slurm.conf", format!("cannot read `{}`: {why}", path.display())).fix(*fix)];
        }
    };
    let cgroup = node.host.read(conf.beside("cgroup.conf"));
    vec![
        Line::ok("slurm.conf", conf.path.display().to_string()),
        task_plugin(conf),
        constrain("ConstrainCores", cgroup.as_deref(), conf, "a job could use cores of another"),
        constrain("ConstrainDevices", cgroup.as_deref(), conf, "a job could open GPUs of another"),
    ]
}

fn task_plugin(conf: &Conf) -> Line {
    let subject = "TaskPlugin";
    let plugins = conf.get(subject).unwrap_or("task/none");
    if plugins.contains("affinity") || plugins.contains("cgroup") {
        return Line::ok(subject, plugins);
    }
    Line::warn(subject, format!("{plugins}: nothing keeps a job on its own cores"))
        .fix("`TaskPlugin=task/cgroup,task/affinity` in slurm.conf")
}

fn constrain(subject: &'static str, cgroup: Option<&str>, conf: &Conf, otherwise: &str) -> Line {
    let used = conf.get("TaskPlugin").is_some_and(|plugins| plugins.contains("cgroup"));
    let on = cgroup.and_then(|text| value(text, subject)).is_some_and(|value| value.eq_ignore_ascii_case("yes"));
    match (used, on) {
        (true, true) => Line::ok(subject, "yes"),
        (false, true) => Line::warn(subject, "yes, but without task/cgroup it does nothing")
            .fix("`TaskPlugin=task/cgroup,task/affinity` in slurm.conf"),
        (_, false) => Line::warn(subject, format!("no: {otherwise}")).fix(format!("`{subject}=yes` in cgroup.conf")),
    }
}
