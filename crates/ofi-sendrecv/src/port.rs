//! The seam between the engine and whatever moves bytes: libfabric in production, a table of messages
//! in the tests.

use ofi_rdma::{Cause, Outcome, PeerAddr, RegionId, Token};

use crate::limits::{CONNECT_BYTES, EP_NAME_BYTES};
use crate::token::Op;
use crate::wire::Connect;

/// Bytes of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Address of the first byte.
    pub addr: u64,
    /// Bytes; a receive has room for so many.
    pub len: u64,
    /// Region that holds them. For 0 bytes: one of the port's own.
    pub region: RegionId,
}

/// What an operation does. One variant is one libfabric call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// `fi_tsend` of the 80 bytes that [`Post::connect_bytes`] gives. May go out by inject.
    Connect {
        /// Where to.
        peer: PeerAddr,
        /// Its tag, control bit included.
        tag: u64,
    },
    /// `fi_trecv` from anybody into a buffer of the port's own, of at least
    /// [`crate::limits::CONNECT_BUFFER_BYTES`] bytes. What arrives is handed to
    /// [`crate::Engine::on_connect`].
    Await {
        /// Its tag, control bit included.
        tag: u64,
    },
    /// `fi_tsend`.
    Send {
        /// Where to.
        peer: PeerAddr,
        /// Its tag.
        tag: u64,
        /// What.
        buffer: Buffer,
    },
    /// `fi_trecv` from anybody.
    Recv {
        /// Its tag.
        tag: u64,
        /// Where to put it.
        buffer: Buffer,
    },
    /// `fi_read` of 4 bytes of the caller's buffer into the port's flush page (protocol 2e.12).
    FlushRead {
        /// Address in the caller's buffer.
        addr: u64,
        /// Region of that buffer.
        region: RegionId,
    },
}

/// One operation, as offered to a port.
#[derive(Clone, Copy, Debug)]
pub struct Post {
    pub(crate) token: Token,
    pub(crate) op: Op,
    pub(crate) wire: Wire,
    pub(crate) connect: Connect,
}

impl Post {
    /// What the completion has to carry.
    #[must_use]
    pub const fn token(&self) -> Token {
        self.token
    }

    /// Its kind, for messages and traces.
    #[must_use]
    pub const fn op(&self) -> Op {
        self.op
    }

    /// What to do.
    #[must_use]
    pub const fn wire(&self) -> &Wire {
        &self.wire
    }

    /// The bytes of a [`Wire::Connect`].
    #[must_use]
    pub fn connect_bytes(&self) -> [u8; CONNECT_BYTES] {
        self.connect.encode()
    }
}

/// What the engine needs of the world.
pub trait TagPort {
    /// Offers one operation to the provider. Operations of one tag have to be taken in the order in
    /// which they are offered (`FI_ORDER_SAS`).
    fn post(&mut self, post: &Post) -> Outcome;

    /// Asks the provider to cancel an accepted receive (`fi_cancel`). A completion follows all the
    /// same: cancelled, or what it came to before. Nothing to cancel is no error.
    fn cancel(&mut self, token: Token);

    /// Makes an endpoint reachable and returns its address. The 56 bytes come from a peer: they are
    /// hostile until the provider took them.
    ///
    /// # Errors
    /// The provider's cause when it does not accept the name.
    fn resolve(&mut self, name: &[u8; EP_NAME_BYTES]) -> Result<PeerAddr, Cause>;
}
