//! gpu-tune itself: is it installed, loaded on both sides, in the right place, with everything it needs?

use super::Node;
use super::described::Described;
use super::host::is_denied;
use super::kept;
use super::line::{Line, State};
use super::plugstack::{Entry, Plugstack};
use super::slurm::Absent;
use gpu_tune_engine::profile::{Catalog, Kind};
use gpu_tune_engine::spec::{Choice, SiteConfig};
use gpu_tune_engine::text::chain;
use gpu_tune_engine::trusted;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Everything about the plugin. Without its line in plugstack.conf the rest is looked at with the defaults.
pub(super) fn check(node: &Node) -> Vec<Line> {
    let mut lines = Vec::new();
    let entry = listed(node, &mut lines);
    lines.extend(entry.map(|entry| words_of(node, entry)));
    if let Some(entry) = entry {
        let without = match entry.required {
            true => "a user's srun fails",
            false => "a user's srun goes on without it, or fails at `--gpu-tune`",
        };
        lines.push(file(node, "plugin file", &entry.plugin, without));
        lines.push(order(node));
    }
    lines.push(in_srun(node));
    lines.push(in_slurmd(node, entry));
    match &node.site {
        Ok(site) => {
            lines.push(file(node, "shim", &site.shim, "ranks that a user's launcher starts are not bound"));
            lines.push(command(node, &site.command));
            lines.extend(node.described.as_ref().map(Described::check));
            lines.push(kept::check(node, site));
            lines.extend(profiles(node, site));
        }
        // The default places may not be those that the words name.
        Err(_) => {
            let subjects = ["shim", "command", "snapshot", "profiles"];
            lines.extend(subjects.map(|subject| Line::skip(subject, "unknown: the words are not understood")));
        }
    }
    lines
}

/// Whether plugstack.conf has our line, and what is wrong with the file.
fn listed<'a>(node: &'a Node, lines: &mut Vec<Line>) -> Option<&'a Entry> {
    let subject = "plugstack.conf";
    let Some(path) = &node.plugstack.path else {
        lines.push(Line::skip(subject, "unknown without slurm.conf"));
        return None;
    };
    let path = path.display();
    let ours = node.plugstack.ours();
    lines.push(match ours {
        None if !node.plugstack.found => Line::fail(subject, format!("{path} is not there")).fix(ADD),
        None => Line::fail(subject, not_listed(&node.plugstack)).fix(ADD),
        Some((_, entry)) if entry.required => Line::warn(
            subject,
            format!("{} lists gpu_tune.so as `required`: a missing file would stop slurmd and srun", entry.place),
        )
        .fix("write `optional`; `strict` is the word for jobs that must not run untuned"),
        Some((_, entry)) => Line::ok(subject, format!("{} lists gpu_tune.so", entry.place)),
    });
    lines.extend(oddities(&node.plugstack));
    lines.extend(
        node.plugstack.files.iter().filter_map(|file| closed(node, subject, file, READ, "a user's srun fails")),
    );
    ours.map(|(_, entry)| entry)
}

const ADD: &str = "add `optional /usr/local/lib/gpu-tune/gpu_tune.so` on every node";

/// A pattern that no file fits is no fault, but may be the reason.
fn not_listed(plugstack: &Plugstack) -> String {
    let path = plugstack.path.as_deref().unwrap_or(Path::new("plugstack.conf"));
    let why = plugstack.empty.iter().map(|place| format!("; {place}"));
    format!("{} does not list gpu_tune.so{}", path.display(), why.collect::<String>())
}

fn oddities(plugstack: &Plugstack) -> Vec<Line> {
    let subject = "plugstack.conf";
    let circle = plugstack.circle.iter().map(|place| {
        Line::fail(subject, format!("{place} includes a file that includes this one: srun crashes"))
            .fix("take that line away")
    });
    let ignored = plugstack.ignored.iter().map(|place| {
        Line::warn(subject, format!("{place}: Slurm passes the line over")).fix("correct the line, or take it away")
    });
    let places: Vec<&str> = plugstack.all_ours().map(|entry| entry.place.as_str()).collect();
    let twice = (places.len() > 1).then(|| {
        Line::fail(subject, format!("gpu_tune.so is listed {} times: {}", places.len(), places.join(", ")))
            .fix("leave one line")
    });
    circle.chain(ignored).chain(twice).collect()
}

/// The words behind the plugin; with a wrong one the plugin stays out of the way.
fn words_of(node: &Node, entry: &Entry) -> Line {
    match &node.site {
        Ok(_) if entry.words.is_empty() => Line::ok("words", "none"),
        Ok(_) => Line::ok("words", entry.words.join(" ")),
        Err(error) => Line::fail("words", chain(error)).fix_if(error.help()),
    }
}

/// A file that only root may have written, and everybody can read: srun and the tasks are the user's. `without` is what
/// comes of it if they cannot.
fn file(node: &Node, subject: &'static str, path: &Path, without: &str) -> Line {
    let closed = || closed(node, subject, path, READ, without);
    refused(node, subject, path).or_else(closed).unwrap_or_else(|| Line::ok(subject, path.display().to_string()))
}

/// The command: slurmd and slurmstepd start it as root, users only to look at something.
fn command(node: &Node, path: &Path) -> Line {
    let subject = "command";
    if let Some(line) = refused(node, subject, path) {
        return line;
    }
    let shown = path.display();
    if fs::metadata(node.host.path(path)).is_ok_and(|meta| meta.mode() & 0o111 == 0) {
        let text = format!("{shown} cannot be executed: steps get no snapshot from it");
        return Line::fail(subject, text).fix(format!("chmod a+rx {shown}"));
    }
    match closed(node, subject, path, LIST, "steps use it, users cannot") {
        Some(line) => Line { state: State::Warn, ..line },
        None => Line::ok(subject, shown.to_string()),
    }
}

/// The line that tells why root itself does not use a file. What is only kept from us is for [`closed`].
fn refused(node: &Node, subject: &'static str, path: &Path) -> Option<Line> {
    match trusted::check(&node.host.path(path)) {
        Ok(()) => None,
        Err(error) if error.is_missing() => {
            let text = format!("{} is not there", path.display());
            Some(Line::fail(subject, text).fix("`make install`, or the package"))
        }
        Err(error) if is_denied(&error) && barrier(node, path, READ).is_some() => None,
        Err(error) => Some(Line::fail(subject, chain(&error)).fix_if(error.help())),
    }
}

fn order(node: &Node) -> Line {
    let subject = "order";
    match (node.plugstack.ours(), node.plugstack.pyxis()) {
        (Some((ours, _)), Some(pyxis)) if ours < pyxis => {
            Line::warn(subject, "gpu_tune.so stands before pyxis: a container image's variables beat the profile's")
                .fix("list gpu_tune.so after spank_pyxis.so")
        }
        (_, Some(_)) => Line::ok(subject, "after pyxis"),
        (_, None) => Line::skip(subject, "no pyxis here"),
    }
}

/// srun prints a plugin's options only if it accepted the plugin, so this shows that stamp and libraries are right.
fn in_srun(node: &Node) -> Line {
    let subject = "loaded by srun";
    if matches!(node.slurm, Err(Absent::Unreadable { .. })) {
        return Line::skip(subject, "unknown without slurm.conf");
    }
    let conf = node.slurm.as_ref().ok().map(|conf| node.host.path(&conf.path));
    let help = match node.host.run("srun", &["--help"], conf.as_deref()) {
        Ok(Some(help)) => help,
        Ok(None) => return Line::skip(subject, "srun is not installed here, or does not answer"),
        Err(error) => return Line::fail(subject, format!("srun is not asked: {}", chain(&error))).fix_if(error.help()),
    };
    if help.contains("--gpu-tune") {
        return Line::ok(subject, "`srun --help` knows `--gpu-tune`");
    }
    if !help.contains("Usage: srun") {
        let said = help.lines().next().unwrap_or("it ends without a word");
        if conf.is_none() {
            return Line::skip(subject, format!("unknown without slurm.conf: {said}"));
        }
        return Line::fail(subject, format!("`srun --help` does not work here: {said}"))
            .fix("what it says; a plugstack.conf that includes itself crashes it");
    }
    let said = help.lines().find(|line| line.contains("gpu_tune")).map(|line| format!(": {}", line.trim()));
    Line::fail(subject, format!("`srun --help` does not know `--gpu-tune`{}", said.unwrap_or_default()))
        .fix("the same plugstack.conf line and file on this node; `srun -v` tells why Slurm refuses a plugin")
}

/// What users need, as chmod(1) writes it: of a file, of a directory that they list or a program, and of every directory on
/// the way.
const READ: (u32, &str) = (0o004, "a+r");
const LIST: (u32, &str) = (0o005, "a+rx");
const PASS: (u32, &str) = (0o001, "a+x");

/// The line that tells why users cannot use a file that is there, if so, and what comes of it.
fn closed(node: &Node, subject: &'static str, path: &Path, wanted: (u32, &'static str), without: &str) -> Option<Line> {
    let (place, mode) = barrier(node, path, wanted)?;
    let (file, place) = (path.display(), place.display());
    Some(
        Line::fail(subject, format!("{file} can be read by root only: {without}")).fix(format!("chmod {mode} {place}")),
    )
}

/// What keeps users from a file, it or a directory on the way, and the mode that it lacks.
fn barrier<'a>(node: &Node, path: &'a Path, wanted: (u32, &'static str)) -> Option<(&'a Path, &'static str)> {
    let lacks = |path: &Path, (bits, _): (u32, &str)| {
        fs::metadata(node.host.path(path)).is_ok_and(|meta| meta.mode() & bits != bits)
    };
    let way = path.ancestors().skip(1).map(|folder| (folder, PASS)).filter(|(folder, _)| *folder != Path::new(""));
    let (place, (_, mode)) = way.chain([(path, wanted)]).filter(|(path, wanted)| lacks(path, *wanted)).last()?;
    Some((place, mode))
}

/// A plugin that slurmd accepted stays mapped, even after its file was replaced.
fn in_slurmd(node: &Node, entry: Option<&Entry>) -> Line {
    let subject = "loaded by slurmd";
    let Some(pid) = node.host.processes("slurmd").first().copied() else {
        return Line::skip(subject, "no slurmd runs here");
    };
    let Some(maps) = node.host.read(format!("/proc/{pid}/maps")) else {
        return Line::skip(subject, "only root can see it");
    };
    let restart = "restart slurmd: it reads plugstack.conf when it starts; its log tells why it refuses a plugin";
    // `START-END MODE OFFSET DEVICE INODE      PATH`, and `(deleted)` behind a path that leads elsewhere now.
    let mapped = maps.lines().filter_map(|line| Some(line.get(line.find(" /")? + 1..)?.trim_end_matches(" (deleted)")));
    match mapped.into_iter().find(|path| path.ends_with("/gpu_tune.so")) {
        None => Line::warn(
            subject,
            format!("slurmd ({pid}) does not have it: if it refused it, so do its steps; else the first step waits"),
        )
        .fix(restart),
        Some(path) if entry.is_some_and(|entry| entry.plugin != Path::new(path)) => {
            Line::warn(subject, format!("slurmd ({pid}) has {path}, which plugstack.conf does not name")).fix(restart)
        }
        Some(_) => Line::ok(subject, format!("slurmd ({pid}) has it")),
    }
}

fn profiles(node: &Node, site: &SiteConfig) -> Vec<Line> {
    let subject = "profiles";
    let (catalog, notices) = Catalog::load(&node.host.path(&site.profile_dir));
    let mut lines: Vec<Line> = notices.iter().map(|notice| Line::fail(subject, &notice.message)).collect();
    for (name, entry) in catalog.entries().filter(|(_, entry)| !entry.source().builtin) {
        if let Err(error) = catalog.lineage(name) {
            lines.push(Line::fail(subject, chain(&error)).fix("`gpu-tune profile check` tells all"));
        }
        for finding in entry.findings(name).iter().filter(|finding| finding.kind != Kind::Error) {
            lines.push(Line::warn(subject, finding.to_string()).fix_if(finding.help.clone()));
        }
    }
    lines.extend(unreadable(node, &site.profile_dir));
    lines.extend(named(&catalog, site));
    if lines.is_empty() {
        let own = catalog.entries().filter(|(_, entry)| !entry.source().builtin).count();
        let all = catalog.names().count();
        lines.push(Line::ok(subject, format!("{own} of this site, {} built in, all usable", all - own)));
    }
    lines
}

/// The directory, and profiles in it, that a user's srun cannot read.
fn unreadable(node: &Node, dir: &Path) -> Vec<Line> {
    let subject = "profiles";
    let names = fs::read_dir(node.host.path(dir)).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let mut files: Vec<_> = names.map(|name| dir.join(name)).collect();
    files.retain(|path| path.extension().is_some_and(|end| end == "toml"));
    files.sort();
    let closed = |path, wanted| closed(node, subject, path, wanted, "a user's srun cannot check or use what it has");
    match closed(dir, LIST) {
        Some(line) => vec![line],
        None => files.iter().filter_map(|path| closed(path, READ)).collect(),
    }
}

/// Profiles that plugstack.conf names and that cannot be used, or not for what they are named for, each with its word.
fn named(catalog: &Catalog, site: &SiteConfig) -> Vec<Line> {
    let subject = "words";
    let default = site.default.as_ref();
    let profile = default.and_then(|spec| match &spec.profile {
        Choice::Named(name) => Some(name),
        Choice::Auto | Choice::Off | Choice::List => None,
    });
    let layers = default.into_iter().flat_map(|spec| &spec.layers).map(|name| ("default", name));
    let layers: Vec<(&str, &String)> = layers.chain(site.fabric.iter().map(|name| ("fabric", name))).collect();
    let all = profile.map(|name| ("default", name)).into_iter().chain(layers.iter().copied());
    let unusable = |(word, name): (&str, &String)| {
        let error = catalog.lineage(name).err()?;
        Some(Line::fail(subject, format!("`{word}=`: {}", chain(&error))).fix_if(error.help()))
    };
    let whole = |(word, name): &(&str, &String)| {
        catalog.profile(name).ok().filter(|profile| !profile.layer)?;
        let text = format!("`{word}=` names `{name}` as a layer, which is a whole profile: all its values go on top");
        Some(
            Line::warn(subject, text)
                .fix("name a layer (`gpu-tune profile list`), or write `layer = true` in its file"),
        )
    };
    let allowed = site.allow.iter().flatten().filter(|name| *name != "auto" && catalog.get(name).is_none());
    let absent = allowed.map(|name| {
        Line::warn(subject, format!("`allow=` names `{name}`, which there is not")).fix("`gpu-tune profile list`")
    });
    all.filter_map(unusable).chain(layers.iter().filter_map(whole)).chain(absent).collect()
}
