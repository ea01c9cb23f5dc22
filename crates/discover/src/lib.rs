//! Reads a machine: hwloc for the shape, NVML for the GPUs, /sys for the rest.
