//! The `ofi` command.
fn main() {}
