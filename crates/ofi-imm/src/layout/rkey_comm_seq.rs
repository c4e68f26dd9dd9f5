//! The family `rkey | comm_id | seq` in 64 bits, for providers with 8 bytes of CQ data.
//!
//! The format is often described with a key on top: the same shifts as the 32-bit word, with a
//! remote key where that has the segment count. It does not fit EFA's 4 bytes: the key would be
//! cut to the lowest 4 of its bits, which is why no such word exists on EFA's wire.

use core::convert::identity;

use crate::layout::{Layout, cq_data_conversions, impl_layout};
use crate::{CqDataError, Id, Key, Part, SerialSeq, Shape, cq_data};

/// A 64-bit layout of remote key, communicator id and sequence number.
#[derive(Clone, Copy, Debug)]
pub enum RkeyCommSeq<const KEY: u32, const COMM: u32, const SEQ: u32> {}

/// `rkey:36 | comm_id:18 | seq:10`, which is `(rkey << 28) | (comm_id << 10) | seq`.
///
/// ```
/// use ofi_imm::{CommId, Rkey36, Rkey36Comm18Seq10 as Imm, Seq};
/// let comm = CommId::new(0x2ABCD).unwrap();
/// let word = Imm::encode(Rkey36::new(0xA_0B0C_0D0E).unwrap(), comm, Seq::ZERO.next());
/// assert_eq!(word, 0xA0B0_C0D0_EAAF_3401);
/// // EFA carries 4 bytes, and says so:
/// assert!(Imm::to_cq_data(word, 4).is_err());
/// ```
pub type Rkey36Comm18Seq10 = RkeyCommSeq<36, 18, 10>;

/// What a word of [`RkeyCommSeq`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RkeyCommSeqFields<const KEY: u32, const COMM: u32, const SEQ: u32> {
    /// The remote key that was written through.
    pub rkey: Key<KEY>,
    /// The receiver's communicator.
    pub comm: Id<COMM>,
    /// The message of that communicator.
    pub seq: SerialSeq<SEQ>,
}

impl<const KEY: u32, const COMM: u32, const SEQ: u32> RkeyCommSeq<KEY, COMM, SEQ> {
    /// The parts and their widths; using the layout checks that they add up to 64.
    pub const SHAPE: Shape = Shape::new(
        [
            Part {
                name: "rkey",
                bits: KEY,
            },
            Part {
                name: "spare",
                bits: 0,
            },
            Part {
                name: "comm_id",
                bits: COMM,
            },
            Part {
                name: "seq",
                bits: SEQ,
            },
        ],
        u64::BITS,
    );

    const COMM_SHIFT: u32 = Self::SHAPE.lowest_bit(2);
    const KEY_SHIFT: u32 = Self::SHAPE.lowest_bit(0);

    /// The word of a message written through `rkey`.
    #[must_use]
    #[inline(always)]
    pub const fn encode(rkey: Key<KEY>, comm: Id<COMM>, seq: SerialSeq<SEQ>) -> u64 {
        rkey.get() << Self::KEY_SHIFT | (comm.get() as u64) << Self::COMM_SHIFT | seq.get() as u64
    }

    /// The parts of a word; total.
    #[must_use]
    #[inline(always)]
    pub const fn decode(word: u64) -> RkeyCommSeqFields<KEY, COMM, SEQ> {
        RkeyCommSeqFields {
            rkey: Key::from_low_bits(word >> Self::KEY_SHIFT),
            comm: Id::from_low_bits(super::low_word(word >> Self::COMM_SHIFT)),
            seq: SerialSeq::from_low_bits(super::low_word(word)),
        }
    }

    /// The word with these parts.
    #[must_use]
    #[inline(always)]
    pub const fn to_word(fields: RkeyCommSeqFields<KEY, COMM, SEQ>) -> u64 {
        Self::encode(fields.rkey, fields.comm, fields.seq)
    }

    cq_data_conversions!(u64, identity, identity);
}

impl<const KEY: u32, const COMM: u32, const SEQ: u32> Layout for RkeyCommSeq<KEY, COMM, SEQ> {
    impl_layout!(u64, RkeyCommSeqFields<KEY, COMM, SEQ>);
}
