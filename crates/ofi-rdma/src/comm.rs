//! Communicators: listener, send, receive.

use alloc::boxed::Box;
use ofi_pools::Key;

use crate::counts::{CommCounters, Past};
use crate::dialect::Dialect;
use crate::error::{Failure, Mismatch, OpKind};
use crate::limits::MAX_RAILS;
use crate::port::PeerAddr;
use crate::request::Taken;
use crate::state::{CommInput, CommState};
use crate::window::Window;
use crate::wire::capability::length_in;
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

/// What messages of the peer may still touch. The word that a slot without a communicator has elsewhere
/// stands here, too: so that it is wide, and one comparison says both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u64)]
enum Open {
    /// It has failed, or is closed.
    Nothing,
    Listener,
    Send,
    Recv,
}

impl Open {
    #[inline(always)]
    const fn of(kind: CommKind) -> Self {
        match kind {
            CommKind::Listener => Self::Listener,
            CommKind::Send => Self::Send,
            CommKind::Recv => Self::Recv,
        }
    }
}

/// Addresses of the peer's endpoints.
#[derive(Clone, Copy, Debug, Default, Hash)]
pub(crate) struct Peer {
    pub(crate) data: [PeerAddr; MAX_RAILS],
    pub(crate) control: [PeerAddr; MAX_RAILS],
}

/// A communicator: what every message touches in the first cache line, the peer's addresses in the second
/// one, what is rarely looked at behind them.
#[derive(Clone, Debug, Hash)]
#[repr(C)]
pub(crate) struct Comm<D: Dialect> {
    /// By its kind: what the data path asks first.
    open: Open,
    pub(crate) state: CommState,
    /// Something completed since the last look of the stall detector.
    pub(crate) moved: bool,
    /// Both sides are ours and agreed: the length of a segment stands in the upper half of the CQ
    /// data.
    pub(crate) len_in_data: bool,
    /// Operations of it and of its requests that the provider does not have yet.
    pub(crate) queued: u32,
    pub(crate) window: Window<D>,
    /// Operations at the provider, of this communicator and its requests.
    pub(crate) flying: u32,
    pub(crate) remote_id: u32,
    /// Messages shorter than this are sent eagerly: our own limit, and no more than the peer said it takes.
    eager_below: u32,
    /// Sends that are not eager and not taken by `test`: no eager send while there are any (2e.2).
    pub(crate) writes_out: u16,
    /// One-sided operations not taken by `test`: they share the cap of the messages (2e.8).
    pub(crate) one_sided_out: u16,
    /// Receive: CTRLs whose send completed. Send: CTRLs that came. For CLOSE.
    pub(crate) ctrls: u64,
    pub(crate) peer: Peer,
    /// Bytes of messages that are done.
    pub(crate) bytes: Past<u64>,
    pub(crate) kind: CommKind,
    pub(crate) warned: bool,
    /// Flushes not taken by `test`.
    pub(crate) flushes_out: u16,
    pub(crate) local_id: u32,
    /// When something was last known to move; for connecting: when it began.
    pub(crate) since_ms: u64,
    /// Apart: it is longer than what there is room for, and there is seldom one.
    failure: Option<Box<Failure>>,
    /// Which of CONN, `CONN_RESP` and CLOSE is at the provider (never two of them).
    pub(crate) own_flying: Option<OpKind>,
    /// Send: CLOSE came.
    close_came: bool,
    /// Listener: looks of the stall detector until accept counts as no longer being called.
    pub(crate) asked: u8,
    /// Of the time since `since_ms`, what the caller spent without calling.
    pub(crate) away_ms: u32,
    /// Refusing: what differs, ours, theirs.
    pub(crate) refusal: Option<(Mismatch, u32, u32)>,
    /// EAGAINs to its operations.
    pub(crate) busy: Past<u32>,
    /// Send: how many CTRLs there were in all, once CLOSE said so.
    close_count: u64,
    /// Listener: the CONN that came. Send: the `CONN_RESP` that came.
    pub(crate) message: Option<Box<Conn>>,
    /// Listener: the receive communicator being made.
    pub(crate) child: Option<Key>,
    /// Sends that went eagerly.
    pub(crate) eager: Past<u64>,
}

const _: () = {
    type Any = Comm<crate::dialect::Base>;
    // What stands before it in its slot of the table.
    const BEFORE: usize = 8;
    assert!(
        core::mem::offset_of!(Any, peer) + BEFORE <= 64,
        "what messages touch is one line"
    );
    assert!(
        core::mem::offset_of!(Any, bytes) + BEFORE <= 128,
        "and the addresses another"
    );
};

impl<D: Dialect> Comm<D> {
    pub(crate) fn new(kind: CommKind, state: CommState, local_id: u32, now_ms: u64) -> Self {
        Self {
            kind,
            state,
            open: Open::of(kind),
            queued: 0,
            refusal: None,
            local_id,
            remote_id: 0,
            peer: Peer::default(),
            window: Window::new(),
            failure: None,
            writes_out: 0,
            len_in_data: false,
            eager_below: 0,
            flushes_out: 0,
            one_sided_out: 0,
            flying: 0,
            own_flying: None,
            ctrls: 0,
            close_came: false,
            close_count: 0,
            moved: true,
            since_ms: now_ms,
            away_ms: 0,
            asked: 0,
            warned: false,
            message: None,
            child: None,
            bytes: Past::default(),
            eager: Past::default(),
            busy: Past::default(),
        }
    }

    /// What happened on it.
    pub(crate) fn counters(&self) -> CommCounters {
        CommCounters {
            // Each message has one CTRL; those that a peer repeats, and those of messages in flight, are
            // less than 2^31.
            messages: self.window.started().widened(self.ctrls),
            eager: self.eager.get(),
            bytes: self.bytes.get(),
            busy: self.busy.get(),
        }
    }

    /// Takes a step of its state machine; false when the table has none.
    pub(crate) const fn step(&mut self, input: CommInput) -> bool {
        match self.state.next(input) {
            Some(next) => {
                self.state = next;
                if next.is_closed() {
                    self.open = Open::Nothing;
                }
                true
            }
            None => false,
        }
    }

    /// The failure that sticks to it.
    #[inline]
    pub(crate) fn failure(&self) -> Option<Failure> {
        self.failure.as_deref().copied()
    }

    /// Whether one sticks to it.
    #[inline]
    pub(crate) const fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// It failed; for the first time, the caller has seen to that.
    pub(crate) fn set_failure(&mut self, failure: Failure) {
        self.failure = Some(Box::new(failure));
        self.open = Open::Nothing;
    }

    /// Whether messages of the peer may still touch it, which is of this kind.
    #[inline]
    pub(crate) fn is_open(&self, kind: CommKind) -> bool {
        self.open == Open::of(kind)
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
        // Both are at most the cap, which is at most 2^15: the sum fits.
        self.window.outstanding().wrapping_add(self.one_sided_out) < D::INFLIGHT_MAX
    }

    /// Whether a message of `len` bytes whose CTRL is not here goes eagerly: no eager message overtakes one
    /// that waits for its CTRL (protocol 2e.2).
    #[inline]
    pub(crate) fn may_be_eager(&self, len: u32) -> bool {
        self.writes_out == 0 && len < self.eager_below
    }

    /// Sends up to this length may be eager.
    pub(crate) const fn set_eager_max(&mut self, max: Option<u32>) {
        // No message is as long as 2^32 - 1.
        self.eager_below = match max {
            Some(max) => max.saturating_add(1),
            None => 0,
        };
    }

    /// The length of a segment, which the provider does not say, where the peer does.
    #[cold]
    pub(crate) const fn len_told(&self, data: u64) -> Option<u64> {
        if self.len_in_data {
            length_in(data)
        } else {
            None
        }
    }

    /// So many operations more wait for the provider. Wrapping here and below, so that no overflow check
    /// is left in the hot path; tests see one.
    #[inline]
    pub(crate) fn queue(&mut self, count: u8) {
        self.queued = self.queued.wrapping_add(u32::from(count));
    }

    /// The provider has these operations of it or its requests.
    #[inline]
    pub(crate) fn launched(&mut self, taken: Taken) {
        let count = u32::from(taken.count);
        debug_assert!(self.queued >= count, "more than were queued");
        self.queued = self.queued.wrapping_sub(count);
        self.flying = self.flying.wrapping_add(count);
        self.moved = true;
    }

    /// The provider gave one operation back.
    #[inline]
    pub(crate) fn landed(&mut self) {
        debug_assert!(self.flying > 0, "more than were at the provider");
        self.flying = self.flying.wrapping_sub(1);
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

    /// Whether CLOSE came.
    pub(crate) const fn has_close(&self) -> bool {
        self.close_came
    }

    /// CLOSE says how many CTRLs there were.
    pub(crate) const fn close_said(&mut self, ctrls: u64) {
        self.close_came = true;
        self.close_count = ctrls;
    }

    /// Whatever it waits for, it waits from now on.
    pub(crate) const fn wait_from(&mut self, now_ms: u64) {
        self.since_ms = now_ms;
        self.away_ms = 0;
        self.moved = false;
        self.warned = false;
    }

    /// How long nothing has moved while the caller looked, milliseconds.
    pub(crate) const fn idle_ms(&self, now_ms: u64) -> u64 {
        let all = now_ms.saturating_sub(self.since_ms);
        all.saturating_sub(self.away_ms as u64)
    }

    /// The peer's control endpoint 0; `None` for a listener.
    pub(crate) fn peer_address(&self) -> Option<PeerAddr> {
        let [control_0, ..] = self.peer.control;
        (self.kind != CommKind::Listener).then_some(control_0)
    }

    /// Whether its peer said CLOSE and all its CTRLs came.
    pub(crate) fn is_heard_out(&self) -> bool {
        self.close_came && self.ctrls >= self.close_count
    }

    /// Whether messages of the peer may still touch it.
    #[inline]
    pub(crate) const fn takes_messages(&self) -> bool {
        !matches!(self.open, Open::Nothing)
    }
}
