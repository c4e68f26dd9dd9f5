//! One request: what `test` polls. At most two cache lines; the operations' contexts live with the
//! port.

use ofi_pools::Key;

use crate::limits::MAX_RAILS;
use crate::port::{RegionId, RxId};

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
}

/// Where a request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Completions are missing.
    Live,
    /// All done; `test` has not taken it.
    Done,
    /// Nobody will test it (its communicator was closed, or `test` reported its failure): it stays
    /// until the provider gave back the last operation.
    Orphan,
}

#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) comm: Key,
    pub(crate) region: RegionId,
    pub(crate) kind: Kind,
    pub(crate) state: State,
    pub(crate) seq: u16,
    /// Poll epoch in which it was last tested.
    pub(crate) epoch: u32,
    /// Completions that finish it (protocol 2e.4). A send without CTRL does not know yet: 0.
    pub(crate) need: u8,
    /// Completions so far.
    pub(crate) have: u8,
    /// Operations in the outbox.
    pub(crate) queued: u8,
    /// Operations at the provider: a bit for each lane. No request has two on one lane, so a
    /// completion that comes twice is told from one that is due.
    pub(crate) flying: u8,
    /// Receive: segments so far, and how many there are (0: none seen).
    pub(crate) segs_have: u8,
    pub(crate) segs_want: u8,
    /// Receive: eager data came.
    pub(crate) eager_data: bool,
    /// Send: the CTRL came.
    pub(crate) ctrl_seen: bool,
    /// Send: the peer wants no immediate.
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
    /// Send: the peer's address. Receive: what we advertise.
    pub(crate) wire_addr: u64,
    /// Send: the peer's keys. Receive: ours.
    pub(crate) keys: [u64; MAX_RAILS],
}

const _: () = assert!(
    crate::Lane::COUNT_MAX <= 8,
    "`flying` has a bit for each lane"
);
const _: () = assert!(size_of::<Request>() <= 128, "two cache lines");

impl Request {
    pub(crate) const fn new(comm: Key, kind: Kind, region: RegionId, addr: u64, len: u32) -> Self {
        Self {
            comm,
            region,
            kind,
            state: State::Live,
            seq: 0,
            epoch: 0,
            need: 0,
            have: 0,
            queued: 0,
            flying: 0,
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

    /// Nothing of it is queued or at the provider.
    pub(crate) const fn is_quiet(&self) -> bool {
        self.queued == 0 && self.flying == 0
    }

    /// Counts a completion; true when it was the last.
    pub(crate) fn count(&mut self) -> bool {
        self.have = self.have.saturating_add(1);
        let last = self.state == State::Live && self.need != 0 && self.have == self.need;
        if last {
            self.state = State::Done;
        }
        last
    }
}
