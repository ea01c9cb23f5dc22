//! A [`crate::Machine`] as a file.
