//! What can go wrong, as values: who fails, with which numbers. Words and codes for people are put
//! on them by the layer above.

use crate::key::ReqKey;
use crate::port::{Cause, Lane, PeerAddr};
use crate::view::RequestKind;

/// A refused command. Nothing was changed by it unless it says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(
    clippy::error_impl_error,
    reason = "read as ofi_rdma::Error, the one error of every command"
)]
pub enum Error {
    /// The communicator does not exist (any more), or is of another kind.
    #[error("no such communicator: closed before, or not of the kind that this call takes")]
    NoSuchComm,
    /// The request does not exist (any more).
    #[error("no such request: it completed before, or its communicator was closed")]
    NoSuchRequest,
    /// All communicator ids are in use (protocol 2c.1: 2^18).
    #[error("all communicator ids are in use")]
    OutOfIds,
    /// The listener already gave its one communicator (protocol 2d.6).
    #[error("this listener accepted its connection before: one connection a listener")]
    AlreadyAccepted,
    /// A length the wire cannot carry.
    #[error("{len} bytes asked for: a message has at most {max}")]
    TooLong {
        /// Bytes asked for.
        len: u64,
        /// Bytes there can be.
        max: u64,
    },
    /// More flushes than slots.
    #[error(
        "{} flushes of one communicator are outstanding: test them first",
        crate::limits::FLUSHES_MAX
    )]
    TooManyFlushes,
    /// A remote key that does not fit the keys of this connection.
    #[error(
        "key {key:#x} of rail {rail} has more than 32 bits, and the keys on this fabric are 32 bits wide"
    )]
    KeyTooWide {
        /// The rail.
        rail: u8,
        /// The key.
        key: u64,
    },
    /// The handle's listener id is out of range: not a handle of this protocol.
    #[error(
        "the connection handle names listener {0}, outside 0..2^18: it is of SENDRECV, where this side speaks RDMA, or damaged"
    )]
    BadHandle(u32),
    /// The provider refused the address in a handle, so there is no communicator; and no event, since
    /// this says it.
    #[error("the address in the connection handle cannot be used: {}", .0.why)]
    Unreachable(Failure),
    /// The communicator failed before; the first failure stays (decision 11).
    #[error("communicator {} failed: {}", .0.comm_id, .0.why)]
    Failed(Failure),
}

/// The first failure of a communicator: it sticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Failure {
    /// Wire id of our communicator.
    pub comm_id: u32,
    /// Sequence number of the message it happened to, if to one.
    pub seq: Option<u16>,
    /// The request it happened to, if to one.
    pub request: Option<FailedRequest>,
    /// What happened.
    pub why: Why,
    /// Control endpoint 0 of the peer (SENDRECV: its endpoint), for whoever knows its name; `None`
    /// for a listener, and for a name that the provider refused.
    pub peer: Option<PeerAddr>,
}

/// The request that a failure happened to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FailedRequest {
    /// Its name.
    pub key: ReqKey,
    /// What it was for.
    pub kind: RequestKind,
    /// Bytes asked for: of the message, the flush, or the one-sided operation, however many operations
    /// carry them.
    pub len: u64,
}

/// What made a communicator fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Why {
    /// The provider failed an operation.
    #[error("{op:?} on {} rail {} failed: errno {}, provider error {}", if .lane.is_control() { "control" } else { "data" }, .lane.rail(), .cause.errno, .cause.provider_errno)]
    Operation {
        /// Which kind of operation.
        op: OpKind,
        /// On which endpoint.
        lane: Lane,
        /// The provider's numbers.
        cause: Cause,
    },
    /// The provider did not take the peer's address.
    #[error("the peer's address for {} rail {} was refused: errno {}", if .lane.is_control() { "control" } else { "data" }, .lane.rail(), .cause.errno)]
    Unreachable {
        /// For which endpoint.
        lane: Lane,
        /// The provider's numbers.
        cause: Cause,
    },
    /// The two sides were set up differently (decision 19).
    #[error("{what} differs: {ours} here, {theirs} at the peer")]
    Mismatch {
        /// What differs.
        what: Mismatch,
        /// Our value.
        ours: u32,
        /// The peer's value.
        theirs: u32,
    },
    /// The peer did something the protocol excludes.
    #[error("the peer broke the protocol: {0}")]
    Protocol(Violation),
    /// The connection was not made in time.
    #[error("not connected after {waited_ms} ms: {stage}")]
    ConnectTimeout {
        /// How long it was tried.
        waited_ms: u64,
        /// What was being waited for.
        stage: Stage,
    },
    /// No progress for longer than the user allows (decision 12).
    #[error("no progress for {idle_ms} ms: {stage}")]
    Stalled {
        /// How long nothing happened.
        idle_ms: u64,
        /// What was being waited for.
        stage: Stage,
    },
}

impl Why {
    /// What was being waited for, if the wait is all that is wrong.
    #[must_use]
    pub const fn stage(&self) -> Option<Stage> {
        match *self {
            Self::ConnectTimeout { stage, .. } | Self::Stalled { stage, .. } => Some(stage),
            _ => None,
        }
    }
}

/// Kinds of operation, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpKind {
    /// Connection message.
    Conn,
    /// Answer to a connection message.
    ConnResp,
    /// Control message (address and keys of a receive).
    Ctrl,
    /// Close message.
    Close,
    /// Eager payload.
    Eager,
    /// Segment of a message.
    Write,
    /// Copy of an eager payload to its place.
    EagerCopy,
    /// Flush read.
    Flush,
    /// One-sided write.
    Put,
    /// One-sided read.
    Get,
    /// SENDRECV: a receive for a connection message.
    AwaitConn,
    /// SENDRECV: a message.
    TaggedSend,
    /// SENDRECV: a receive of a message.
    TaggedRecv,
}

impl OpKind {
    /// Whether it belongs to a communicator itself, not to a request.
    pub(crate) const fn is_own(self) -> bool {
        matches!(self, Self::Conn | Self::ConnResp | Self::Close)
    }
}

/// What two sides have to agree on and nobody negotiates (protocol trap 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Mismatch {
    /// Data rails (`OFI_NCCL_FORCE_NUM_RAILS`, NICs found).
    #[error("the number of rails")]
    Rails,
    /// Control rails (`OFI_NCCL_RR_CTRL_MSG`).
    #[error("the number of control rails")]
    ControlRails,
    /// Key width in bytes (the provider's `mr_key_size`).
    #[error("the width of remote keys in bytes")]
    KeyWidth,
}

/// What a peer may not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Violation {
    /// A segment count of 0, or two segments of one message that disagree (protocol 2c.1).
    #[error("segment counts of one message disagree or are 0")]
    SegmentCount,
    /// More bytes than the receive has room for.
    #[error("more bytes were written than the receive has room for")]
    Overrun,
    /// Both eager data and segments for one message.
    #[error("one message came both eagerly and by writes")]
    EagerAndSegments,
    /// Data with an immediate for a receive whose CTRL asked for none (protocol 2c.4, type 5).
    #[error("data with an immediate for a receive that asked for none")]
    Unwanted,
    /// An eager immediate has segment count 1 (protocol 2c.6).
    #[error("an eager message with a segment count other than 1")]
    EagerSegments,
    /// The same message arrived twice.
    #[error("the same message arrived twice")]
    Duplicate,
    /// A message so far ahead that a peer within its limits cannot send it.
    #[error("a message beyond the window of sequence numbers")]
    BeyondWindow,
    /// Ids in a connection answer out of range.
    #[error("a communicator id outside 0..2^18 in a connection message")]
    CommId,
    /// SENDRECV: a second sender connected to a tag, and nothing tells its messages from those of the
    /// first (protocol trap 29).
    #[error("a second sender connected to this communicator")]
    SecondSender,
}

/// What a communicator waits for, for timeouts and stall reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Stage {
    /// The provider has not accepted CONN (EAGAIN): is the peer reachable?
    #[error(
        "the connection message could not be sent yet (the provider answers EAGAIN: peer unreachable, security group, or not polling)"
    )]
    SendConn,
    /// CONN went out, no answer: the peer has not called accept, or its answer cannot reach us.
    #[error("waiting for the peer's answer (it has not called accept, or cannot reach this host)")]
    AwaitConnResp,
    /// `CONN_RESP` is not sent yet.
    #[error("the answer to the connection message could not be sent")]
    SendConnResp,
    /// Posts wait for room in the provider.
    #[error("posts wait for the provider (EAGAIN)")]
    Posting,
    /// Writes or sends posted, their completions missing.
    #[error("waiting for completions of posted operations")]
    Completions,
    /// Sends wait for the peer's CTRL: it has not posted the receive.
    #[error("waiting for the peer to post the receive")]
    AwaitCtrl,
    /// Receives wait for the peer's data: it has not posted the send.
    #[error("waiting for the peer's data")]
    AwaitData,
    /// Accept is called, and nobody has connected.
    #[error(
        "accept waits for a connection (nobody has called connect, speaks another protocol, or cannot reach this host)"
    )]
    AwaitConn,
    /// Closed here; the peer has not said CLOSE.
    #[error("closed here, waiting for the peer to close")]
    AwaitClose,
}
