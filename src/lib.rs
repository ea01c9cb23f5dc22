//! The SPANK plugin `gpu_tune.so`: glue between Slurm's hooks and the engine.
