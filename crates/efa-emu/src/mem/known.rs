//! Which addresses the address vectors of a process have: a set in shared memory, because on
//! efa-direct the *target* must know the initiator (providers.md 6), and the initiator does the work.

use core::sync::atomic::Ordering;

use super::layout::{KNOWN, Segment};

const EMPTY: u64 = 0;
const REMOVED: u64 = 1;

/// An address in a vector, as one word; two that collide in 62 bits are taken for one.
fn word(vector: u32, address: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64 ^ u64::from(vector);
    for byte in address {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        hash ^= hash >> 29;
    }
    hash | 2
}

/// The places where a word may be, in order.
fn places(word: u64) -> impl Iterator<Item = usize> {
    let start = usize::try_from(word >> 20).unwrap_or(0);
    (0..KNOWN).map(move |i| start.wrapping_add(i) % KNOWN)
}

/// Whether a vector has an address.
pub(crate) fn has(segment: &Segment, vector: u32, address: &[u8]) -> bool {
    let wanted = word(vector, address);
    for place in places(wanted) {
        match segment.known.get(place).map(|w| w.load(Ordering::Acquire)) {
            Some(found) if found == wanted => return true,
            None | Some(EMPTY) => return false,
            Some(_) => {}
        }
    }
    false
}

/// Adds an address that the vector does not have. `false` if there is no room. The owner only, one
/// thread at a time.
pub(crate) fn add(segment: &Segment, vector: u32, address: &[u8]) -> bool {
    let wanted = word(vector, address);
    for place in places(wanted) {
        let Some(slot) = segment.known.get(place) else {
            return false;
        };
        if matches!(slot.load(Ordering::Relaxed), EMPTY | REMOVED) {
            slot.store(wanted, Ordering::Release);
            return true;
        }
    }
    false
}

/// Removes an address. The owner only, one thread at a time.
pub(crate) fn remove(segment: &Segment, vector: u32, address: &[u8]) {
    let wanted = word(vector, address);
    for place in places(wanted) {
        let Some(slot) = segment.known.get(place) else {
            return;
        };
        match slot.load(Ordering::Relaxed) {
            EMPTY => return,
            found if found == wanted => return slot.store(REMOVED, Ordering::Release),
            _ => {}
        }
    }
}
