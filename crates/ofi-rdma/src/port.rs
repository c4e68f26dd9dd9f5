//! The seam between the engine and whatever moves bytes: libfabric in production, a virtual network
//! in the simulator.
//!
//! The engine describes an operation ([`Post`](crate::Post)); the port turns it into one call of the provider and
//! says what became of it ([`Outcome`]). The engine never sees an address of this process other than
//! as a number, and never owns registered memory: control messages are encoded by
//! [`Post::encode`](crate::Post::encode) straight into a buffer of the port.

use crate::limits::{EP_NAME_BYTES, MAX_RAILS};
use crate::wire::host::HostName;

/// One endpoint path of the device: a data rail or a control rail.
///
/// Data rail `i` and control rail `i` are two endpoints over one NIC and one completion queue
/// (protocol 2d.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lane(u8);

impl Lane {
    /// Lanes there can be: data rails, then control rails.
    pub const COUNT_MAX: usize = 2 * MAX_RAILS;

    /// The data endpoint of rail `rail` (below [`MAX_RAILS`]).
    #[must_use]
    pub const fn data(rail: u8) -> Self {
        Self(rail)
    }

    /// The control endpoint of rail `rail` (below [`MAX_RAILS`]).
    #[must_use]
    pub const fn control(rail: u8) -> Self {
        Self(rail | 0x80)
    }

    /// The rail, counted from 0.
    #[must_use]
    pub const fn rail(self) -> u8 {
        self.0 & 0x7F
    }

    /// Whether this is a control endpoint.
    #[must_use]
    pub const fn is_control(self) -> bool {
        self.0 & 0x80 != 0
    }

    /// The bit of this lane in a set of lanes: bit [`Lane::index`].
    #[must_use]
    pub(crate) const fn bit(self) -> u8 {
        1 << self.index()
    }

    /// Dense index, below [`Lane::COUNT_MAX`]: data rails first.
    #[must_use]
    pub const fn index(self) -> usize {
        let half = if self.is_control() { MAX_RAILS } else { 0 };
        half + self.rail() as usize
    }
}

/// A set of data rails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Rails(u8);

impl Rails {
    /// Rail 0 alone.
    pub const FIRST: Self = Self(1);

    /// The rails whose bits are set: bit `i` is rail `i`, below [`MAX_RAILS`].
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & ((1 << MAX_RAILS) - 1))
    }

    /// Bit `i` is rail `i`.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Whether rail `rail` is in it.
    #[must_use]
    pub const fn contains(self, rail: u8) -> bool {
        (rail as usize) < MAX_RAILS && self.0 & (1 << rail) != 0
    }
}

/// The address of a peer's endpoint in the port's address vector of one lane. Opaque to the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct PeerAddr(pub u64);

/// An endpoint name as it travels: always [`EP_NAME_BYTES`] bytes, of which `len` count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EpName {
    /// The raw bytes, zero padded.
    pub bytes: [u8; EP_NAME_BYTES],
    /// How many of them are the address; at most [`EP_NAME_BYTES`].
    pub len: u8,
}

impl EpName {
    /// No name.
    pub const EMPTY: Self = Self {
        bytes: [0; EP_NAME_BYTES],
        len: 0,
    };

    /// A name from the address that `fi_getname(3)` gave; `None` when it is longer than the wire
    /// has room for.
    #[must_use]
    pub fn new(address: &[u8]) -> Option<Self> {
        let mut bytes = [0; EP_NAME_BYTES];
        bytes.get_mut(..address.len())?.copy_from_slice(address);
        Some(Self {
            bytes,
            len: u8::try_from(address.len()).ok()?,
        })
    }
}

/// A registered region of the caller, by the port's own number. The engine counts the requests that
/// refer to it ([`crate::Engine::region_refs`]) and hands it back in the operations that need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RegionId(pub u32);

/// A receive buffer of the port, by the port's own number: what the engine gives back when an eager
/// payload has been copied out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RxId {
    /// The data rail whose endpoint the buffer was posted on.
    pub rail: u8,
    /// The port's number of the buffer on that rail.
    pub index: u32,
}

/// Names one posted operation; the port hands it back with the completion. Never interpreted
/// outside the engine, never sent to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token(pub u64);

/// What an operation does. One variant is one libfabric call (protocol 2c.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// `fi_send` of `len` bytes that [`Post::encode`](crate::Post::encode) writes; never with CQ data (trap 1).
    Control {
        /// Where to.
        peer: PeerAddr,
        /// Exact length in bytes.
        len: u16,
    },
    /// `fi_senddata` of a whole message (protocol 2c.6). With `len` 0 the port sends from its own
    /// zero-length buffer.
    Eager {
        /// Where to.
        peer: PeerAddr,
        /// Local address of the payload.
        addr: u64,
        /// Payload bytes.
        len: u32,
        /// Region that holds the payload.
        region: RegionId,
        /// CQ data.
        imm: u32,
    },
    /// `fi_writedata` (with `data`) or `fi_write` (without) of one segment (protocol 2c.7).
    Write {
        /// Where to.
        peer: PeerAddr,
        /// Local address of the segment.
        addr: u64,
        /// Segment bytes; 0 is legal and is sent from the port's own buffer.
        len: u64,
        /// Region that holds the segment.
        region: RegionId,
        /// Remote address, as the peer advertised it, offset included.
        remote_addr: u64,
        /// Remote key of this rail.
        remote_key: u64,
        /// CQ data; `None` for a receiver that asked for no completion (CTRL type 5). For BASE peers
        /// always the 32 bits of the immediate; between peers of ours that agreed on it, the length
        /// stands above them ([`crate::wire::capability`]).
        data: Option<u64>,
    },
    /// `fi_read` from the bounce buffer `rx` through this endpoint's own address (protocol 2e.3).
    EagerCopy {
        /// The bounce buffer.
        rx: RxId,
        /// Bytes to copy, at least 1.
        len: u32,
        /// Local destination.
        addr: u64,
        /// Region of the destination.
        region: RegionId,
    },
    /// `fi_read` of 4 bytes of the caller's buffer into the port's flush page (protocol 2e.7).
    FlushRead {
        /// Address in the caller's buffer.
        addr: u64,
        /// Region of that buffer.
        region: RegionId,
    },
    /// `fi_writemsg` to memory that the caller names (protocol 2c.8): no immediate, nobody is told.
    Put {
        /// Where to, and where in its memory.
        target: Remote,
        /// Local address of the bytes.
        addr: u64,
        /// Bytes; 0 is legal and is sent from the port's own buffer.
        len: u32,
        /// Where the bytes lie.
        source: PutSource,
    },
    /// `fi_read` of memory that the caller names (protocol 2c.8).
    Get {
        /// Whom from, and where in its memory.
        target: Remote,
        /// Local destination.
        addr: u64,
        /// Bytes; 0 is legal and goes to the port's own buffer.
        len: u32,
        /// Region of the destination.
        region: RegionId,
    },
}

/// Memory of a peer, as the caller of a one-sided operation names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Whose.
    pub peer: PeerAddr,
    /// Virtual address there.
    pub addr: u64,
    /// Key of its region on data rail 0.
    pub key: u64,
}

/// Where the bytes of a one-sided write lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PutSource {
    /// In a region, untouched until the operation completed.
    Region(RegionId),
    /// Anywhere: the port takes them during the call (`FI_INJECT`, no descriptor).
    Inline,
}

/// What became of an offered operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The provider has it; a completion with its token follows.
    Accepted,
    /// It is done, and no completion will follow: a copy within this host, say. Not for what was injected, unless
    /// the port learns of each failure and fails the communicator: the peer of a lost message waits for ever.
    Completed,
    /// EAGAIN: offer it again later. Nothing happened.
    Busy,
    /// The provider refused it for good. Nothing will follow.
    Failed(Cause),
}

/// Why the provider failed an operation: the numbers of `fi_cq_err_entry` or a return code
/// (`fi_cq(3)`, `fi_errno(3)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Cause {
    /// Positive errno or libfabric error number (absolute value).
    pub errno: i32,
    /// The provider's own number, 0 when it gave none.
    pub provider_errno: i32,
}

impl Cause {
    /// ECANCELED: the operation was flushed because of something else.
    pub const CANCELED: i32 = 125;

    /// A cause with an error number only.
    #[must_use]
    pub const fn errno(errno: i32) -> Self {
        Self {
            errno,
            provider_errno: 0,
        }
    }

    /// Whether this entry is a follower (flushed), not a cause.
    #[must_use]
    pub const fn is_flush(self) -> bool {
        self.errno == Self::CANCELED
    }
}

/// What the engine needs of the world: one implementor over libfabric, one in the simulator.
pub trait RailPort {
    /// Offers one operation to the provider of `post.lane()`.
    fn post(&mut self, post: &crate::Post) -> Outcome;

    /// Makes a peer's endpoint reachable on `lane` and returns its address there. The 56 bytes come
    /// from a peer: they are hostile until the provider took them.
    ///
    /// # Errors
    /// The provider's cause when it does not accept the name.
    fn resolve(&mut self, lane: Lane, name: &[u8; EP_NAME_BYTES]) -> Result<PeerAddr, Cause>;

    /// The peer whose endpoint on control lane 0 is `peer` says that it is on `host`: for the log.
    /// Nothing is checked of it but that it is a name.
    fn on_host(&mut self, peer: PeerAddr, host: &HostName) {
        let _unused = (peer, host);
    }
}
