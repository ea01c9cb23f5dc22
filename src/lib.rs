//! The SPANK plugin `gpu_tune.so`: glue between Slurm's hooks and the engine.
//!
//! [`spank`] is what Slurm calls and the only room that knows `slurm-spank`; [`hooks`] has one file for each program
//! that loads us; [`step`] reads a step and makes its layout before the fork; [`task`] is what happens in each task,
//! and [`launch`] what is done for processes that tasks start. Everything runs in [`guard`]: no panic reaches Slurm.

mod devices;
mod discovery;
mod environment;
mod guard;
mod hooks;
mod launch;
mod logging;
mod options;
mod release;
pub mod spank;
pub mod stamp;
mod step;
mod task;
mod telling;
mod trace;
