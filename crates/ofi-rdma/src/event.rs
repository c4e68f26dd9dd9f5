//! Typed events and counters: what the engine noticed, without words.

use crate::comm::{Comm, CommKind};
use crate::counts::add;
use crate::dialect::Dialect;
use crate::error::{Failure, Stage};
use crate::key::CommKey;
use crate::port::PeerAddr;
use crate::view::RequestView;

/// Something worth telling a person. Never on the path of a message that goes well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A communicator is connected.
    Connected {
        /// Which.
        comm: CommKey,
        /// Our wire id.
        local_id: u32,
        /// The peer's wire id.
        remote_id: u32,
        /// As in [`Failure::peer`].
        peer: Option<PeerAddr>,
    },
    /// The peer takes shorter eager messages than we would send: longer ones go by rendezvous.
    EagerCapped {
        /// Which.
        comm: CommKey,
        /// Our limit, bytes; `None`: eager messages are off.
        ours: Option<u32>,
        /// The limit now.
        theirs: Option<u32>,
    },
    /// A communicator failed for the first time.
    Failed(CommKey, Failure),
    /// No progress for [`crate::Config::stall_warn_ms`]; said once per stall.
    Stalled {
        /// Which.
        comm: CommKey,
        /// Its kind.
        kind: CommKind,
        /// Our wire id.
        local_id: u32,
        /// The peer's wire id; 0 where it is not known.
        remote_id: u32,
        /// What it waits for.
        stage: Stage,
        /// Sequence number of the oldest request.
        oldest_seq: u16,
        /// Requests outstanding.
        outstanding: u16,
        /// How long, without the time in which the caller did not look.
        idle_ms: u64,
        /// How long the caller did not look meanwhile.
        away_ms: u64,
        /// Its operations that the provider was too busy for.
        queued: u32,
        /// Times the provider said EAGAIN to its operations.
        busy: u64,
        /// The oldest request that is not done.
        oldest: Option<RequestView>,
        /// As in [`Failure::peer`].
        peer: Option<PeerAddr>,
    },
    /// A message for nobody was dropped.
    Stray(Stray),
}

/// Kinds of message that found nobody (decision 14).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stray {
    /// Control message of unknown type or wrong length: type bits and length.
    Malformed {
        /// The low four bits of the first word, or 15 for an empty message.
        kind: u8,
        /// Bytes received.
        len: u32,
    },
    /// CONN for no listener, or for one that has its connection: the listener id.
    Conn(u32),
    /// `CONN_RESP` for no connecting communicator: the id.
    ConnResp(u32),
    /// CTRL for no send communicator, or repeated: id and sequence number.
    Ctrl(u32, u16),
    /// CLOSE for no send communicator: the id.
    Close(u32),
    /// Immediate of a write for no receive: id and sequence number.
    Write(u32, u16),
    /// Eager message for no receive communicator: id and sequence number.
    Eager(u32, u16),
    /// A completion for no operation.
    Completion,
}

/// Always-on counters of one engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Sends admitted.
    pub sends: u64,
    /// Of them, eager.
    pub eager_sends: u64,
    /// Receives admitted.
    pub recvs: u64,
    /// One-sided operations admitted.
    pub one_sided: u64,
    /// Bytes of completed sends.
    pub bytes_sent: u64,
    /// Bytes of completed receives.
    pub bytes_received: u64,
    /// Segments posted.
    pub segments: u64,
    /// CTRL messages posted.
    pub ctrls: u64,
    /// Times a provider said EAGAIN.
    pub busy: u64,
    /// Operations that went out after they had waited for the provider.
    pub retried: u64,
    /// Commands answered "not now".
    pub not_now: u64,
    /// Strays dropped.
    pub strays: u64,
    /// Failed operations that followed a first failure.
    pub followers: u64,
    /// Communicators that failed.
    pub failures: u64,
    /// Events lost because nobody polled.
    pub events_lost: u64,
}

impl Counters {
    #[inline]
    pub(crate) const fn add_segments(&mut self, count: u8) {
        add(&mut self.segments, count as u64);
    }

    /// What was counted on a communicator.
    pub(crate) fn take_over<D: Dialect>(&mut self, comm: &Comm<D>) {
        let counted = comm.counters();
        match comm.kind {
            CommKind::Send => self.bytes_sent += counted.bytes,
            CommKind::Recv => self.bytes_received += counted.bytes,
            CommKind::Listener => {}
        }
        self.eager_sends += counted.eager;
    }
}

/// What happened on several engines together.
impl core::ops::AddAssign for Counters {
    fn add_assign(&mut self, other: Self) {
        let Self {
            sends,
            eager_sends,
            recvs,
            one_sided,
            bytes_sent,
            bytes_received,
            segments,
            ctrls,
            busy,
            retried,
            not_now,
            strays,
            followers,
            failures,
            events_lost,
        } = self;
        *sends += other.sends;
        *eager_sends += other.eager_sends;
        *recvs += other.recvs;
        *one_sided += other.one_sided;
        *bytes_sent += other.bytes_sent;
        *bytes_received += other.bytes_received;
        *segments += other.segments;
        *ctrls += other.ctrls;
        *busy += other.busy;
        *retried += other.retried;
        *not_now += other.not_now;
        *strays += other.strays;
        *followers += other.followers;
        *failures += other.failures;
        *events_lost += other.events_lost;
    }
}
