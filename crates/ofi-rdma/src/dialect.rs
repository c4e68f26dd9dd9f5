//! What changed between protocol generations, behind one seam: the immediate word and the bounds
//! that follow from its width. The engine is generic over it.

use ofi_imm::{CommId, Fields, Nseg4Comm18Seq10, NsegCommSeq, Segs, SerialSeq};

/// What an immediate says; total for every word a peer can send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImmFields {
    /// Segments of the message; 0 counts nothing and is a violation.
    pub nseg: u8,
    /// The receiver's communicator id.
    pub comm: u32,
    /// Sequence number of the message.
    pub seq: u16,
}

/// One generation of the wire protocol.
pub trait Dialect: Copy + core::fmt::Debug + core::hash::Hash + 'static {
    /// Bits of a sequence number.
    const SEQ_BITS: u32;
    /// Sequence numbers of one communicator that are tracked at once: a power of two, with
    /// `2^SEQ_BITS > 2 * WINDOW` (protocol 2e.9).
    const WINDOW: u16;
    /// Messages of one communicator in flight (decision 10). Twice that fits the window, so a peer
    /// within its limits is never beyond it.
    const INFLIGHT_MAX: u16;

    /// The immediate of a message. `nseg` is 1..=15, `comm` below 2^18.
    fn encode_imm(nseg: u8, comm: u32, seq: u16) -> u32;

    /// Segments of the message that an immediate is of.
    fn imm_nseg(word: u32) -> u8;

    /// The receiver's communicator that an immediate names.
    fn imm_comm(word: u32) -> u32;

    /// Sequence number of the message that an immediate is of.
    fn imm_seq(word: u32) -> u16;

    /// What an immediate says.
    #[must_use]
    fn decode_imm(word: u32) -> ImmFields {
        ImmFields {
            nseg: Self::imm_nseg(word),
            comm: Self::imm_comm(word),
            seq: Self::imm_seq(word),
        }
    }
}

/// The wire of v1.15.0 (protocol 1.1): `nseg:4 | comm_id:18 | seq:10`.
#[derive(Clone, Copy, Debug, Hash)]
pub struct Base;

impl Dialect for Base {
    const SEQ_BITS: u32 = 10;
    const WINDOW: u16 = 256;
    const INFLIGHT_MAX: u16 = 128;

    #[inline]
    fn encode_imm(nseg: u8, comm: u32, seq: u16) -> u32 {
        debug_assert!(matches!(nseg, 1..=15), "{nseg} segments");
        let comm = CommId::from_low_bits(comm);
        let seq = SerialSeq::from_low_bits(u32::from(seq));
        Nseg4Comm18Seq10::to_word(Fields { nseg, comm, seq })
    }

    #[inline(always)]
    fn imm_nseg(word: u32) -> u8 {
        Nseg4Comm18Seq10::nseg(word)
    }

    #[inline(always)]
    fn imm_comm(word: u32) -> u32 {
        Nseg4Comm18Seq10::comm(word).get()
    }

    #[inline(always)]
    fn imm_seq(word: u32) -> u16 {
        Nseg4Comm18Seq10::seq(word).get()
    }
}

/// The same protocol with three-bit sequence numbers and two messages in flight at most seen by the
/// window: wraps and exhaustion happen every few messages. Only the simulator speaks it.
#[derive(Clone, Copy, Debug, Hash)]
pub struct Tiny;

type TinyImm = NsegCommSeq<4, 7, 18, 3>;

impl Dialect for Tiny {
    const SEQ_BITS: u32 = 3;
    const WINDOW: u16 = 2;
    const INFLIGHT_MAX: u16 = 1;

    fn encode_imm(nseg: u8, comm: u32, seq: u16) -> u32 {
        let nseg = Segs::<4>::new(nseg).unwrap_or(Segs::ONE);
        let seq = SerialSeq::from_low_bits(u32::from(seq));
        TinyImm::encode(nseg, CommId::from_low_bits(comm), seq)
    }

    fn imm_nseg(word: u32) -> u8 {
        TinyImm::nseg(word)
    }

    fn imm_comm(word: u32) -> u32 {
        TinyImm::comm(word).get()
    }

    fn imm_seq(word: u32) -> u16 {
        TinyImm::seq(word).get()
    }
}

/// The relations every dialect has to keep; evaluated when an engine is made.
pub(crate) struct Bounds<D>(core::marker::PhantomData<D>);

impl<D: Dialect> Bounds<D> {
    pub(crate) const HOLD: () = {
        assert!(D::WINDOW.is_power_of_two(), "slots are found by a mask");
        assert!(D::INFLIGHT_MAX >= 1 && 2 * D::INFLIGHT_MAX <= D::WINDOW);
        assert!(
            D::SEQ_BITS <= 10,
            "CTRL has ten bits for the sequence number"
        );
        assert!(
            (1u32 << D::SEQ_BITS) > 2 * D::WINDOW as u32,
            "old and new are told apart"
        );
    };
    pub(crate) const SEQ_MASK: u16 = (1 << D::SEQ_BITS) - 1;
}
