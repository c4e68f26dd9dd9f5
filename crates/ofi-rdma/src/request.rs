//! One request: what `test` polls. At most two cache lines; the operations' contexts live with the
//! port.

use core::hash::{Hash, Hasher};

use ofi_pools::Key;

use crate::age::Age;
use crate::dialect::Dialect;
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

/// In a slot of its table, whose generation stands before it, all but the addresses of the peer is one cache
/// line.
#[derive(Clone, Debug)]
#[repr(C)]
pub(crate) struct Request {
    /// Poll epoch in which it was last tested; [`Request::OVER`] once it is not live any more.
    epoch: u64,
    pub(crate) comm: Key,
    pub(crate) region: RegionId,
    pub(crate) seq: u16,
    pub(crate) kind: Kind,
    state: ReqState,
    /// Receive: the immediate that its segments carry, while some are [`left`](Self::left). It says whose they
    /// are and how many, so that one comparison is all that a segment needs.
    due: u32,
    /// Receive: the immediate of a segment that is the only one.
    alone: u32,
    /// Completions that finish it (protocol 2e.4). A send without CTRL does not know yet: 0.
    need: u8,
    /// Those of them that are still to come.
    missing: u8,
    /// Operations that the provider does not have yet.
    pub(crate) queued: u8,
    /// Operations at the provider: a bit for each lane. No request has two on one lane, so a
    /// completion that comes twice is told from one that is due.
    pub(crate) flying: u8,
    /// Lanes it used, as in `flying`; a receive: also the data rails that segments came in on.
    pub(crate) used: u8,
    /// Receive: segments still to come, 1 until the first says how many; 0 also where none may come.
    left: u8,
    /// Receive: how many there are of a message of several.
    want: u8,
    /// Receive: eager data came, or no data is to be told of at all (`no_imm`): one more is too many.
    pub(crate) eager_data: bool,
    /// Send: the CTRL came.
    pub(crate) ctrl_seen: bool,
    /// Send: the peer wants no immediate. Receive: we want none, CTRL is all it waits for.
    pub(crate) no_imm: bool,
    /// Receive: a segment came whose length the provider did not say.
    len_unknown: bool,
    pub(crate) len: u32,
    /// Bytes moved; of a receive by writes, once it is done.
    pub(crate) bytes: u32,
    /// Receive: bytes that may still come.
    room: u32,
    /// Receive: the bounce buffer being copied from.
    pub(crate) rx: Option<RxId>,
    /// For people.
    pub(crate) age: Age,
    /// Local buffer.
    pub(crate) addr: u64,
    /// Send and one-sided: the peer's address. Receive: what we advertise.
    pub(crate) wire_addr: u64,
    /// Send: the peer's keys. Receive: ours. One-sided: the first is the peer's.
    pub(crate) keys: [u64; MAX_RAILS],
}

const _: () = assert!(Lane::COUNT_MAX <= 8, "`flying` has a bit for each lane");
const _: () = {
    // What a slot of a table has beside its value (`ofi_pools::Table`).
    const BESIDE: usize = 8;
    assert!(
        size_of::<Option<Request>>() + BESIDE <= 128,
        "two cache lines"
    );
    assert!(
        core::mem::offset_of!(Request, rx) + BESIDE <= 64,
        "what completions and tests touch is one"
    );
};

/// Address and keys of what has none on the wire, or not yet.
pub(crate) const NO_WIRE: (u64, [u64; MAX_RAILS]) = (0, [0; MAX_RAILS]);

impl Request {
    /// Later than any poll epoch: whoever asks whether it was tested in this one need not ask for its state.
    const OVER: u64 = u64::MAX;

    /// A request that begins in poll epoch `epoch`: its local buffer, and address and keys of the wire.
    #[inline(always)]
    pub(crate) const fn new(
        comm: Key,
        kind: Kind,
        (region, addr, len): (RegionId, u64, u32),
        (wire_addr, keys): (u64, [u64; MAX_RAILS]),
        epoch: u64,
    ) -> Self {
        Self {
            epoch,
            comm,
            region,
            seq: 0,
            kind,
            state: ReqState::Live,
            due: 0,
            alone: 0,
            need: 0,
            missing: 0,
            queued: 0,
            flying: 0,
            used: 0,
            left: 0,
            want: 0,
            eager_data: false,
            ctrl_seen: false,
            no_imm: false,
            len_unknown: false,
            len,
            bytes: 0,
            room: len,
            rx: None,
            age: Age::UNSEEN,
            addr,
            wire_addr,
            keys,
        }
    }

    /// Its state.
    pub(crate) const fn state(&self) -> ReqState {
        self.state
    }

    /// Completions that finish it, and how many of them came.
    pub(crate) const fn progress(&self) -> (u8, u8) {
        (self.need, self.need.wrapping_sub(self.missing))
    }

    /// Completions that finish it, for a send also its segments.
    #[inline(always)]
    pub(crate) const fn need(&self) -> u8 {
        self.need
    }

    /// So many completions finish it; none of them came.
    #[inline(always)]
    pub(crate) const fn needs(&mut self, count: u8) {
        self.need = count;
        self.missing = count;
    }

    /// Segments that came, and how many there are; (0, 0) where none may come.
    pub(crate) const fn segments(&self) -> (u8, u8) {
        match (self.want, self.left) {
            _ if self.eager_data || !matches!(self.kind, Kind::Recv) => (0, 0),
            (0, 0) => (1, 1),
            (0, _) => (0, 0),
            (want, left) => (want.wrapping_sub(left), want),
        }
    }

    /// Bytes that came so far.
    pub(crate) const fn bytes_so_far(&self) -> u32 {
        match self.segments() {
            (have, want) if have < want => self.len.wrapping_sub(self.room),
            _ => self.bytes,
        }
    }

    /// Segments of this message are due, of which `alone` is the immediate if it has one.
    #[inline(always)]
    pub(crate) const fn expect_segments(&mut self, alone: u32) {
        (self.due, self.alone) = (alone, alone);
        self.left = 1;
    }

    /// A segment comes whose length nobody tells.
    pub(crate) const fn lengths_unknown(&mut self) {
        self.len_unknown = true;
    }

    /// Whether it is live and was not tested since `epoch`, or later; from now on it was.
    #[inline(always)]
    pub(crate) const fn is_first_test(&mut self, epoch: u64) -> bool {
        let is_first = self.epoch < epoch;
        if is_first {
            self.epoch = epoch;
        }
        is_first
    }

    /// Feeds `state` what decides how it goes on; `present` is the poll epoch.
    pub(crate) fn hash_state<H: Hasher>(&self, present: u64, state: &mut H) {
        let &Self {
            epoch,
            comm,
            region,
            seq,
            kind,
            state: req_state,
            need,
            missing,
            queued,
            flying,
            due,
            alone,
            used,
            left,
            want,
            eager_data,
            ctrl_seen,
            no_imm,
            len_unknown,
            len,
            bytes,
            room,
            rx,
            age: _,
            addr,
            wire_addr,
            keys,
        } = self;
        (comm, region, kind, req_state, seq, epoch == present).hash(state);
        (
            need,
            missing,
            queued,
            flying,
            used,
            (due, alone, left, want),
        )
            .hash(state);
        (eager_data, ctrl_seen, no_imm, len_unknown, rx).hash(state);
        (addr, len, bytes, room, wire_addr, keys).hash(state);
    }

    /// Counts a segment with this immediate that came in on data rail `rail`, against the count that
    /// the first one announced (protocol 2e.3); the last one finishes the data. False, and nothing was counted,
    /// when it is not of this message, or the peer may not send it: [`Request::violation`].
    #[inline(always)]
    pub(crate) fn segment<D: Dialect>(&mut self, imm: u32, rail: u8, len: u64) -> bool {
        if self.due != imm && !self.announces::<D>(imm) {
            return false;
        }
        if self.left == 0 || len > u64::from(self.room) {
            return false;
        }
        self.room = self.room.wrapping_sub(low(len));
        self.used |= Lane::data(rail).bit();
        self.left = self.left.wrapping_sub(1);
        if self.left == 0 {
            self.segments_are_here();
        }
        true
    }

    /// Whether this is the first segment of several, or may be; how many there are is known from now on.
    #[inline(always)]
    fn announces<D: Dialect>(&mut self, imm: u32) -> bool {
        let nseg = D::imm_nseg(imm);
        let is_fresh = self.left == 1 && self.want == 0;
        let is_it = is_fresh
            && nseg != 0
            && self.alone == D::encode_imm(1, D::imm_comm(imm), D::imm_seq(imm));
        if is_it {
            self.due = imm;
            self.want = nseg;
            self.left = nseg;
        }
        is_it
    }

    #[inline(always)]
    const fn segments_are_here(&mut self) {
        if self.len_unknown {
            // Not said by the provider: the protocol knows no more than what was posted.
            self.room = 0;
        }
        self.bytes = self.len.wrapping_sub(self.room);
        self.count();
    }

    /// Eager data came, or none is to be told of: no segment may come any more.
    pub(crate) const fn expect_no_segments(&mut self) {
        self.eager_data = true;
        self.left = 0;
    }

    /// What the peer did with a segment of this message, which is of `nseg`, that [`Request::segment`] refused.
    #[cold]
    pub(crate) const fn violation(&self, nseg: u8) -> Violation {
        let (have, want) = self.segments();
        if nseg == 0 {
            Violation::SegmentCount
        } else if self.eager_data {
            self.unexpected(Violation::EagerAndSegments)
        } else if want != 0 && nseg != want {
            Violation::SegmentCount
        } else if want != 0 && have == want {
            Violation::Duplicate
        } else {
            Violation::Overrun
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
            // No step leads back to where it is live.
            self.epoch = Self::OVER;
        }
    }

    /// Counts a completion; the last one finishes it.
    #[inline(always)]
    pub(crate) const fn count(&mut self) {
        // One that needs none gets none: a send is at no provider before its CTRL said how many.
        self.missing = self.missing.wrapping_sub(1);
        if self.missing == 0 {
            self.step(ReqInput::Complete);
        }
    }
}
