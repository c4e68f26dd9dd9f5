//! What a call or an input has just made to be posted, until the pump that follows it: operations of
//! one kind of one request, on rails that follow each other.
//!
//! This is the way of every message that goes well: 24 bytes from isend to the pump, and nothing waits.
//! What the provider refuses goes to the [outbox](crate::outbox), where communicators take turns.

use ofi_pools::Key;
use ofi_sched::{Plan, RailCount};

use crate::error::OpKind;
use crate::limits::MAX_RAILS;
use crate::outbox::Waiting;
use crate::port::Lane;

/// A rail, whatever was put in: tables of rails are then indexed without a check.
const RAIL_MASK: u8 = 3;
const _: () = assert!(MAX_RAILS == RAIL_MASK as usize + 1);

/// Operations of one request; some of them may have been offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Batch {
    /// The request.
    pub(crate) owner: Key,
    pub(crate) op: OpKind,
    /// Rail of the first.
    first: u8,
    /// The next to be offered, and how many there are.
    next: u8,
    count: u8,
    /// Bytes of the message, and of each part but the last ones.
    len: u32,
    part_len: u32,
}

impl Batch {
    /// One operation of `len` bytes.
    pub(crate) const fn one(op: OpKind, owner: Key, rail: u8, len: u32) -> Self {
        Self {
            owner,
            op,
            first: rail,
            next: 0,
            count: 1,
            len,
            part_len: len,
        }
    }

    /// One operation without bytes on each of the first `count` rails.
    pub(crate) const fn each(op: OpKind, owner: Key, count: u8) -> Self {
        Self {
            count,
            ..Self::one(op, owner, 0, 0)
        }
    }

    /// A write for each stripe of a message of `len` bytes.
    #[inline]
    pub(crate) fn stripes(owner: Key, plan: &Plan, len: u32) -> Self {
        // A plan has at least one stripe, and none is longer than the message.
        let (first, part_len) = plan.get(0).map_or((0, len), |stripe| {
            (stripe.rail, u32::try_from(stripe.len).unwrap_or(len))
        });
        Self {
            count: plan.stripe_count().get(),
            part_len,
            ..Self::one(OpKind::Write, owner, first, len)
        }
    }

    /// As [`Batch::stripes`]; `uncounted`: the receiver counts bytes, not segments, and may be gone when an
    /// empty one comes.
    #[inline]
    pub(crate) fn writes(owner: Key, plan: &Plan, (len, uncounted): (u32, bool)) -> Self {
        let batch = Self::stripes(owner, plan, len);
        if uncounted {
            batch.without_empty()
        } else {
            batch
        }
    }

    /// Without the empty stripes at the end, if that is not all there is: for writes that nobody counts.
    #[inline]
    pub(crate) fn without_empty(mut self) -> Self {
        let filled = self.len.div_ceil(self.part_len.max(1)).max(1);
        self.count = self.count.min(u8::try_from(filled).unwrap_or(u8::MAX));
        self
    }

    /// Whether it has one operation in all.
    #[inline]
    pub(crate) const fn is_single(&self) -> bool {
        self.count == 1
    }

    /// Those of what was not offered, on data rails, of which there are `rails`: a bit for each lane.
    #[inline(always)]
    pub(crate) const fn data_lanes(&self, rails: RailCount) -> u8 {
        if self.is_single() {
            // One, or none any more.
            return self.left() << (self.first & RAIL_MASK);
        }
        let all = (1_u32 << (rails.get() & 7)) - 1;
        // As many ones as there are operations, from the first rail on; what is beyond the last begins
        // again with rail 0.
        let ones = all >> (rails.get().wrapping_sub(self.left()) & 7);
        let from = ones << ((self.first.wrapping_add(self.next)) & 7);
        let [lanes, ..] = ((from | from >> (rails.get() & 7)) & all).to_le_bytes();
        lanes
    }

    /// As [`Batch::data_lanes`], wherever its operations go.
    pub(crate) fn lanes(&self, rails: RailCount) -> u8 {
        match self.op {
            OpKind::Ctrl if self.left() > 0 => self.single().0.bit(),
            OpKind::Ctrl => 0,
            _ => self.data_lanes(rails),
        }
    }

    /// Operations that were not offered.
    pub(crate) const fn left(&self) -> u8 {
        self.count.saturating_sub(self.next)
    }

    /// The next operation and its lane; `None` when all were offered.
    #[inline]
    pub(crate) fn peek(&self, rails: RailCount) -> Option<(Lane, Waiting)> {
        if matches!(self.op, OpKind::Ctrl) {
            return (self.left() > 0).then(|| self.single());
        }
        let (rail, waiting) = self.peek_data(rails)?;
        Some((Lane::data(rail), waiting))
    }

    /// As [`Batch::peek`], for operations on data rails.
    #[inline]
    pub(crate) fn peek_data(&self, rails: RailCount) -> Option<(u8, Waiting)> {
        if self.next >= self.count {
            return None;
        }
        // Parts are cut so that (count - 1) * part_len is less than 2^31 + 16 * 128.
        let cut = u32::from(self.next).wrapping_mul(self.part_len);
        let offset = cut.min(self.len);
        let waiting = Waiting {
            op: self.op,
            owner: self.owner,
            offset,
            len: (self.len - offset).min(self.part_len),
        };
        // Both are below the number of rails: limits.rs.
        let rail = self.first.wrapping_add(self.next);
        let beyond = if rail >= rails.get() { rails.get() } else { 0 };
        Some((rail.wrapping_sub(beyond) & RAIL_MASK, waiting))
    }

    /// The one operation of a batch that has one.
    #[inline]
    pub(crate) const fn single(&self) -> (Lane, Waiting) {
        let waiting = Waiting {
            op: self.op,
            owner: self.owner,
            offset: 0,
            len: self.len,
        };
        let rail = self.first & RAIL_MASK;
        let lane = if matches!(self.op, OpKind::Ctrl) {
            Lane::control(rail)
        } else {
            Lane::data(rail)
        };
        (lane, waiting)
    }

    /// The next operation was offered, or went elsewhere.
    #[inline]
    pub(crate) const fn advance(&mut self) {
        // Below `count`, which has eight bits.
        self.next = self.next.wrapping_add(1);
    }

    /// Nothing of it is to be offered any more.
    pub(crate) const fn cancel(&mut self) {
        self.next = self.count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use ofi_sched::{Config, Policy, Threshold};
    use proptest::prelude::*;

    const OWNER: Key = Key::new(3, 5);

    fn all(mut batch: Batch, rails: u8) -> Vec<(Lane, u32, u32)> {
        let rails = RailCount::new(rails).unwrap();
        let mut parts = Vec::new();
        while let Some((lane, waiting)) = batch.peek(rails) {
            if !lane.is_control() {
                assert_ne!(batch.data_lanes(rails) & lane.bit(), 0, "{batch:?}");
                assert_eq!(
                    batch.data_lanes(rails).count_ones(),
                    u32::from(batch.left())
                );
            }
            assert_eq!((waiting.op, waiting.owner), (batch.op, batch.owner));
            parts.push((lane, waiting.offset, waiting.len));
            batch.advance();
        }
        assert_eq!((batch.left(), batch.data_lanes(rails)), (0, 0));
        parts
    }

    #[test]
    fn one_operation_is_where_it_was_put() {
        let ctrl = Batch::one(OpKind::Ctrl, OWNER, 2, 0);
        assert_eq!(all(ctrl, 4), [(Lane::control(2), 0, 0)]);
        let copy = Batch::one(OpKind::EagerCopy, OWNER, 3, 77);
        assert_eq!(all(copy, 4), [(Lane::data(3), 0, 77)]);
        let flush = Batch::each(OpKind::Flush, OWNER, 2);
        assert_eq!(
            all(flush, 2),
            [(Lane::data(0), 0, 0), (Lane::data(1), 0, 0)]
        );
    }

    #[test]
    fn what_is_cancelled_has_nothing_left() {
        let mut flush = Batch::each(OpKind::Flush, OWNER, 3);
        flush.advance();
        assert_eq!(flush.left(), 2);
        flush.cancel();
        assert_eq!((flush.left(), all(flush, 3)), (0, Vec::new()));
    }

    proptest! {
        /// The batch is the plan, for every length that a message can have.
        #[test]
        fn stripes_are_those_of_the_plan(
            lens in proptest::collection::vec(0..=i32::MAX.cast_unsigned(), 1..8), rails in 1..=4u8,
            min_stripe_bytes in prop_oneof![Just(1_u64), Just(65536), 1..1_u64 << 31],
        ) {
            let config = Config { min_stripe_bytes, small_max_bytes: 64 };
            let mut policy = Threshold::new(config).unwrap();
            for len in lens {
                let plan = policy.plan(len.into(), RailCount::new(rails).unwrap());
                let expected: Vec<_> = plan
                    .iter()
                    .map(|s| (Lane::data(s.rail), u32::try_from(s.offset).unwrap(), u32::try_from(s.len).unwrap()))
                    .collect();
                let batch = Batch::stripes(OWNER, &plan, len);
                prop_assert_eq!(&all(batch, rails), &expected);
                let filled = expected.into_iter().enumerate().filter(|(k, s)| *k == 0 || s.2 > 0);
                let filled: Vec<_> = filled.map(|(_, stripe)| stripe).collect();
                prop_assert_eq!(all(batch.without_empty(), rails), filled);
            }
        }
    }
}
