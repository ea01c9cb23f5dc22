//! Tests that stand beside the plugin's own code. A program cannot be linked with the plugin itself, because only Slurm has
//! the functions that it calls; the modules that need none of them are compiled in here.
#![cfg(test)]
#![allow(dead_code, reason = "the plugin uses the rest")]

#[path = "../src/step/board.rs"]
mod board;
#[path = "../src/step/cpus.rs"]
mod cpus;
#[path = "../src/step/own.rs"]
mod own;
#[path = "../src/step/standing.rs"]
mod standing;
#[path = "../src/step/wish.rs"]
mod wish;
