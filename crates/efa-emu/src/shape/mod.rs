//! NICs of real instances.
