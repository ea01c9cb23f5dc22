//! Reading files that decide what root does.
