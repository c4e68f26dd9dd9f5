//! One request: what `test` polls. At most two cache lines; the operations' contexts live with the
//! port.

use ofi_pools::Key;

use crate::error::Violation;
use crate::limits::MAX_RAILS;
use crate::port::{Lane, RegionId, RxId};
use crate::state::{ReqInput, ReqState};

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// A send that waits for, or follows, its CTRL.
    Send,
    /// A send that went out before its CTRL came.
    EagerSend,
    /// A receive.
    Recv,
    /// A flush.
    Flush,
    /// A one-sided write.
    Put,
    /// A one-sided read.
    Get,
}

impl Kind {
    /// Whether it is a message of the window of sequence numbers; the rest has none.
    pub(crate) const fn in_window(self) -> bool {
        matches!(self, Self::Send | Self::EagerSend | Self::Recv)
    }
}

/// In place of a number of segments that came: none may come. More than any message has.
const NO_SEGMENTS: u8 = u8::MAX;

/// The low half of a length that was compared with one of 32 bits.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the low half is what is wanted"
)]
pub(crate) const fn low(len: u64) -> u32 {
    len as u32
}

/// Operations of one request that the provider took, at most one a lane.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Taken {
    pub(crate) count: u8,
    /// A bit for each lane.
    lanes: u8,
}

impl Taken {
    /// One more.
    #[inline]
    pub(crate) const fn add(&mut self, lane: Lane) {
        // At most one a lane.
        self.count = self.count.wrapping_add(1);
        self.lanes |= lane.bit();
    }

    /// One operation.
    #[inline]
    pub(crate) const fn one(lane: Lane) -> Self {
        Self {
            count: 1,
            lanes: lane.bit(),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) comm: Key,
    pub(crate) region: RegionId,
    pub(crate) kind: Kind,
    pub(crate) state: ReqState,
    pub(crate) seq: u16,
    /// Poll epoch in which it was last tested.
    pub(crate) epoch: u32,
    /// Completions that finish it (protocol 2e.4). A send without CTRL does not know yet: 0.
    pub(crate) need: u8,
    /// Completions so far.
    pub(crate) have: u8,
    /// Operations that the provider does not have yet.
    pub(crate) queued: u8,
    /// Operations at the provider: a bit for each lane. No request has two on one lane, so a
    /// completion that comes twice is told from one that is due.
    pub(crate) flying: u8,
    /// Lanes it used, as in `flying`; a receive: also the data rails that segments came in on.
    pub(crate) used: u8,
    /// Receive: segments so far, or [`NO_SEGMENTS`], and how many there are.
    pub(crate) segs_have: u8,
    pub(crate) segs_want: u8,
    /// Receive: eager data came, or no data is to be told of at all (`no_imm`): one more is too many.
    pub(crate) eager_data: bool,
    /// Send: the CTRL came.
    pub(crate) ctrl_seen: bool,
    /// Send: the peer wants no immediate. Receive: we want none, CTRL is all it waits for.
    pub(crate) no_imm: bool,
    /// Receive: a segment came whose length the provider did not say.
    pub(crate) len_unknown: bool,
    /// Receive: the bounce buffer being copied from.
    pub(crate) rx: Option<RxId>,
    /// Local buffer.
    pub(crate) addr: u64,
    pub(crate) len: u32,
    /// Bytes moved.
    pub(crate) bytes: u32,
    /// Send and one-sided: the peer's address. Receive: what we advertise.
    pub(crate) wire_addr: u64,
    /// Send: the peer's keys. Receive: ours. One-sided: the first is the peer's.
    pub(crate) keys: [u64; MAX_RAILS],
}

const _: () = assert!(Lane::COUNT_MAX <= 8, "`flying` has a bit for each lane");
const _: () = assert!(size_of::<Request>() <= 128, "two cache lines");

impl Request {
    pub(crate) const fn new(comm: Key, kind: Kind, region: RegionId, addr: u64, len: u32) -> Self {
        Self {
            comm,
            region,
            kind,
            state: ReqState::Live,
            seq: 0,
            epoch: 0,
            need: 0,
            have: 0,
            queued: 0,
            flying: 0,
            used: 0,
            segs_have: 0,
            segs_want: 0,
            eager_data: false,
            ctrl_seen: false,
            no_imm: false,
            len_unknown: false,
            rx: None,
            addr,
            len,
            bytes: 0,
            wire_addr: 0,
            keys: [0; MAX_RAILS],
        }
    }

    /// Counts a segment of `nseg` that came in on data rail `rail`, with its length where that is told,
    /// against the count that the first one announced (protocol 2e.3); the last one finishes the data.
    ///
    /// # Errors
    /// What the peer may not do.
    #[inline(always)]
    pub(crate) fn segment(
        &mut self,
        rail: u8,
        nseg: u8,
        len: Option<u64>,
    ) -> Result<(), Violation> {
        let before = self.segs_have;
        let want = if before == 0 { nseg } else { self.segs_want };
        // Also refused here: a count of 0, and any segment where NO_SEGMENTS stands.
        if nseg != want || before >= nseg {
            return Err(self.violation(nseg, want));
        }
        match len {
            // Room is never less than 0: `bytes` is at most `len`.
            Some(len) if len > u64::from(self.len.wrapping_sub(self.bytes)) => {
                return Err(Violation::Overrun);
            }
            Some(len) => self.bytes = self.bytes.wrapping_add(low(len)),
            None => self.len_unknown = true,
        }
        // At most `nseg`, which has four bits.
        let have = before.wrapping_add(1);
        self.segs_have = have;
        self.segs_want = want;
        self.used |= Lane::data(rail).bit();
        if have == nseg {
            if self.len_unknown {
                // Not said by the provider: the protocol knows no more than what was posted.
                self.bytes = self.len;
            }
            self.count();
        }
        Ok(())
    }

    /// Eager data came, or none is to be told of: no segment may come any more.
    pub(crate) const fn expect_no_segments(&mut self) {
        self.eager_data = true;
        self.segs_have = NO_SEGMENTS;
    }

    /// Which one it is, of a segment of `nseg` that is none.
    #[cold]
    const fn violation(&self, nseg: u8, want: u8) -> Violation {
        if nseg == 0 {
            Violation::SegmentCount
        } else if self.eager_data {
            self.unexpected(Violation::EagerAndSegments)
        } else if nseg != want {
            Violation::SegmentCount
        } else {
            Violation::Duplicate
        }
    }

    /// What is wrong with data that comes when `eager_data` says that none may: `otherwise`, unless the
    /// peer was asked for none that is told of.
    pub(crate) const fn unexpected(&self, otherwise: Violation) -> Violation {
        if self.no_imm {
            Violation::Unwanted
        } else {
            otherwise
        }
    }

    /// Nothing of it is queued or at the provider.
    pub(crate) const fn is_quiet(&self) -> bool {
        self.queued == 0 && self.flying == 0
    }

    /// The provider has these operations of it.
    #[inline]
    pub(crate) fn launched(&mut self, taken: Taken) {
        debug_assert!(self.queued >= taken.count, "more than were queued");
        self.queued = self.queued.wrapping_sub(taken.count);
        self.flying |= taken.lanes;
        self.used |= taken.lanes;
    }

    /// Takes a step of its state machine; an input its state does not know changes nothing.
    #[inline]
    pub(crate) const fn step(&mut self, input: ReqInput) {
        if let Some(next) = self.state.next(input) {
            self.state = next;
        }
    }

    /// Counts a completion; the last one finishes it.
    #[inline]
    pub(crate) const fn count(&mut self) {
        // At most 2, or one for each rail.
        self.have = self.have.wrapping_add(1);
        if self.need != 0 && self.have == self.need {
            self.step(ReqInput::Complete);
        }
    }
}
