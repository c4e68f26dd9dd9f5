//! Registered memory: keys of 4 bytes that name a slot and its generation, so that a key that was
//! closed never names another region (until the generations of a slot have gone round).

use core::slice::from_ref;
use core::sync::atomic::Ordering;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use super::hazard;
use super::layout::{REGION_BITS, REGIONS, Segment};
use super::room::reserve;

/// Marks a slot that has a region: key 0 is a key like any other.
pub(crate) const LIVE: u64 = 1 << 32;

/// What a region is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spec {
    /// Where its bytes are for NICs.
    pub(crate) base: u64,
    pub(crate) len: u64,
    /// From the addresses by which they are named to there, wrapping; 0 but for device memory.
    pub(crate) shift: u64,
    /// Bits of fi_mr(3).
    pub(crate) access: u64,
    pub(crate) domain: u32,
    /// Remote uses after which the key is bad.
    pub(crate) revoke_after: Option<u32>,
}

/// Which use of a region an operation makes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Use {
    pub(crate) addr: u64,
    pub(crate) len: u64,
    /// One bit of it must be allowed.
    pub(crate) access: u64,
    pub(crate) domain: u32,
    /// By a peer, for the first time of its operation: counts against `revoke_after`.
    pub(crate) counts: bool,
}

/// Slots that are free, least recently used first.
#[derive(Debug)]
pub(crate) struct Keys {
    free: Mutex<Free>,
}

#[derive(Debug)]
struct Free {
    /// Closed slots with their generation, in the order of closing.
    used: VecDeque<(u32, u32)>,
    /// First slot that was never used.
    fresh: u32,
    /// Generation of fresh slots: a key of one process is seldom one of another.
    first_generation: u32,
}

const GENERATIONS: u32 = 1 << (32 - REGION_BITS);
/// Closed slots rest until so many others did.
const REST: usize = 64;

impl Keys {
    pub(crate) fn new(random: u64) -> Self {
        let first = u32::try_from(random % u64::from(GENERATIONS)).unwrap_or(0);
        Self {
            free: Mutex::new(Free {
                used: VecDeque::new(),
                fresh: 0,
                first_generation: first,
            }),
        }
    }

    /// Gives a region its key, and shows it to peers. `None` if there are too many, or no room.
    pub(crate) fn register(&self, segment: &Segment, spec: &Spec) -> Option<u32> {
        let (slot, generation) = self.take()?;
        let region = segment.regions.get(index(slot))?;
        if reserve(from_ref(region)).is_err() {
            self.give_back(slot, generation);
            return None;
        }
        region.base.store(spec.base, Ordering::Relaxed);
        region.len.store(spec.len, Ordering::Relaxed);
        region.shift.store(spec.shift, Ordering::Relaxed);
        let access = u32::try_from(spec.access & 0xffff_ffff).unwrap_or(0);
        region.access.store(access, Ordering::Relaxed);
        region.domain.store(spec.domain, Ordering::Relaxed);
        let uses = spec.revoke_after.map_or(0, |uses| u64::from(uses) + 1);
        region.uses_left.store(uses, Ordering::Relaxed);
        let key = (generation << REGION_BITS) | slot;
        region.key.store(LIVE | u64::from(key), Ordering::SeqCst);
        Some(key)
    }

    /// Takes a region back, and waits for the operations that are using it.
    pub(crate) fn close(&self, segment: &Segment, key: u32) {
        let slot = key & (u32::try_from(REGIONS).unwrap_or(0) - 1);
        let Some(region) = segment.regions.get(index(slot)) else {
            return;
        };
        region.key.store(0, Ordering::SeqCst);
        hazard::wait(segment, key);
        self.give_back(slot, key >> REGION_BITS);
    }

    fn give_back(&self, slot: u32, generation: u32) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.used.push_back((slot, generation));
    }

    fn take(&self) -> Option<(u32, u32)> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = index(free.fresh) == REGIONS;
        if free.used.len() > REST || is_full {
            let (slot, generation) = free.used.pop_front()?;
            return Some((slot, (generation + 1) % GENERATIONS));
        }
        free.fresh += 1;
        Some((free.fresh - 1, free.first_generation))
    }
}

fn index(slot: u32) -> usize {
    usize::try_from(slot).unwrap_or(usize::MAX)
}

/// Where the byte that a peer names by an address and a key is for NICs. Whether the key is good is for
/// [`allows`] to say, of the address that this gives.
pub(crate) fn reached(segment: &Segment, key: u64, addr: u64) -> u64 {
    let slot = key & (REGIONS as u64 - 1);
    let region = usize::try_from(slot)
        .ok()
        .and_then(|slot| segment.regions.get(slot));
    let shift = region.map_or(0, |region| region.shift.load(Ordering::Relaxed));
    addr.wrapping_add(shift)
}

/// Whether a key allows a use. Who asks must have announced the use ([`hazard::announce`]).
pub(crate) fn allows(segment: &Segment, key: u64, wanted: &Use) -> bool {
    let Ok(short) = u32::try_from(key) else {
        return false;
    };
    let slot = index(short & (u32::try_from(REGIONS).unwrap_or(0) - 1));
    let Some(region) = segment.regions.get(slot) else {
        return false;
    };
    if region.key.load(Ordering::SeqCst) != LIVE | key {
        return false;
    }
    let base = region.base.load(Ordering::Relaxed);
    let len = region.len.load(Ordering::Relaxed);
    let inside = wanted
        .addr
        .checked_sub(base)
        .and_then(|offset| offset.checked_add(wanted.len))
        .is_some_and(|end| end <= len);
    let allowed = u64::from(region.access.load(Ordering::Relaxed)) & wanted.access != 0;
    let ours = region.domain.load(Ordering::Relaxed) == wanted.domain;
    inside && allowed && ours && (!wanted.counts || has_uses_left(&region.uses_left))
}

fn has_uses_left(uses_left: &core::sync::atomic::AtomicU64) -> bool {
    let spent = uses_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| match left {
        0 | 1 => None,
        more => Some(more - 1),
    });
    spent.is_ok() || spent == Err(0)
}
