//! Layer 1: posts, one provider call each, no allocation, nothing kept.
//!
//! # The contract of all posts
//!
//! Every `post_*` is unsafe because libfabric goes on using what it was given after the call
//! returned. Whoever posts promises:
//!
//! 1. **Memory.** A [`Source`] is readable, a [`Sink`] writable for its length, and covered by a
//!    region of *this endpoint's domain* whose [`Desc`] is given, where the provider's
//!    [`mr_mode`](crate::Info::mr_mode) has LOCAL (or HMEM, for device memory). It stays so, and the
//!    bytes of a source unchanged and those of a sink unread, from the call until the completion
//!    with the same context was read, or the endpoint closed. Injecting posts need it only during
//!    the call.
//! 2. **Context.** It points to a [`Context2`](crate::Context2) that does not move and serves no other operation
//!    until then.
//! 3. **Peer.** The [`PeerAddr`] came from the [`Av`](crate::Av) bound to this endpoint and was not
//!    removed; for receives it may be [`PeerAddr::ANY`].
//! 4. **Target.** Address and key of an RMA operation were given out by the peer, for memory that
//!    still is open to this use for the whole length. What a wrong one does differs by provider: an
//!    error, silence, a reported success; shm up to 1.22 checks nothing and writes *anywhere* in the
//!    peer, which may be this process.
//! 5. **Room.** Injected lengths are at most [`Info::inject_size`](crate::Info::inject_size) (EFA
//!    allows less for writes: [`SizeOption::InjectRmaSize`](crate::SizeOption::InjectRmaSize)).
//!
//! If the answer is [`Posted::Busy`](crate::Posted::Busy) or an error, nothing was taken and the promise is over.
//!
//! A write of zero bytes needs a good address, key and descriptor all the same: with zeros some
//! providers drop the connection, and one wedges.

use ofi_sys::ops;

use crate::av::PeerAddr;
use crate::mr::Desc;

mod msg;
mod rma;
mod tagged;

pub use tagged::TagMatch;

/// Local memory to send from.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// Where it starts.
    pub ptr: *const u8,
    /// Bytes.
    pub len: usize,
    /// Descriptor of its region.
    pub desc: Desc,
}

/// Local memory to receive into.
#[derive(Clone, Copy, Debug)]
pub struct Sink {
    /// Where it starts.
    pub ptr: *mut u8,
    /// Bytes.
    pub len: usize,
    /// Descriptor of its region.
    pub desc: Desc,
}

/// Memory of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Whose.
    pub peer: PeerAddr,
    /// Virtual address in the peer, or offset in its region
    /// ([`Info::uses_virtual_addresses`](crate::Info::uses_virtual_addresses)).
    pub addr: u64,
    /// The region's key.
    pub key: u64,
}

impl Target {
    #[inline]
    const fn raw(self) -> ops::RmaTarget {
        ops::RmaTarget {
            peer: self.peer.as_raw(),
            addr: self.addr,
            key: self.key,
        }
    }
}
