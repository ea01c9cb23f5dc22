//! sbatch and salloc: get ready for the option. It travels with the job to the steps inside.
#![forbid(unsafe_code)]

use crate::launch;
use crate::options;
use crate::spank::Handle;

pub(super) fn init(handle: &Handle<'_>) {
    launch::forget_own();
    options::offer(super::site(handle));
}
