//! The part of gpu-tune that decides: machine, step and profile go in, a plan comes out, and `apply` carries it out.
//!
//! Nothing here knows Slurm or hwloc. Data flows in one direction: [`machine`], [`spec`] and [`profile`] are read,
//! [`plan`] is a pure function of them, [`os`] makes the system calls. Whatever a person should hear travels as a
//! [`notice::Notice`]; printing belongs to the caller.

pub mod apply;
pub mod env;
pub mod fabric;
pub mod idset;
pub mod launch;
pub mod machine;
pub mod notice;
pub mod os;
pub mod pci;
pub mod plan;
pub mod profile;
pub mod regular;
pub mod report;
pub mod snapshot;
pub mod spec;
pub mod text;
pub mod trusted;
pub mod tune;

#[cfg(test)]
pub(crate) mod testing;

pub use idset::{CpuSet, IdSet, NodeSet};
pub use machine::Machine;
pub use notice::{Code, Notice};
pub use pci::PciAddress;
pub use tune::tune;
