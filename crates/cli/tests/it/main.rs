//! The command as a person or a script meets it: the built program is run, and what it says and how it exits is compared.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests fail the test"
)]

mod bench;
mod common;
mod doctor;
mod exec;
mod frame;
mod hostile;
mod plan;
mod profile;
mod snapshot;
mod topo;
mod verify;
