//! Counting what happened: always on, one addition each, and no influence on what the engine does.
//!
//! A build with `--cfg ofi_without_counters` has none of it on the path of a message, nor has the transport what it
//! counts by rail, or the look for a trace: `cargo xtask hot` holds what that costs against it.

use core::hash::{Hash, Hasher};

/// Adds to a count. Wrapping, so that no overflow check is left in the hot path: 2^64 do not happen.
#[inline(always)]
pub(crate) const fn add(count: &mut u64, by: u64) {
    if cfg!(not(ofi_without_counters)) {
        *count = count.wrapping_add(by);
    }
}

/// A count in a structure whose hash says what it will do: the past is not part of that.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Past<T>(T);

impl<T> Hash for Past<T> {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl Past<u64> {
    #[inline(always)]
    pub(crate) const fn add(&mut self, by: u64) {
        add(&mut self.0, by);
    }

    pub(crate) const fn get(self) -> u64 {
        self.0
    }
}

impl Past<u32> {
    /// One more, modulo 2^32.
    #[inline(always)]
    pub(crate) const fn one_more(&mut self) {
        if cfg!(not(ofi_without_counters)) {
            self.0 = self.0.wrapping_add(1);
        }
    }

    /// One more, and no more than fit.
    pub(crate) const fn one_more_at_most(&mut self) {
        if cfg!(not(ofi_without_counters)) {
            self.0 = self.0.saturating_add(1);
        }
    }

    pub(crate) const fn get(self) -> u64 {
        self.0 as u64
    }

    /// The whole count, which is less than 2^31 away from `near`.
    pub(crate) fn widened(self, near: u64) -> u64 {
        let [a, b, c, d, ..] = near.to_le_bytes();
        let ahead = self.0.wrapping_sub(u32::from_le_bytes([a, b, c, d]));
        near.wrapping_add_signed(i64::from(i32::from_le_bytes(ahead.to_le_bytes())))
    }
}

/// What happened on one communicator since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommCounters {
    /// Messages admitted: sends of a send communicator, receives of a receive communicator.
    pub messages: u64,
    /// Sends among them that went eagerly; 0 for a receive communicator, and under SENDRECV.
    pub eager: u64,
    /// Bytes of the messages that are done: `test` said so.
    pub bytes: u64,
    /// Times a provider said EAGAIN to an operation of it; at most 2^32 - 1 under RDMA.
    pub busy: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_of_32_bits_is_widened_by_one_that_is_near() {
        let count = |low: u32, near: u64| Past(low).widened(near);
        assert_eq!(count(7, 5), 7);
        assert_eq!(count(5, 7), 5);
        assert_eq!(count(3, u64::from(u32::MAX)), (1 << 32) + 3);
        assert_eq!(count(u32::MAX, (5 << 32) + 2), (5 << 32) - 1);
    }

    /// Takes down what it is fed.
    #[derive(Default)]
    struct Fed(alloc::vec::Vec<u8>);

    impl Hasher for Fed {
        fn finish(&self) -> u64 {
            0
        }

        fn write(&mut self, bytes: &[u8]) {
            self.0.extend_from_slice(bytes);
        }
    }

    #[test]
    fn the_past_makes_no_difference_to_a_hash() {
        let fed = |count: Past<u64>| {
            let mut state = Fed::default();
            (1_u8, count, 2_u8).hash(&mut state);
            state.0
        };
        assert_eq!(fed(Past(9)), [1, 2]);
        assert_eq!(fed(Past(9)), fed(Past(0)));
    }
}
