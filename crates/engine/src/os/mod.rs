//! The system calls that carry a plan out.
