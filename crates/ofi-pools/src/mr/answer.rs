//! What the cache answers with: handles, tickets, and what was wrong with them.

use crate::key::Key;
use crate::mr::request::Request;
use core::fmt;

/// A region held in the cache. Copyable: the references are counted by `lookup`, `retain` and
/// `release`, not by copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle {
    pub(super) key: Key,
}

impl Handle {
    /// The handle as one word; never 0 or 1.
    #[must_use]
    pub const fn to_bits(self) -> u64 {
        self.key.to_bits()
    }

    /// The inverse of [`Handle::to_bits`]; a word that is no handle is refused where it is used.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self {
            key: Key::from_bits(bits),
        }
    }

    /// The slot of the region with its generation; the index is dense, fit for a side table.
    #[must_use]
    pub const fn key(self) -> Key {
        self.key
    }
}

/// The answer to a request.
#[derive(Debug)]
#[must_use = "a hit holds a reference, and a miss must be completed or failed"]
pub enum Lookup {
    /// A region covers the request; the caller now holds one reference to it.
    Hit(Handle),
    /// Someone is registering a region that will cover the request. Ask again after they are done:
    /// it is then a hit, or a miss if they failed.
    Busy,
    /// Nobody is: the caller registers, and says how it went.
    Miss(Ticket),
}

/// The duty to register one range, and to say how it went, to the cache that gave it.
#[derive(Debug)]
#[must_use = "until it is completed or failed, everyone else waits for this range"]
pub struct Ticket {
    pub(super) serial: u64,
    pub(super) request: Request,
}

impl Ticket {
    /// What to register: the range asked for, rounded out to whole pages. The entry covers exactly
    /// this, so register no less.
    #[must_use]
    pub const fn request(&self) -> &Request {
        &self.request
    }
}

/// What became of a released reference.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the last reference hands out the region, to be closed"]
pub enum Released<R> {
    /// Others hold the region still.
    Held {
        /// How many references are left.
        references: u32,
    },
    /// This was the last; the region left the cache and is the caller's to close.
    Last(R),
}

/// The handle finds no region: it was released before, or is of another cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaleHandle {
    /// The handle given.
    pub handle: Handle,
}

impl fmt::Display for StaleHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "memory handle {} (generation {}) is not registered: it was deregistered before, or \
             belongs to another device",
            self.handle.key.index(),
            self.handle.key.generation()
        )
    }
}

impl core::error::Error for StaleHandle {}

/// The ticket is not of this cache, or the cache can hold no more; the region comes back, to be
/// closed.
pub struct StaleTicket<R> {
    /// The region that was registered for nothing.
    pub region: R,
}

impl<R> fmt::Debug for StaleTicket<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StaleTicket").finish_non_exhaustive()
    }
}

impl<R> fmt::Display for StaleTicket<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the registration is not one that this cache asked for: close the region")
    }
}

impl<R> core::error::Error for StaleTicket<R> {}
