//! The domains of a transport, by the number that words name them by (decision 29).
//!
//! ```text
//! word {kind, domain, slot, generation} -> seats[domain] -> Domain -> table of that kind[slot]
//! ```
//!
//! A device has one domain, or several (one a thread, one a communicator of a peer); the numbers
//! are the transport's. A seat is taken once and kept to the end of the transport, so looking one up
//! is one load and no count: what is given up by its user (a thread that ended) is handed to the
//! next one instead of being closed (see [`crate::device`]).

use crate::domain::Domain;
use crate::error::{Code, NetError};
use crate::handle_state::random_u64;
use crate::handle_words::{CommWord, DOMAINS_MAX, MrWord, Parts, ReqWord};
use ofi_pools::Key;
use ofi_rdma::{CommKey, ReqKey};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Longest that each domain may take at the end when there are very many, milliseconds.
const CLOSE_SHARE_MIN_MS: u64 = 20;

/// A domain with its number.
#[derive(Debug)]
pub(crate) struct Seat {
    number: usize,
    /// On the generations in words, so that words of an earlier instance are stale in this one.
    salt: u32,
    /// Index of its device.
    pub(crate) device: usize,
    /// What speaks the protocol.
    pub(crate) domain: Domain,
}

impl Seat {
    /// Number of the domain in the transport.
    pub(crate) const fn number(&self) -> usize {
        self.number
    }

    /// The key of a word's slot in the tables of this domain.
    #[inline]
    pub(crate) const fn key(&self, parts: Parts) -> Key {
        Key::new(parts.slot, parts.salted ^ self.salt)
    }

    /// The word of a communicator.
    ///
    /// # Errors
    /// More communicators than a word can name.
    pub(crate) fn comm_word(&self, comm: CommKey) -> Result<CommWord, NetError> {
        CommWord::pack(self.parts(comm.index(), comm.generation())).ok_or_else(no_room)
    }

    /// The word of a request.
    ///
    /// # Errors
    /// More requests than a word can name.
    #[inline]
    pub(crate) fn request_word(&self, request: ReqKey) -> Result<ReqWord, NetError> {
        ReqWord::pack(self.parts(request.index(), request.generation())).ok_or_else(no_room)
    }

    /// The word of a region.
    ///
    /// # Errors
    /// More regions than a word can name.
    pub(crate) fn region_word(&self, region: Key) -> Result<MrWord, NetError> {
        MrWord::pack(self.parts(region.index(), region.generation())).ok_or_else(no_room)
    }

    const fn parts(&self, slot: u32, generation: u32) -> Parts {
        Parts {
            domain: self.number,
            slot,
            salted: generation ^ self.salt,
        }
    }
}

/// All domains of a transport.
#[derive(Debug)]
pub(crate) struct Registry {
    seats: Box<[OnceLock<Seat>]>,
    /// How many seats are taken; held while one is.
    taken: Mutex<usize>,
}

impl Registry {
    /// No domains.
    pub(crate) fn new() -> Self {
        Self::with_room(DOMAINS_MAX)
    }

    /// Nothing, with room for nothing: allocates nothing.
    pub(crate) fn empty() -> Self {
        Self::with_room(0)
    }

    fn with_room(seats: usize) -> Self {
        Self {
            seats: (0..seats).map(|_| OnceLock::new()).collect(),
            taken: Mutex::new(0),
        }
    }

    /// The domain of that number, if there is one.
    #[inline]
    pub(crate) fn get(&self, number: usize) -> Option<&Seat> {
        self.seats.get(number)?.get()
    }

    /// The domains one after the other, as `turn` counts up: all of them, over and over.
    pub(crate) fn in_turn(&self, turn: usize) -> Option<&Seat> {
        let taken = *self.taken();
        self.get(turn.checked_rem(taken)?)
    }

    /// Gives the domain that `open` makes for `device` a number.
    ///
    /// # Errors
    /// No number is left: nothing is opened then; what `open` says.
    pub(crate) fn add(
        &self,
        device: usize,
        open: impl FnOnce() -> Result<Domain, NetError>,
    ) -> Result<&Seat, NetError> {
        let full = || full(self.seats.len());
        if *self.taken() >= self.seats.len() {
            return Err(full());
        }
        // Not under the lock: devices that are opened by different threads open at the same time.
        let domain = open()?;
        let mut taken = self.taken();
        let number = *taken;
        let Some(place) = self.seats.get(number) else {
            domain.shut_down(0);
            return Err(full());
        };
        *taken += 1;
        let [a, b, c, d, ..] = random_u64().to_le_bytes();
        Ok(place.get_or_init(|| Seat {
            number,
            salt: u32::from_le_bytes([a, b, c, d]),
            device,
            domain,
        }))
    }

    fn taken(&self) -> MutexGuard<'_, usize> {
        // A panic inside leaves the count right.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The domains there are, in the order of their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Seat> {
        self.seats.iter().map_while(OnceLock::get)
    }

    /// Closes all domains, each in its own order; all together within the bound, or within a short
    /// time each where there are very many.
    pub(crate) fn close(self, bound_ms: u64) {
        let seats: Vec<Seat> = (self.seats.into_iter())
            .filter_map(OnceLock::into_inner)
            .collect();
        let share = bound_ms / seats.len().max(1) as u64;
        for seat in seats {
            seat.domain.shut_down(share.max(CLOSE_SHARE_MIN_MS));
        }
    }
}

#[cold]
fn full(seats: usize) -> NetError {
    let what = format!("{seats} domains are open in this process, and there is room for no more");
    NetError::new(Code::OutOfDomains, what)
}

#[cold]
fn no_room() -> NetError {
    NetError::new(
        Code::OutOfIds,
        "more than 4194304 objects of one kind on a device",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_table_opens_nothing_and_says_so() {
        let registry = Registry::with_room(0);
        let opened = registry.add(0, || unreachable!("opened without a seat for it"));
        assert_eq!(opened.unwrap_err().code(), Code::OutOfDomains);
        assert_eq!(registry.iter().count(), 0);
    }

    #[test]
    fn a_domain_that_does_not_open_takes_no_seat() {
        let registry = Registry::with_room(1);
        for _ in 0..3 {
            let failed = registry.add(0, || Err(NetError::new(Code::DeviceOpen, "on purpose")));
            assert_eq!(failed.unwrap_err().code(), Code::DeviceOpen);
        }
        assert!(registry.get(0).is_none() && registry.get(9).is_none());
    }
}
