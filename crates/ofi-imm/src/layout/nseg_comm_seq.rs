//! The family `nseg | spare | comm_id | seq` in 32 bits, and the engine's layout in it.

use crate::field::low_byte;
use crate::layout::{Layout, cq_data_conversions, impl_layout, low_word, wide_word};
use crate::{CqDataError, Id, Part, Segs, SerialSeq, Shape, cq_data};

/// A 32-bit layout of segment count, communicator id and sequence number, with `SPARE` unused
/// bits below the count.
///
/// Spare bits are written as zero and not looked at by [`NsegCommSeq::decode`]; ask
/// [`NsegCommSeq::spare`] for them. A layout of your own is an alias:
///
/// ```
/// use ofi_imm::{CommId, NsegCommSeq, Segs, SerialSeq};
/// /// Sequence numbers that wrap at 8, so that a simulation passes the wrap often.
/// type Tiny = NsegCommSeq<4, 7, 18, 3>;
/// let word = Tiny::encode(Segs::ONE, CommId::new(5).unwrap(), SerialSeq::new(7).unwrap());
/// assert_eq!(word, 0x1000_002F);
/// assert_eq!(Tiny::decode(word).seq.next().get(), 0);
/// ```
///
/// Widths that do not add up to 32 do not compile:
///
/// ```compile_fail,E0080
/// use ofi_imm::NsegCommSeq;
/// type Wrong = NsegCommSeq<4, 0, 18, 11>;
/// let _ = Wrong::decode(0);
/// ```
#[derive(Clone, Copy, Debug)]
pub enum NsegCommSeq<const NSEG: u32, const SPARE: u32, const COMM: u32, const SEQ: u32> {}

/// The engine's layout: `nseg:4 | comm_id:18 | seq:10` (protocol 2c.1).
///
/// ```
/// use ofi_imm::{CommId, Nseg4Comm18Seq10 as Imm, SegCount, Seq};
/// let (nseg, comm) = (SegCount::new(4).unwrap(), CommId::new(0x2ABCD).unwrap());
/// assert_eq!(Imm::encode(nseg, comm, Seq::new(0x155).unwrap()), 0x4AAF_3555);
/// ```
///
/// Parts cannot be swapped:
///
/// ```compile_fail,E0308
/// use ofi_imm::{CommId, Nseg4Comm18Seq10 as Imm, SegCount, Seq};
/// let _ = Imm::encode(SegCount::ONE, Seq::ZERO, CommId::new(1).unwrap());
/// ```
///
/// and a plain number is none of them:
///
/// ```compile_fail,E0308
/// use ofi_imm::{CommId, Nseg4Comm18Seq10 as Imm, Seq};
/// let _ = Imm::encode(0, CommId::new(1).unwrap(), Seq::ZERO);
/// ```
pub type Nseg4Comm18Seq10 = NsegCommSeq<4, 0, 18, 10>;

/// What a word of [`NsegCommSeq`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NsegCommSeqFields<const NSEG: u32, const COMM: u32, const SEQ: u32> {
    /// The segment count as it stands in the word. A peer may send 0, which counts nothing: see
    /// [`NsegCommSeqFields::seg_count`].
    pub nseg: u8,
    /// The receiver's communicator.
    pub comm: Id<COMM>,
    /// The message of that communicator.
    pub seq: SerialSeq<SEQ>,
}

/// What a word of the engine's layout says.
pub type Fields = NsegCommSeqFields<4, 18, 10>;

impl<const NSEG: u32, const COMM: u32, const SEQ: u32> NsegCommSeqFields<NSEG, COMM, SEQ> {
    /// The segment count, or `None` for the 0 that no honest peer sends.
    #[must_use]
    #[inline(always)]
    pub const fn seg_count(&self) -> Option<Segs<NSEG>> {
        Segs::new(self.nseg)
    }
}

impl<const NSEG: u32, const SPARE: u32, const COMM: u32, const SEQ: u32>
    NsegCommSeq<NSEG, SPARE, COMM, SEQ>
{
    /// The parts and their widths. Using a layout evaluates this, and with it the check that the
    /// widths add up; `const _: Shape = Mine::SHAPE;` checks where the alias stands.
    pub const SHAPE: Shape = Shape::new(
        [
            Part {
                name: "nseg",
                bits: NSEG,
            },
            Part {
                name: "spare",
                bits: SPARE,
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
    const SPARE_SHIFT: u32 = Self::SHAPE.lowest_bit(1);
    const NSEG_SHIFT: u32 = Self::SHAPE.lowest_bit(0);

    /// The word that every segment of one message carries. Five instructions, no branch.
    #[must_use]
    #[inline(always)]
    pub const fn encode(nseg: Segs<NSEG>, comm: Id<COMM>, seq: SerialSeq<SEQ>) -> u32 {
        Self::to_word(NsegCommSeqFields {
            nseg: nseg.get(),
            comm,
            seq,
        })
    }

    /// The parts of a word; total. Where only some are wanted, or each at another moment, ask for them one by
    /// one: a compiler may put what is returned here together in a register, only to take it apart again.
    #[must_use]
    #[inline(always)]
    pub const fn decode(word: u32) -> NsegCommSeqFields<NSEG, COMM, SEQ> {
        NsegCommSeqFields {
            nseg: Self::nseg(word),
            comm: Self::comm(word),
            seq: Self::seq(word),
        }
    }

    /// The segment count of a word, as it stands there: see [`NsegCommSeq::seg_count`].
    #[must_use]
    #[inline(always)]
    pub const fn nseg(word: u32) -> u8 {
        low_byte(word >> Self::NSEG_SHIFT)
    }

    /// The segment count of a word, or `None` for the 0 that no honest peer sends.
    #[must_use]
    #[inline(always)]
    pub const fn seg_count(word: u32) -> Option<Segs<NSEG>> {
        Segs::new(Self::nseg(word))
    }

    /// The communicator of a word.
    #[must_use]
    #[inline(always)]
    pub const fn comm(word: u32) -> Id<COMM> {
        Id::from_low_bits(word >> Self::COMM_SHIFT)
    }

    /// The sequence number of a word.
    #[must_use]
    #[inline(always)]
    pub const fn seq(word: u32) -> SerialSeq<SEQ> {
        SerialSeq::from_low_bits(word)
    }

    /// The word with these parts, spare bits zero; of `nseg` the lowest `NSEG` bits.
    #[must_use]
    #[inline(always)]
    pub const fn to_word(fields: NsegCommSeqFields<NSEG, COMM, SEQ>) -> u32 {
        (fields.nseg as u32) << Self::NSEG_SHIFT
            | fields.comm.get() << Self::COMM_SHIFT
            | fields.seq.get() as u32
    }

    /// The spare bits of a word: zero from a peer that speaks this layout, and always zero where
    /// there are none.
    #[must_use]
    #[inline(always)]
    pub const fn spare(word: u32) -> u32 {
        word >> Self::SPARE_SHIFT & ((1 << SPARE) - 1)
    }

    cq_data_conversions!(u32, wide_word, low_word);
}

impl<const NSEG: u32, const SPARE: u32, const COMM: u32, const SEQ: u32> Layout
    for NsegCommSeq<NSEG, SPARE, COMM, SEQ>
{
    impl_layout!(u32, NsegCommSeqFields<NSEG, COMM, SEQ>);
}
