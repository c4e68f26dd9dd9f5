//! Deterministic simulation of hosts that run the `ofi-sendrecv` engine over a network of tagged messages.
//!
//! As for RDMA: one seed decides everything, time is virtual, the engine is the one that runs in production.
//! What has to be true: message k of a sender is in receive k, once, with the right size; a request ends once,
//! as does a life of a link; only that fails to which something happened; "not now" is true; regions count as used
//! while the provider has an operation on them; nothing is posted for who closed; nothing is left at the end.

mod host;
mod link;
mod net;
mod run;
mod setup;

pub use run::{Failure, Report, run, shrink};
pub use setup::{Fault, Sabotage, Setup};
