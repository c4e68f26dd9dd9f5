//! Where a region was found that covered a request at this page: most requests come again.
//!
//! ```text
//! page, access, kind -> bucket [ tag tag tag tag | slot slot slot slot ]   the newest first
//! ```
//!
//! A hint and no more: whoever asks looks at the entry in that slot, whatever has become of it, and searches
//! when it does not cover the request. So nothing is taken out of here, and a bucket that is full forgets.

use crate::mr::request::{Plain, Request};
use alloc::boxed::Box;
use alloc::vec;

/// Pages of this many bits are told apart: those of the smallest systems.
const PAGE_BITS: u32 = 12;
const WAYS: usize = 4;
/// Buckets at first, and at most: 32 MiB.
const BUCKETS_MIN: usize = 16;
const BUCKETS_MAX: usize = 1 << 20;

/// Half a cache line.
#[derive(Clone, Copy, Default)]
#[repr(align(32))]
struct Bucket {
    tags: [u32; WAYS],
    slots: [u32; WAYS],
}

/// See the [module](self).
#[derive(Default)]
pub(super) struct Recent {
    /// A power of two of them, or none yet.
    buckets: Box<[Bucket]>,
}

impl Recent {
    /// The slot of the entry that covered a request like this one.
    #[inline]
    pub(super) fn find(&self, request: &Request) -> Option<u32> {
        let (at, tag) = self.place(request.address(), request.plain());
        let bucket = self.buckets.get(at)?;
        let way = bucket.tags.iter().position(|&known| known == tag)?;
        bucket.slots.get(way).copied()
    }

    /// The entry in `slot` covers what begins at this address.
    pub(super) fn put(&mut self, address: u64, plain: Plain, slot: u32) {
        let (at, tag) = self.place(address, plain);
        if let Some(bucket) = self.buckets.get_mut(at) {
            let known = bucket.tags.iter().position(|&known| known == tag);
            let end = known.unwrap_or(WAYS - 1);
            bucket.tags.copy_within(..end, 1);
            bucket.slots.copy_within(..end, 1);
            bucket.tags[0] = tag;
            bucket.slots[0] = slot;
        }
    }

    /// Makes room for so many entries, at two ways for each, so that few buckets overflow: whether more was
    /// made. What was known is forgotten then.
    pub(super) fn fit(&mut self, entries: u32) -> bool {
        let wanted = (entries as usize).div_ceil(WAYS / 2).next_power_of_two();
        let wanted = wanted.clamp(BUCKETS_MIN, BUCKETS_MAX);
        let is_more = wanted > self.buckets.len();
        if is_more {
            self.buckets = vec![Bucket::default(); wanted].into_boxed_slice();
        }
        is_more
    }

    /// Bucket and tag: the high bits of a product, which depend on all of the page, and the low ones.
    #[inline]
    fn place(&self, address: u64, plain: Plain) -> (usize, u32) {
        const ODD: u64 = 0x9E37_79B9_7F4A_7C15;
        let Plain { access, what } = plain;
        let word = (address >> PAGE_BITS) ^ access.rotate_left(40) ^ what.rotate_left(20);
        let product = word.wrapping_mul(ODD);
        let [.., b4, b5, b6, b7] = product.to_be_bytes();
        let high = (product >> 40) as usize;
        (
            high & self.buckets.len().wrapping_sub(1),
            // 0 is what an empty way has.
            u32::from_be_bytes([b4, b5, b6, b7]) | 1,
        )
    }
}
