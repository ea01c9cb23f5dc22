//! Launcher mode: what a task that starts the ranks itself is given, so that its ranks are bound and find each other.
//!
//! Everything here is text in, text out. `plan_text` is what the preload shim reads.
#![forbid(unsafe_code)]

pub mod plan_text;
