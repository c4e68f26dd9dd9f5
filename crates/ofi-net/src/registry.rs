//! The domains of a transport, by the number that words name them by (decision 29).
//!
//! ```text
//! word {kind, domain, slot, generation} -> seats[domain] -> Domain -> table of that kind[slot]
//! ```
//!
//! A device has one domain, or several (one a thread, one a communicator of a peer); the numbers
//! are the transport's. A seat is taken once and kept to the end of the transport, so looking one up
//! is one load and no count: what is given up by its user (a thread that ended) is handed to the
//! next one instead of being closed (see [`crate::owners`]).
//!
//! All domains of a transport speak one protocol; which, is the type of what sits here.

use crate::dump;
use crate::error::{Code, NetError};
use crate::handle_state::random_u64;
use crate::handle_words::{CommWord, DOMAINS_MAX, MrWord, Parts, ReqWord};
use crate::watch::{Watch, flag};
use core::sync::atomic::{AtomicUsize, Ordering};
use ofi_pools::Key;
use ofi_rdma::{CommKey, ReqKey};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Longest that each domain may take at the end when there are very many, milliseconds.
const CLOSE_SHARE_MIN_MS: u64 = 20;

/// What takes a seat: a domain of one protocol or the other.
pub(crate) trait Seated {
    /// Whether it works and no communicator is open on it.
    fn is_unused(&self) -> bool;

    /// Makes a progress pass, unless it is busy or out of order: it says so to those who have something
    /// on it.
    fn glance_at(&self);

    /// What there is to say of it in a dump.
    fn state(&self) -> dump::Domain;

    /// Ends it, within a bound.
    fn shut_down(self, bound_ms: u64);
}

/// A domain with its number.
#[derive(Debug)]
pub(crate) struct Seat<D> {
    number: usize,
    /// On the generations in words, so that words of an earlier instance are stale in this one.
    salt: u32,
    /// Index of its device.
    pub(crate) device: usize,
    /// What speaks the protocol.
    pub(crate) domain: D,
}

impl<D> Seat<D> {
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

    /// The key of a region, if it is of this domain.
    #[inline]
    pub(crate) fn own_region(&self, word: MrWord) -> Option<Key> {
        let parts = word.parts()?;
        (parts.domain == self.number).then(|| self.key(parts))
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
pub(crate) struct Registry<D> {
    seats: Box<[OnceLock<Seat<D>>]>,
    /// How many seats are taken; held while one is.
    taken: Mutex<usize>,
    /// What a caller that waits has to attend to; nothing where there is room for no domain.
    watch: Option<Arc<Watch>>,
    /// Whose turn it is in [`Registry::nudge`].
    turn: AtomicUsize,
}

impl<D> Registry<D> {
    /// No domains.
    pub(crate) fn new(watch: &Arc<Watch>) -> Self {
        Self::with_room(DOMAINS_MAX, Some(Arc::clone(watch)))
    }

    /// Nothing, with room for nothing: allocates nothing.
    pub(crate) fn empty() -> Self {
        Self::with_room(0, None)
    }

    fn with_room(seats: usize, watch: Option<Arc<Watch>>) -> Self {
        Self {
            seats: (0..seats).map(|_| OnceLock::new()).collect(),
            taken: Mutex::new(0),
            watch,
            turn: AtomicUsize::new(0),
        }
    }

    /// Who is told of stalls and errors.
    pub(crate) fn watch(&self) -> Arc<Watch> {
        self.watch.clone().unwrap_or_default()
    }

    /// From now on, whoever waits for something on one domain makes progress on the others as well: what
    /// one communicator does comes over several, or a thread has communicators on several.
    pub(crate) fn link(&self) {
        if let Some(watch) = &self.watch {
            watch.link();
        }
    }

    /// The domain of that number, if there is one.
    #[inline]
    pub(crate) fn get(&self, number: usize) -> Option<&Seat<D>> {
        self.seats.get(number)?.get()
    }

    /// The domain behind a word, and the key in its tables.
    #[inline]
    fn opened(&self, parts: Option<Parts>) -> Option<(&Seat<D>, Key)> {
        let parts = parts?;
        let seat = self.get(parts.domain)?;
        Some((seat, seat.key(parts)))
    }

    /// The domain of a communicator, and its key there.
    ///
    /// # Errors
    /// A word that names no domain; whether it names a communicator of that domain is seen inside.
    #[inline]
    pub(crate) fn comm(&self, word: CommWord) -> Result<(&Seat<D>, &D, CommKey), NetError> {
        match self.opened(word.parts()) {
            Some((seat, key)) => Ok((seat, &seat.domain, CommKey::from_bits(key.to_bits()))),
            None => Err(stale(Code::StaleComm, "communicator", word.to_bits())),
        }
    }

    /// The domain of a request, and its key there.
    ///
    /// # Errors
    /// As [`Registry::comm`].
    #[inline]
    pub(crate) fn request(&self, word: ReqWord) -> Result<(&D, ReqKey), NetError> {
        match self.opened(word.parts()) {
            Some((seat, key)) => Ok((&seat.domain, ReqKey::from_bits(key.to_bits()))),
            None => Err(stale(Code::StaleRequest, "request", word.to_bits())),
        }
    }

    /// The domain of a region, whichever it is, and its key there.
    pub(crate) fn region(&self, word: MrWord) -> Option<(&Seat<D>, Key)> {
        self.opened(word.parts())
    }

    /// The key of a region that is used with a communicator of `seat`.
    ///
    /// # Errors
    /// It is of another domain, or of none.
    #[inline]
    pub(crate) fn region_key(&self, seat: &Seat<D>, word: MrWord) -> Result<Key, NetError> {
        seat.own_region(word)
            .ok_or_else(|| self.foreign_region(seat, word))
    }

    #[cold]
    pub(crate) fn foreign_region(&self, seat: &Seat<D>, word: MrWord) -> NetError {
        let (bits, device) = (word.to_bits(), seat.device);
        let other = self.opened(word.parts()).map(|(other, _)| other);
        if other.is_some_and(|other| other.device == device) {
            let what = format!(
                "memory handle {bits:#x} is of another domain of device {device}: with a domain a thread \
                 or an endpoint a communicator, a buffer is registered with the communicator that it is \
                 used with (regIsGlobal is 0)"
            );
            return NetError::new(Code::StaleRegion, what);
        }
        stale(Code::StaleRegion, "memory handle", bits)
    }

    fn taken(&self) -> MutexGuard<'_, usize> {
        // A panic inside leaves the count right.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The domains there are, in the order of their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Seat<D>> {
        self.seats.iter().map_while(OnceLock::get)
    }

    /// The domains of a device.
    pub(crate) fn of_device(&self, device: usize) -> impl Iterator<Item = &Seat<D>> {
        self.iter().filter(move |seat| seat.device == device)
    }
}

impl<D: Seated> Seat<D> {
    fn state(&self) -> dump::Domain {
        dump::Domain {
            device: self.device,
            ..self.domain.state()
        }
    }
}

impl<D: Seated> Registry<D> {
    /// What every call comes to that has nothing to return, or an error: progress on one of the domains,
    /// another one at each call, where they are linked; dumps, where they are due.
    #[inline]
    pub(crate) fn nudge(&self) {
        let flags = self.watch.as_ref().map_or(0, |watch| watch.flags());
        if flags != 0 {
            self.attend(flags);
        }
    }

    /// What a call has come to. If that is an error, what is due is done now: it may be the last call that this
    /// process makes, and the dump of its first error is to be there.
    #[inline]
    pub(crate) fn told<T>(&self, result: Result<T, NetError>) -> Result<T, NetError> {
        if result.is_err() {
            self.nudge();
        }
        result
    }

    #[cold]
    fn attend(&self, flags: u8) {
        if flags & flag::LINKED != 0 {
            self.nudge_next();
        }
        if let Some(watch) = self.watch.as_ref().filter(|_| flags & !flag::LINKED != 0) {
            let states = || self.iter().map(Seat::state).collect();
            watch.attend(states);
        }
    }

    #[cold]
    fn nudge_next(&self) {
        let (turn, taken) = (self.turn.fetch_add(1, Ordering::Relaxed), *self.taken());
        let number = turn.checked_rem(taken);
        if let Some(seat) = number.and_then(|number| self.get(number)) {
            seat.domain.glance_at();
        }
    }

    /// Gives the domain that `open` makes for `device` a number.
    ///
    /// # Errors
    /// No number is left: nothing is opened then; what `open` says.
    pub(crate) fn add(
        &self,
        device: usize,
        open: impl FnOnce() -> Result<D, NetError>,
    ) -> Result<&Seat<D>, NetError> {
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
        if let Some(watch) = &self.watch {
            watch.opened();
        }
        let [a, b, c, d, ..] = random_u64().to_le_bytes();
        Ok(place.get_or_init(|| Seat {
            number,
            salt: u32::from_le_bytes([a, b, c, d]),
            device,
            domain,
        }))
    }

    /// Closes all domains, each in its own order; all together within the bound, or within a short
    /// time each where there are very many.
    pub(crate) fn close(self, bound_ms: u64) {
        let seats: Vec<Seat<D>> = (self.seats.into_iter())
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

/// A word that names nothing.
#[cold]
pub(crate) fn stale(code: Code, what: &str, word: u64) -> NetError {
    NetError::new(code, format!("{what} {word:#x}"))
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

    /// A domain that there is nothing to say of.
    #[derive(Debug)]
    struct Nothing;

    impl Seated for Nothing {
        fn is_unused(&self) -> bool {
            true
        }

        fn glance_at(&self) {}

        fn state(&self) -> dump::Domain {
            dump::Domain::default()
        }

        fn shut_down(self, _bound_ms: u64) {}
    }

    #[test]
    fn a_full_table_opens_nothing_and_says_so() {
        let registry = Registry::<Nothing>::with_room(0, None);
        let opened = registry.add(0, || unreachable!("opened without a seat for it"));
        assert_eq!(opened.unwrap_err().code(), Code::OutOfDomains);
        assert_eq!(registry.iter().count(), 0);
    }

    #[test]
    fn a_domain_that_does_not_open_takes_no_seat() {
        let registry = Registry::<Nothing>::with_room(1, None);
        for _ in 0..3 {
            let failed = registry.add(0, || Err(NetError::new(Code::DeviceOpen, "on purpose")));
            assert_eq!(failed.unwrap_err().code(), Code::DeviceOpen);
        }
        assert!(registry.get(0).is_none() && registry.get(9).is_none());
    }

    #[test]
    fn a_region_is_of_its_domain_and_a_refusal_says_whose_it_is() {
        let registry = Registry::with_room(3, None);
        let seats = [(0, 4), (1, 4), (2, 5)].map(|(number, device)| {
            let seat = registry.add(device, || Ok(Nothing)).unwrap();
            assert_eq!((seat.number(), seat.device), (number, device));
            seat
        });
        let region = Key::new(7, 3);
        let [own, sibling, other] = seats.map(|seat| seat.region_word(region).unwrap());
        assert_eq!(registry.region_key(seats[0], own), Ok(region));
        let refused = registry.region_key(seats[0], sibling).unwrap_err();
        assert_eq!(refused.code(), Code::StaleRegion);
        assert!(refused.to_string().contains("another domain of device 4"));
        let refused = registry.region_key(seats[0], other).unwrap_err();
        assert_eq!(refused.code(), Code::StaleRegion);
        assert!(!refused.to_string().contains("another domain"));
        assert_eq!(registry.of_device(4).count(), 2);
    }
}
