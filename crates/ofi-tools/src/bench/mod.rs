//! What a rank does: connects, measures, checks.
//!
//! ```text
//! rank: load, init, devices -> for each mode of the plan: mesh (connect what is missing)
//!                                   |
//!        +------------+-------------+----------------+
//!        v            v             v                v
//!     latency     bandwidth       check          collective (ring, alltoall)
//!        \____________|             |                |
//!               flow (window)   random flow      exchange (lanes)
//!                     \_____________|________________/
//!                            payload (pattern, guards)
//! ```

mod alltoall;
pub(crate) mod bandwidth;
mod check;
mod collective;
mod context;
mod draw;
mod element;
mod exchange;
mod fail;
mod flow;
mod latency;
pub(crate) mod measure;
mod mesh;
mod payload;
pub(crate) mod plan;
pub(crate) mod rank;
mod ring;
#[cfg(test)]
mod test_net;

pub(crate) use fail::Fail;
