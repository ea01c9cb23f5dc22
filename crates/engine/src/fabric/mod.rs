//! The node's RDMA network, as far as variables depend on it.
#![forbid(unsafe_code)]

mod range;

pub use range::AddressRange;
