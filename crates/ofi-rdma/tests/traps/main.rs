//! The traps of protocol section 4 and the items of 2.k that concern the engine: one test each, which
//! fails when the trap is built in. Those that live elsewhere are listed in docs/testing.md.

#[path = "../traces/bench.rs"]
#[expect(dead_code, reason = "shared with the traces, which use all of it")]
mod bench;

mod connections;
mod interop;
mod messages;
mod resources;
