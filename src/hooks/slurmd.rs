//! slurmd, as root: has the snapshot made ahead of the first step.
#![forbid(unsafe_code)]

use crate::discovery;
use crate::spank::Handle;

/// At the daemon's start, and in newer releases at a reconfigure.
pub(super) fn init(handle: &Handle<'_>) {
    if let Some(site) = super::site(handle) {
        discovery::start(&site);
    }
}
