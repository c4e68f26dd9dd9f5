//! The family `nseg | recv_idx | comm_id | seq` in 32 bits: grouped receives.
//!
//! Later generations of the wire carved the index of the receive within its group out of the
//! communicator id (protocol 1.2: v1.19.1 and after).

use crate::field::low_byte;
use crate::layout::{Layout, cq_data_conversions, impl_layout, low_word, wide_word};
use crate::{CqDataError, Id, Idx, Part, Segs, SerialSeq, Shape, cq_data};

/// A 32-bit layout of segment count, receive index, communicator id and sequence number.
#[derive(Clone, Copy, Debug)]
pub enum NsegRecvCommSeq<const NSEG: u32, const RECV: u32, const COMM: u32, const SEQ: u32> {}

/// The layout of later generations: `nseg:4 | recv_idx:3 | comm_id:15 | seq:10` (protocol 1.2).
///
/// ```
/// use ofi_imm::{Id, Nseg4Recv3Comm15Seq10 as Imm, RecvIdx, SegCount, Seq};
/// let word = Imm::encode(
///     SegCount::ONE, RecvIdx::new(7).unwrap(), Id::new(1).unwrap(), Seq::ZERO);
/// assert_eq!(word, 0x1E00_0400);
/// ```
///
/// Its communicator ids are narrower than the engine's, and do not mix with them:
///
/// ```compile_fail,E0308
/// use ofi_imm::{CommId, Nseg4Recv3Comm15Seq10 as Imm, RecvIdx, SegCount, Seq};
/// let comm: CommId = CommId::new(1).unwrap();
/// let _ = Imm::encode(SegCount::ONE, RecvIdx::new(7).unwrap(), comm, Seq::ZERO);
/// ```
pub type Nseg4Recv3Comm15Seq10 = NsegRecvCommSeq<4, 3, 15, 10>;

/// What a word of [`NsegRecvCommSeq`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NsegRecvCommSeqFields<const NSEG: u32, const RECV: u32, const COMM: u32, const SEQ: u32>
{
    /// The segment count as it stands in the word; 0 is possible.
    pub nseg: u8,
    /// Which receive of the group.
    pub recv: Idx<RECV>,
    /// The receiver's communicator.
    pub comm: Id<COMM>,
    /// The message of that communicator.
    pub seq: SerialSeq<SEQ>,
}

impl<const NSEG: u32, const RECV: u32, const COMM: u32, const SEQ: u32>
    NsegRecvCommSeqFields<NSEG, RECV, COMM, SEQ>
{
    /// The segment count, or `None` for the 0 that no honest peer sends.
    #[must_use]
    #[inline(always)]
    pub const fn seg_count(&self) -> Option<Segs<NSEG>> {
        Segs::new(self.nseg)
    }
}

impl<const NSEG: u32, const RECV: u32, const COMM: u32, const SEQ: u32>
    NsegRecvCommSeq<NSEG, RECV, COMM, SEQ>
{
    /// The parts and their widths; using the layout checks that they add up to 32.
    pub const SHAPE: Shape = Shape::new(
        [
            Part {
                name: "nseg",
                bits: NSEG,
            },
            Part {
                name: "recv_idx",
                bits: RECV,
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
        u32::BITS,
    );

    const COMM_SHIFT: u32 = Self::SHAPE.lowest_bit(2);
    const RECV_SHIFT: u32 = Self::SHAPE.lowest_bit(1);
    const NSEG_SHIFT: u32 = Self::SHAPE.lowest_bit(0);

    /// The word that every segment of one message carries.
    #[must_use]
    #[inline(always)]
    pub const fn encode(
        nseg: Segs<NSEG>,
        recv: Idx<RECV>,
        comm: Id<COMM>,
        seq: SerialSeq<SEQ>,
    ) -> u32 {
        Self::to_word(NsegRecvCommSeqFields {
            nseg: nseg.get(),
            recv,
            comm,
            seq,
        })
    }

    /// The parts of a word; total.
    #[must_use]
    #[inline(always)]
    pub const fn decode(word: u32) -> NsegRecvCommSeqFields<NSEG, RECV, COMM, SEQ> {
        NsegRecvCommSeqFields {
            nseg: low_byte(word >> Self::NSEG_SHIFT),
            recv: Idx::from_low_bits(word >> Self::RECV_SHIFT),
            comm: Id::from_low_bits(word >> Self::COMM_SHIFT),
            seq: SerialSeq::from_low_bits(word),
        }
    }

    /// The word with these parts; of `nseg` the lowest `NSEG` bits.
    #[must_use]
    #[inline(always)]
    pub const fn to_word(fields: NsegRecvCommSeqFields<NSEG, RECV, COMM, SEQ>) -> u32 {
        (fields.nseg as u32) << Self::NSEG_SHIFT
            | (fields.recv.get() as u32) << Self::RECV_SHIFT
            | fields.comm.get() << Self::COMM_SHIFT
            | fields.seq.get() as u32
    }

    cq_data_conversions!(u32, wide_word, low_word);
}

impl<const NSEG: u32, const RECV: u32, const COMM: u32, const SEQ: u32> Layout
    for NsegRecvCommSeq<NSEG, RECV, COMM, SEQ>
{
    impl_layout!(u32, NsegRecvCommSeqFields<NSEG, RECV, COMM, SEQ>);
}
