//! How the ranks of a run find each other, agree, and end together.
//!
//! ```text
//!   hub (the first process; loads no plugin)  ---- socket ----  link (one in each rank)
//!     all-gather, barrier, results, live line                      watch: tells on a stuck rank
//!     deadlines, deaths, verdict                                   board: what it is doing
//! ```
//!
//! Local ranks are children of the hub and get their socket as standard input; ranks that a
//! launcher started ([`launch`]) connect to an address that all of them derive. Everything that
//! arrives is length-prefixed, bounded and checked ([`frame`]): a stranger on the port is turned
//! away and counted, it never ends the run.

pub(crate) mod board;
mod children;
pub(crate) mod frame;
pub(crate) mod hub;
pub(crate) mod launch;
pub(crate) mod link;
mod seat;
pub(crate) mod stream;

#[cfg(test)]
pub(crate) use board::Board;
pub(crate) use board::Gauge;
pub(crate) use link::{ControlError, Link};
