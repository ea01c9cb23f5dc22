//! sbatch and salloc: offer the option. It travels with the job to the steps inside.
#![forbid(unsafe_code)]

use crate::options;
use crate::spank::Handle;

pub(super) fn init(handle: &Handle<'_>) {
    options::offer(handle, super::site(handle));
}
