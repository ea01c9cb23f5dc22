//! The `gpu-tune` command: see [`gpu_tune_cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    gpu_tune_cli::main()
}
