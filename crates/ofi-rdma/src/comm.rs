//! Communicators: listener, send, receive; and the table from wire id to communicator.

use alloc::boxed::Box;
use alloc::vec::Vec;
use ofi_pools::Key;

use crate::dialect::Dialect;
use crate::error::{Failure, Mismatch, OpKind};
use crate::limits::MAX_RAILS;
use crate::port::PeerAddr;
use crate::state::{CommInput, CommState};
use crate::window::Window;
use crate::wire::conn::Conn;

/// Kind of a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CommKind {
    /// Waits for one connection.
    Listener,
    /// Sends to one peer.
    Send,
    /// Receives from one peer.
    Recv,
}

/// Addresses of the peer's endpoints.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Peer {
    pub(crate) data: [PeerAddr; MAX_RAILS],
    pub(crate) control: [PeerAddr; MAX_RAILS],
}

#[derive(Debug)]
pub(crate) struct Comm<D: Dialect> {
    pub(crate) kind: CommKind,
    pub(crate) state: CommState,
    /// Its kind, unless it has failed or is closed: what the data path asks first.
    open: Option<CommKind>,
    /// Operations of it and of its requests that the provider does not have yet.
    pub(crate) queued: u32,
    /// Refusing: what differs, ours, theirs.
    pub(crate) refusal: Option<(Mismatch, u32, u32)>,
    pub(crate) local_id: u32,
    pub(crate) remote_id: u32,
    pub(crate) peer: Peer,
    pub(crate) window: Window<D>,
    failure: Option<Failure>,
    /// Sends that are not eager and not taken by `test`: no eager send while there are any (2e.2).
    pub(crate) writes_out: u16,
    /// Both sides are ours and agreed: the length of a segment stands in the upper half of the CQ
    /// data.
    pub(crate) len_in_data: bool,
    /// Largest message sent eagerly: our own limit, and no more than the peer said it takes.
    pub(crate) eager_max: Option<u32>,
    /// Flushes not taken by `test`.
    pub(crate) flushes_out: u16,
    /// One-sided operations not taken by `test`: they share the cap of the messages (2e.8).
    pub(crate) one_sided_out: u16,
    /// Operations at the provider, of this communicator and its requests.
    pub(crate) flying: u32,
    /// Which of CONN, `CONN_RESP` and CLOSE is at the provider (never two of them).
    pub(crate) own_flying: Option<OpKind>,
    /// Receive: CTRLs whose send completed. Send: CTRLs that came. For CLOSE.
    pub(crate) ctrls: u64,
    /// Send: how many CTRLs there were in all, once CLOSE said so.
    pub(crate) close_count: Option<u64>,
    /// Something completed since the last look of the stall detector.
    pub(crate) moved: bool,
    /// When something was last known to move; for connecting: when it began.
    pub(crate) since_ms: u64,
    pub(crate) warned: bool,
    /// Listener: the CONN that came. Send: the `CONN_RESP` that came.
    pub(crate) message: Option<Box<Conn>>,
    /// Listener: the receive communicator being made.
    pub(crate) child: Option<Key>,
}

impl<D: Dialect> Comm<D> {
    pub(crate) fn new(kind: CommKind, state: CommState, local_id: u32, now_ms: u64) -> Self {
        Self {
            kind,
            state,
            open: Some(kind),
            queued: 0,
            refusal: None,
            local_id,
            remote_id: 0,
            peer: Peer::default(),
            window: Window::new(),
            failure: None,
            writes_out: 0,
            len_in_data: false,
            eager_max: None,
            flushes_out: 0,
            one_sided_out: 0,
            flying: 0,
            own_flying: None,
            ctrls: 0,
            close_count: None,
            moved: true,
            since_ms: now_ms,
            warned: false,
            message: None,
            child: None,
        }
    }

    /// Takes a step of its state machine; false when the table has none.
    pub(crate) const fn step(&mut self, input: CommInput) -> bool {
        match self.state.next(input) {
            Some(next) => {
                self.state = next;
                if next.is_closed() {
                    self.open = None;
                }
                true
            }
            None => false,
        }
    }

    /// The failure that sticks to it.
    #[inline]
    pub(crate) const fn failure(&self) -> Option<Failure> {
        self.failure
    }

    /// It failed; for the first time, the caller has seen to that.
    pub(crate) const fn set_failure(&mut self, failure: Failure) {
        self.failure = Some(failure);
        self.open = None;
    }

    /// Whether messages of the peer may still touch it, which is of this kind.
    #[inline]
    pub(crate) fn is_open(&self, kind: CommKind) -> bool {
        self.open == Some(kind)
    }

    /// Whether one more message or one-sided operation is taken: connected, with room, and nothing waits
    /// for the provider.
    #[inline]
    pub(crate) fn is_ready(&self, kind: CommKind) -> bool {
        self.is_open(kind) && self.state == CommState::Up && self.queued == 0 && self.has_room()
    }

    /// Whether one more message or one-sided operation may be in flight.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        self.window.outstanding() + self.one_sided_out < D::INFLIGHT_MAX
    }

    /// The provider has one more operation of it.
    #[inline]
    pub(crate) const fn launched(&mut self) {
        self.queued -= 1;
        self.flying += 1;
        self.moved = true;
    }

    /// Requests that are not in the window and not taken by `test`.
    pub(crate) const fn out_of_window(&self) -> u16 {
        self.flushes_out + self.one_sided_out
    }

    /// Requests not taken by `test`.
    pub(crate) fn outstanding(&self) -> u16 {
        self.window.outstanding() + self.out_of_window()
    }

    /// The peer's control endpoint 0; `None` for a listener.
    pub(crate) fn peer_address(&self) -> Option<PeerAddr> {
        let [control_0, ..] = self.peer.control;
        (self.kind != CommKind::Listener).then_some(control_0)
    }

    /// Whether its peer said CLOSE and all its CTRLs came.
    pub(crate) fn is_heard_out(&self) -> bool {
        self.close_count.is_some_and(|count| self.ctrls >= count)
    }

    /// Whether messages of the peer may still touch it.
    #[inline]
    pub(crate) const fn takes_messages(&self) -> bool {
        self.open.is_some()
    }
}

/// From wire id to communicator: a direct table, dense because ids are taken lowest first.
#[derive(Debug, Default)]
pub(crate) struct ById {
    keys: Vec<Option<Key>>,
}

impl ById {
    pub(crate) fn set(&mut self, id: u32, key: Option<Key>) {
        let at = id as usize;
        if at >= self.keys.len() {
            self.keys.resize(at + 1, None);
        }
        self.keys[at] = key;
    }

    #[inline]
    pub(crate) fn get(&self, id: u32) -> Option<Key> {
        self.keys.get(id as usize).copied().flatten()
    }
}
