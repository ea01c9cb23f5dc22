//! The `gpu-tune` command.

fn main() {}
