//! The admin's words behind the plugin's path in `plugstack.conf`.

use super::parse::{checked, layer_name};
use super::{Choice, Spec, SpecError};
use crate::text::shown;
use std::path::PathBuf;

/// Every word, as it is written.
pub(super) const WORDS: &[&str] =
    &["default", "fabric", "profile_dir", "allow", "lock", "strict", "shim", "command", "nvml", "topology", "state"];

/// Everything that `lock=` may name.
pub(super) const LOCKS: &[&str] =
    &["bind", "mem", "smt", "env", "workers", "rendezvous", "dry-run", "off", "profile", "layers"];

/// Where `make install` puts things; set when the project is built.
const PREFIX: &str = match option_env!("GPU_TUNE_PREFIX") {
    Some(prefix) => prefix,
    None => "/usr/local",
};

/// The words of `plugstack.conf`, with their defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteConfig {
    /// `default=`: the option of a job that gives none.
    pub default: Option<Spec>,
    /// `fabric=`: the layer that every profile gets, because the network is the cluster's property.
    pub fabric: Option<String>,
    /// `profile_dir=`: where the admin's profiles are.
    pub profile_dir: PathBuf,
    /// `allow=`: the only profiles and layers that users may name; `None`: all. What `default=` and `fabric=` name is always
    /// allowed, and so is what an allowed profile inherits. With a list, `auto` must be in it too.
    pub allow: Option<Vec<String>>,
    /// `lock=`: what the user's option cannot change.
    pub lock: Vec<Lock>,
    /// `strict`: a task that cannot be tuned as asked ends with the reason.
    pub strict: bool,
    /// `shim=`: the preload shim.
    pub shim: PathBuf,
    /// `command=`: the `gpu-tune` command that discovery runs.
    pub command: PathBuf,
    /// `nvml=`: the NVML library for discovery; `None`: where the loader finds it.
    pub nvml: Option<PathBuf>,
    /// `topology=`: a file instead of discovery.
    pub topology: Option<PathBuf>,
    /// `state=`: where the snapshot is kept.
    pub state: PathBuf,
}

/// Something that the user's option cannot change. What he asked for instead is ignored and told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lock {
    /// The key `bind=`: the profile's `[bind] cpu` holds.
    Bind,
    /// The key `mem=`: the profile's `[bind] mem` holds.
    Mem,
    /// The key `smt=`: the profile's `[bind] smt` holds.
    Smt,
    /// The key `env=off`. (What the user exports himself still wins over values that are not forced.)
    Env,
    /// The key `workers=off`: the profile's `[launch] workers` holds.
    Workers,
    /// The key `rendezvous=`: the profile's `[launch] rendezvous` holds.
    Rendezvous,
    /// The key `dry-run`: the table is printed, and the plan is carried out.
    DryRun,
    /// `off`, and `dry-run`, which comes to the same: a job that says so, or names a profile that does not exist, runs with
    /// the `default=`.
    Off,
    /// The profile: always the one of `default=`. The user's layers and keys hold.
    Profile,
    /// Layers: only those of `default=`.
    Layers,
}

impl Lock {
    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bind => "bind",
            Self::Mem => "mem",
            Self::Smt => "smt",
            Self::Env => "env",
            Self::Workers => "workers",
            Self::Rendezvous => "rendezvous",
            Self::DryRun => "dry-run",
            Self::Off => "off",
            Self::Profile => "profile",
            Self::Layers => "layers",
        }
    }

    fn from_word(word: &str) -> Option<Self> {
        use Lock::{Bind, DryRun, Env, Layers, Mem, Off, Profile, Rendezvous, Smt, Workers};
        [Bind, Mem, Smt, Env, Workers, Rendezvous, DryRun, Off, Profile, Layers]
            .into_iter()
            .find(|lock| lock.as_str() == word)
    }
}

impl Default for SiteConfig {
    fn default() -> Self {
        Self {
            default: None,
            fabric: None,
            profile_dir: PathBuf::from("/etc/gpu-tune/profiles.d"),
            allow: None,
            lock: Vec::new(),
            strict: false,
            shim: PathBuf::from(format!("{PREFIX}/lib/gpu-tune/libgpu_tune_preload.so")),
            command: PathBuf::from(format!("{PREFIX}/bin/gpu-tune")),
            nvml: None,
            topology: None,
            state: PathBuf::from("/run/gpu-tune"),
        }
    }
}

impl SiteConfig {
    /// Reads the words. The first that is wrong is named, and nothing of the line is used.
    pub fn parse(args: &[&str]) -> Result<Self, SpecError> {
        let mut site = Self::default();
        let mut seen: Vec<&str> = Vec::new();
        for arg in args {
            let (name, value) = arg.split_once('=').map_or((*arg, None), |(name, value)| (name, Some(value)));
            let word = *WORDS.iter().find(|word| **word == name).ok_or_else(|| SpecError::UnknownWord(shown(name)))?;
            if seen.contains(&word) {
                return Err(SpecError::WordTwice(word));
            }
            seen.push(word);
            site.take(word, value)?;
        }
        site.check_locks()?;
        Ok(site)
    }

    /// Whether the user's option cannot change this.
    pub fn locked(&self, lock: Lock) -> bool {
        self.lock.contains(&lock) || (lock == Lock::DryRun && self.lock.contains(&Lock::Off))
    }

    fn take(&mut self, word: &'static str, value: Option<&str>) -> Result<(), SpecError> {
        if word == "strict" {
            self.strict = true;
            return if value.is_none() { Ok(()) } else { Err(SpecError::WordValue { word, takes: false }) };
        }
        let value = value.filter(|value| !value.is_empty()).ok_or(SpecError::WordValue { word, takes: true })?;
        match word {
            "default" => self.default = default(value)?,
            "fabric" => self.fabric = Some(layer_name(value)?),
            "profile_dir" => self.profile_dir = absolute(word, value)?,
            "allow" => self.allow = Some(value.split(',').map(checked).collect::<Result<_, _>>()?),
            "lock" => self.lock = value.split(',').map(lock).collect::<Result<_, _>>()?,
            "shim" => self.shim = absolute(word, value)?,
            "command" => self.command = absolute(word, value)?,
            "nvml" => self.nvml = Some(absolute(word, value)?),
            "topology" => self.topology = Some(absolute(word, value)?),
            "state" => self.state = absolute(word, value)?,
            _ => return Err(SpecError::UnknownWord(shown(word))),
        }
        Ok(())
    }

    /// Locks that fall back to `default=` need one.
    fn check_locks(&self) -> Result<(), SpecError> {
        for lock in [Lock::Off, Lock::Profile] {
            if self.lock.contains(&lock) && self.default.is_none() {
                return Err(SpecError::LockNeedsDefault(lock.as_str()));
            }
        }
        Ok(())
    }
}

/// `default=off` is the same as none.
fn default(value: &str) -> Result<Option<Spec>, SpecError> {
    let spec: Spec = value.parse().map_err(|error| SpecError::Default(Box::new(error)))?;
    match spec.profile {
        Choice::Off => Ok(None),
        Choice::List => Err(SpecError::DefaultList),
        Choice::Named(_) | Choice::Auto => Ok(Some(spec)),
    }
}

fn lock(word: &str) -> Result<Lock, SpecError> {
    Lock::from_word(word).ok_or_else(|| SpecError::UnknownLock(shown(word)))
}

fn absolute(word: &'static str, value: &str) -> Result<PathBuf, SpecError> {
    let path = PathBuf::from(value);
    if path.is_absolute() { Ok(path) } else { Err(SpecError::RelativePath { word, path: shown(value) }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(args: &[&str]) -> String {
        SiteConfig::parse(args).unwrap_err().to_string()
    }

    #[test]
    fn every_word_is_read() {
        let site = SiteConfig::parse(&[
            "default=h200+fsdp,bind=numa",
            "fabric=roce",
            "profile_dir=/etc/p",
            "allow=h100,h200",
            "lock=bind,mem,smt,env,workers,rendezvous,dry-run,off,profile,layers",
            "strict",
            "shim=/s.so",
            "command=/c",
            "nvml=/n.so",
            "topology=/t.xml",
            "state=/run/x",
        ])
        .unwrap();
        assert_eq!(site.default.as_ref().unwrap().to_string(), "h200+fsdp,bind=numa");
        assert_eq!(site.fabric.as_deref(), Some("roce"));
        assert_eq!(site.allow.as_deref().unwrap(), ["h100", "h200"]);
        assert_eq!(site.lock.iter().map(|lock| lock.as_str()).collect::<Vec<_>>(), LOCKS);
        assert!(site.strict);
        assert_eq!(site.profile_dir, PathBuf::from("/etc/p"));
        assert_eq!((site.shim, site.command), (PathBuf::from("/s.so"), PathBuf::from("/c")));
        assert_eq!((site.nvml, site.topology), (Some(PathBuf::from("/n.so")), Some(PathBuf::from("/t.xml"))));
        assert_eq!(site.state, PathBuf::from("/run/x"));
    }

    #[test]
    fn no_words_mean_the_defaults() {
        let site = SiteConfig::parse(&[]).unwrap();
        assert_eq!(site, SiteConfig::default());
        assert_eq!(site.state, PathBuf::from("/run/gpu-tune"));
        assert_eq!(site.profile_dir, PathBuf::from("/etc/gpu-tune/profiles.d"));
        assert!(site.command.is_absolute() && site.shim.is_absolute());
    }

    #[test]
    fn a_wrong_word_is_named() {
        let error = SiteConfig::parse(&["profiledir=/x"]).unwrap_err();
        assert_eq!(error.to_string(), "unknown word `profiledir` in plugstack.conf");
        assert!(error.help().unwrap().starts_with("did you mean `profile_dir`? words: default, fabric,"));
        assert_eq!(said(&["strict=1"]), "the word `strict` in plugstack.conf takes no value");
        assert_eq!(said(&["state="]), "the word `state` in plugstack.conf needs a value");
        assert_eq!(said(&["state"]), "the word `state` in plugstack.conf needs a value");
        assert_eq!(said(&["strict", "strict"]), "the word `strict` is given twice in plugstack.conf");
        assert_eq!(said(&["shim=x.so"]), "`shim=x.so` in plugstack.conf is not an absolute path");
        assert_eq!(said(&["shim=\u{1b}[2J"]), "`shim=\\u{1b}[2J` in plugstack.conf is not an absolute path");
        assert_eq!(said(&["fabric=off"]), "`off` cannot be a layer");
        assert_eq!(said(&["allow=h200,"]), "`` cannot be the name of a profile or layer");
        assert_eq!(said(&["default=list"]), "`default=list` in plugstack.conf makes no sense");
    }

    #[test]
    fn a_bad_default_says_why() {
        let error = SiteConfig::parse(&["default=h200,fast"]).unwrap_err();
        assert_eq!(error.to_string(), "`default=` in plugstack.conf is not understood");
        assert_eq!(std::error::Error::source(&error).unwrap().to_string(), "unknown key `fast`");
        assert_eq!(SiteConfig::parse(&["default=off"]).unwrap().default, None);
    }

    #[test]
    fn a_lock_on_off_needs_something_to_hold_on_to() {
        assert_eq!(said(&["lock=off"]), "`lock=off` in plugstack.conf needs a `default=` profile to hold on to");
        let error = SiteConfig::parse(&["lock=bnd"]).unwrap_err();
        assert_eq!(error.to_string(), "`bnd` in `lock=` in plugstack.conf cannot be locked");
        let site = SiteConfig::parse(&["default=h200", "lock=off"]).unwrap();
        assert!(site.locked(Lock::Off) && site.locked(Lock::DryRun) && !site.locked(Lock::Bind));
    }
}
