//! Launcher mode: what a task that starts the ranks itself is given, so that its ranks are bound and find each other.
//!
//! [`command`] recognises launchers by their command line, [`binders`] what in it binds by the user's own wish,
//! [`rendezvous`] decides which variables tell the processes of a step about each other, [`plan_text`] and [`preload`]
//! bring the plan to ranks that Slurm does not start, [`ours`] remembers what we set, so that nothing of it leaks into
//! another job, and [`environment`] puts all of it together for one task. Everything here is text in, text out.
#![forbid(unsafe_code)]

pub mod binders;
pub mod command;
pub mod environment;
pub mod gpus;
pub mod hostlist;
pub mod ours;
pub mod plan_text;
pub mod preload;
pub mod rendezvous;
