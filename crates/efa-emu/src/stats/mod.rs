//! What happened, for tests to read.
