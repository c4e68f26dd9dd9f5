//! The seam between an engine and the way it spreads messages.

use crate::{Plan, RailCount};

/// Decides which rails carry a message. An engine is generic over it, so no call is virtual.
///
/// What holds for every policy: the stripes of a plan partition the message, their number and
/// their rails stay within `rails`, and no rail carries two stripes. [`Plan`] cannot express
/// anything else.
pub trait Policy {
    /// The stripes of a message of `len` bytes over `rails` rails; advances the policy.
    ///
    /// Call it once for a message that will be sent, not for one that is refused: each call moves
    /// the rotation.
    fn plan(&mut self, len: u64, rails: RailCount) -> Plan;

    /// The rail, below `rails`, of a message of `len` bytes that must not be cut: a control
    /// message (protocol 2k.6), an eager payload. Advances the policy like [`Policy::plan`].
    fn plan_one(&mut self, len: u64, rails: RailCount) -> u8;
}

/// Everything whole on rail 0: what a single NIC does, on any number of them.
///
/// For simulations that want one rail's order, for telling a bad rail from a bad message, and as
/// the baseline of benchmarks.
#[derive(Clone, Copy, Debug, Default)]
pub struct SingleRail;

impl Policy for SingleRail {
    #[inline]
    fn plan(&mut self, len: u64, rails: RailCount) -> Plan {
        Plan::cut(len, RailCount::ONE, 0, rails)
    }

    #[inline]
    fn plan_one(&mut self, _len: u64, _rails: RailCount) -> u8 {
        0
    }
}
