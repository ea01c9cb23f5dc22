//! Which profiles there are.
//!
//! The admin's files are read at once, because that needs root and happens early in a step; they are parsed only when a job
//! or a list asks for them.

use super::builtin::BUILTIN;
use super::{Finding, Kind, Profile, ProfileError, Source, bounds};
use crate::spec::{Choice, RESERVED, SiteConfig, Spec, is_name};
use crate::text::{chain, shown};
use crate::trusted::{self, Listing, TrustError};
use crate::{Code, Notice};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// The profiles built in and those of the admin's directory, which win.
#[derive(Debug, Default)]
pub struct Catalog {
    entries: BTreeMap<String, Entry>,
}

/// One profile that somebody can name, usable or not.
#[derive(Debug)]
pub struct Entry {
    source: Source,
    text: Text,
    parsed: OnceLock<(Option<Profile>, Vec<Finding>)>,
}

#[derive(Debug)]
enum Text {
    Here(Cow<'static, str>),
    /// Not UTF-8.
    Odd,
    Refused(Arc<TrustError>),
}

impl Catalog {
    /// Only the built-in profiles.
    pub fn builtin() -> Self {
        let entry = |(name, text): &(&str, &'static str)| {
            let source = Source { file: format!("profiles/{name}.toml").into(), builtin: true };
            ((*name).to_owned(), Entry::new(source, Text::Here(Cow::Borrowed(text))))
        };
        Self { entries: BUILTIN.iter().map(entry).collect() }
    }

    /// The built-in profiles and every `*.toml` of a directory. A directory that is not there is no fault. A directory or
    /// file that others could have written is not used: the first is told here, the second to whoever names that profile.
    pub fn load(dir: &Path) -> (Self, Vec<Notice>) {
        let mut catalog = Self::builtin();
        let mut notices = Vec::new();
        match trusted::list_dir(dir, ".toml", bounds::FILES) {
            Ok(listing) => {
                listing.files.iter().for_each(|file| notices.extend(catalog.add_file(&listing, file)));
            }
            Err(error) if error.is_missing() => {}
            Err(error) => notices.push(untrusted(&error)),
        }
        (catalog, notices)
    }

    /// Adds a file's text under a name, in place of any profile of that name; for `gpu-tune profile check` and for tests.
    pub fn add_text(&mut self, name: &str, source: Source, text: String) {
        self.add(name, Entry::new(source, Text::Here(Cow::Owned(text))));
    }

    fn add(&mut self, name: &str, entry: Entry) {
        // What it imports must be read now, while we are root: so it is parsed now.
        if entry.text().is_some_and(|text| text.contains("import")) {
            entry.parsed(name);
        }
        self.entries.insert(name.to_owned(), entry);
    }

    fn add_file(&mut self, listing: &Listing, file: &Path) -> Option<Notice> {
        let name = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        if !is_name(name) || RESERVED.contains(&name) {
            let message =
                format!("`{}` is not used: `{}` cannot be the name of a profile", file.display(), shown(name));
            return Some(Notice::new(Code::Profile, message).help("names are of a-z, 0-9, `_`, `.` and `-`"));
        }
        let text = match listing.read(file, bounds::FILE) {
            Ok(bytes) => String::from_utf8(bytes).map_or(Text::Odd, |text| Text::Here(Cow::Owned(text))),
            Err(error) => Text::Refused(Arc::new(error)),
        };
        self.add(name, Entry::new(Source::file(file), text));
        None
    }

    /// The names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// What stands under a name.
    pub fn get(&self, name: &str) -> Option<&Entry> {
        self.entries.get(name)
    }

    /// Everything, by name.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.entries.iter().map(|(name, entry)| (name.as_str(), entry))
    }

    /// A usable profile.
    pub fn profile(&self, name: &str) -> Result<&Profile, ProfileError> {
        let entry = self.entries.get(name).ok_or_else(|| self.unknown(name))?;
        entry.profile(name)
    }

    /// A profile with all that it inherits, the most general first.
    pub fn lineage(&self, name: &str) -> Result<Vec<&Profile>, ProfileError> {
        self.lineage_of(self.profile(name)?)
    }

    pub(super) fn lineage_of<'a>(&'a self, profile: &'a Profile) -> Result<Vec<&'a Profile>, ProfileError> {
        let mut line = vec![profile];
        while let Some((child, inherits)) = line.last().and_then(|last| Some((*last, last.inherits.as_ref()?))) {
            if line.iter().any(|profile| *profile.name == *inherits.name) {
                return Err(round(&line, &inherits.name));
            }
            if line.len() > bounds::INHERITED {
                return Err(ProfileError::TooDeep { name: profile.name.to_string() });
            }
            let parent = self.entries.get(&inherits.name).ok_or_else(|| ProfileError::Parent {
                name: child.name.to_string(),
                parent: inherits.name.clone(),
                file: child.source.file.clone(),
                line: inherits.line,
                installed: self.installed(),
            })?;
            line.push(parent.profile(&inherits.name)?);
        }
        line.reverse();
        Ok(line)
    }

    /// Whether what an option names can be used: for `srun`, before anything is allocated. Conditions are not looked at, and
    /// what the admin's own words name is not the user's fault.
    pub fn check(&self, spec: &Spec, site: &SiteConfig) -> Result<(), ProfileError> {
        super::lock::allowed(spec, site)?;
        let profile = match &spec.profile {
            Choice::Named(name) => Some(name),
            _ => None,
        };
        let mut named = profile.into_iter().chain(&spec.layers);
        // Those built in are as good as on the day they were built in, unless a file stands in the place of one of them.
        let original = BUILTIN.iter().all(|(name, _)| self.is_builtin(name));
        named.try_for_each(|name| if original && self.is_builtin(name) { Ok(()) } else { self.lineage(name).map(drop) })
    }

    /// What a user may name here, by name, usable or not: `allow=` counts, and what the admin's own words name.
    pub fn offered<'a>(
        &'a self,
        site: &'a SiteConfig,
    ) -> impl Iterator<Item = (&'a str, Result<&'a Profile, ProfileError>)> {
        let may = |name: &&str| {
            let as_layer = Spec { layers: vec![(*name).to_owned()], ..Spec::named("off") };
            [Spec::named(name), as_layer].iter().any(|spec| super::lock::allowed(spec, site).is_ok())
        };
        self.names().filter(may).map(|name| (name, self.lineage(name).and_then(|_| self.profile(name))))
    }

    fn is_builtin(&self, name: &str) -> bool {
        self.entries.get(name).is_some_and(|entry| entry.source.builtin)
    }

    pub(super) fn unknown(&self, name: &str) -> ProfileError {
        ProfileError::Unknown { name: name.to_owned(), installed: self.installed() }
    }

    fn installed(&self) -> Vec<String> {
        self.entries.keys().cloned().collect()
    }
}

impl Entry {
    fn new(source: Source, text: Text) -> Self {
        Self { source, text, parsed: OnceLock::new() }
    }

    /// The file.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The file's text, if it may be read.
    pub fn text(&self) -> Option<&str> {
        match &self.text {
            Text::Here(text) => Some(text),
            Text::Odd | Text::Refused(_) => None,
        }
    }

    /// What is wrong in the file.
    pub fn findings(&self, name: &str) -> &[Finding] {
        &self.parsed(name).1
    }

    /// The profile, if it can be used; `name` is its own.
    pub fn profile(&self, name: &str) -> Result<&Profile, ProfileError> {
        let name = name.to_owned();
        match &self.text {
            Text::Refused(source) => return Err(ProfileError::Unreadable { name, source: source.clone() }),
            Text::Odd => return Err(ProfileError::NotText { name, file: self.source.file.clone() }),
            Text::Here(_) => {}
        }
        let (profile, findings) = self.parsed(&name);
        profile.as_ref().ok_or_else(|| {
            let fault = findings.iter().find(|finding| finding.kind == Kind::Error).or(findings.first());
            fault.map_or_else(
                || ProfileError::NotText { name: name.clone(), file: self.source.file.clone() },
                |finding| ProfileError::Invalid { name: name.clone(), finding: Box::new(finding.clone()) },
            )
        })
    }

    /// What can be read of the file, though it has errors.
    pub(super) fn draft(&self, name: &str) -> Option<Profile> {
        Some(Profile::draft(name, &self.source, self.text()?).0)
    }

    fn parsed(&self, name: &str) -> &(Option<Profile>, Vec<Finding>) {
        self.parsed.get_or_init(|| match &self.text {
            Text::Here(text) => with_import(Profile::parse(name, &self.source, text)),
            Text::Odd | Text::Refused(_) => (None, Vec::new()),
        })
    }
}

/// Puts the settings of an imported file behind the profile's own: of two for one variable the first that applies counts. A
/// file that is not there is told and goes without; one that others could have written makes the profile unusable.
fn with_import((profile, mut findings): (Option<Profile>, Vec<Finding>)) -> (Option<Profile>, Vec<Finding>) {
    let Some(mut profile) = profile else { return (None, findings) };
    let Some(import) = profile.import.clone() else { return (Some(profile), findings) };
    let bytes = match trusted::read(&import.path, bounds::FILE) {
        Ok(bytes) => bytes,
        Err(error) => {
            let kind = if error.is_missing() { Kind::Warning } else { Kind::Error };
            let (file, message) = (profile.source.file.clone(), format!("nothing is imported: {}", chain(&error)));
            findings.push(Finding { kind, file, line: import.line, column: 1, width: 1, message, help: error.help() });
            return ((kind == Kind::Warning).then_some(profile), findings);
        }
    };
    let source = Source::file(&import.path);
    let (rules, odd) = super::import::read(&String::from_utf8_lossy(&bytes), &source, &profile.name);
    findings.extend(odd);
    profile.env.extend(rules);
    profile.env.sort_by(|a, b| a.name.cmp(&b.name));
    (Some(profile), findings)
}

fn untrusted(error: &TrustError) -> Notice {
    Notice::new(Code::Profile, format!("only built-in profiles are used: {}", chain(error))).help_if(error.help())
}

/// The loop that a line of profiles closes by inheriting `name`, which is already in it.
fn round(line: &[&Profile], name: &str) -> ProfileError {
    let mut names: Vec<String> =
        line.iter().skip_while(|profile| *profile.name != *name).map(|profile| profile.name.to_string()).collect();
    names.push(name.to_owned());
    let (file, at) = line.last().map_or_else(
        || (Arc::from(""), 0),
        |last| (last.source.file.clone(), last.inherits.as_ref().map_or(0, |inherits| inherits.line)),
    );
    ProfileError::Loop { names, file, line: at }
}
