//! The snapshot that steps read: is it there, is it of this node as it is, and can one be kept at all?

use super::Node;
use super::host::is_denied;
use super::line::Line;
use crate::words;
use gpu_tune_engine::snapshot::{self, Key, SnapshotError};
use gpu_tune_engine::spec::SiteConfig;
use gpu_tune_engine::text::chain;
use gpu_tune_engine::trusted::{self, TrustError};

const SUBJECT: &str = "snapshot";

/// The line about it.
pub(super) fn check(node: &Node, site: &SiteConfig) -> Line {
    match &node.described {
        Some(described) if described.machine.is_err() => {
            return Line::skip(SUBJECT, "unknown without the file of `topology=`");
        }
        Some(described) if described.is_snapshot => {
            let text = format!("not needed: steps read {} itself", described.file.display());
            return Line::skip(SUBJECT, text);
        }
        Some(_) | None => {}
    }
    match trusted::check_dir(&node.host.path(&site.state)) {
        Err(error) if !error.is_missing() => no_place(site, &error),
        // It is made with the first snapshot.
        Ok(_) | Err(_) => kept(node, site),
    }
}

/// A place from which nothing is read, and into which nothing is written.
fn no_place(site: &SiteConfig, error: &TrustError) -> Line {
    if is_denied(error) {
        return unseen();
    }
    let other = || format!("remove it, or name another directory with `state=`, then `{}` as root", command(site));
    let text = format!("{}: steps find no snapshot and can keep none, so ranks are not bound", chain(error));
    Line::fail(SUBJECT, text).fix(error.help().unwrap_or_else(other))
}

fn kept(node: &Node, site: &SiteConfig) -> Line {
    let key = Key::of_this_host(node.host.root()).described_by(node.host.root(), site.topology.as_deref());
    let error = match snapshot::load(&node.host.path(&site.state), &key) {
        Ok(machine) => return Line::ok(SUBJECT, words::summary(&machine)),
        Err(SnapshotError::Untrusted(error)) if is_denied(&error) => return unseen(),
        Err(error) => error,
    };
    let help = match &error {
        SnapshotError::Untrusted(error) => error.help(),
        _ => None,
    };
    Line::warn(SUBJECT, format!("{}: the first step has to wait for one", chain(&error)))
        .fix(help.unwrap_or_else(|| format!("`{}` as root writes a new one", command(site))))
}

/// How the snapshot of this site is written by hand.
fn command(site: &SiteConfig) -> String {
    let mut command = "gpu-tune snapshot".to_owned();
    if site.state != SiteConfig::default().state {
        command += &format!(" --state {}", site.state.display());
    }
    if let Some(file) = &site.topology {
        command += &format!(" --topology {}", file.display());
    }
    command
}

fn unseen() -> Line {
    Line::skip(SUBJECT, "only root can see it")
}
