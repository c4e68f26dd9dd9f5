//! One request: what `test` polls. At most two cache lines; the operations' contexts live with the
//! port.

use ofi_pools::Key;

use crate::error::Violation;
use crate::limits::MAX_RAILS;
use crate::port::{Lane, RegionId, RxId};
use crate::state::{ReqInput, ReqState};

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

#[derive(Debug)]
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
    /// Receive: segments so far, and how many there are (0: none seen).
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

    /// The provider has its operation on `lane`.
    #[inline]
    pub(crate) const fn launched(&mut self, lane: Lane) {
        self.queued -= 1;
        self.flying |= lane.bit();
        self.used |= lane.bit();
    }

    /// Takes a step of its state machine; an input its state does not know changes nothing.
    pub(crate) const fn step(&mut self, input: ReqInput) {
        if let Some(next) = self.state.next(input) {
            self.state = next;
        }
    }

    /// Counts a completion; the last one finishes it.
    #[inline]
    pub(crate) const fn count(&mut self) {
        self.have = self.have.saturating_add(1);
        if self.need != 0 && self.have == self.need {
            self.step(ReqInput::Complete);
        }
    }
}
