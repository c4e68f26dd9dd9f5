//! Deterministic simulation of hosts that run the `ofi-rdma` engine over a virtual network.
//!
//! One seed decides everything; time is virtual; memory is a map of bytes with regions and keys.
//! The engine is the one that runs in production: this crate is the other implementor of its port.
//!
//! Not here: libfabric (see `ofi-net`), threads, and anything about speed of real hardware.
//!
//! ```text
//!   caller (isend, irecv, test, close)      caller                  oracles
//!      |                                       |                       ^
//!   engine --post--> port ==== timeline ====> land --> cq --harvest--> engine
//!      ^               |        (seed)          |                      |
//!      +---- cq <------+ local completion       +-- memory ------------+--> ledger (the truth)
//! ```
//!
//! # Map, in reading order
//!
//! `config` and `spec` (what is simulated, as a value and as a line of text), `rng`, `timeline`;
//! `memory`, `bounce`, `ops`, `world` (what there is); `post`, `land`, `stray`, `harvest` (what
//! happens); `link`, `caller`, `one_sided`, `optional` (who asks for it); `pattern`, `view`, `ledger`, `judge`, `verdict` (what
//! has to be true); `sim` (the loop), `report`, `coverage`; `shrink`; `explore` (all orders of events of
//! small configurations, with a network of its own); `tagged` (the same of the SENDRECV engine).
#![forbid(unsafe_code)]
#![doc = include_str!("../README.md")]

mod bounce;
mod caller;
mod config;
mod coverage;
pub mod explore;
mod harvest;
mod judge;
mod land;
mod ledger;
mod link;
mod memory;
mod one_sided;
mod ops;
mod optional;
mod pattern;
mod post;
mod report;
mod rng;
mod shrink;
mod sim;
mod spec;
mod stray;
pub mod tagged;
mod timeline;
mod verdict;
mod view;
mod world;

pub use config::{Death, Faults, Sabotage, SimConfig};
pub use coverage::Coverage;
pub use report::{Failure, Hits, Record, Report, What};
pub use rng::Rng;
pub use shrink::shrink;
pub use sim::Sim;
pub use spec::SpecError;
