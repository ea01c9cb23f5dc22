//! What no replayed machine can show: on a kernel with NUMA nodes, every rank of a real Slurm step runs beside its GPU
//! and has its memory there.
//!
//! `make vm-test` boots the virtual node of `tests/vm` in several shapes and runs these tests in each; a test whose shape is
//! not there says so and passes. Each task is a witness that touches fresh memory and reads back its mask, its policy and
//! where its pages are; which GPU it has is what it can open, and what is near comes from /sys ([`truth`]).
#![cfg(test)]

#[path = "../slurm/mod.rs"]
mod slurm;

mod before_after;
mod launchers;
mod layout;
mod limits;
mod memory;
mod node;
mod placed;
mod ranks;
mod shapes;
mod sharing;
mod truth;
mod wishes;
