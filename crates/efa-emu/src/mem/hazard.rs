//! Operations that are using a region now: closing a region waits for them, as deregistration waits
//! for a device.
//!
//! An entry is the user (high) and the key (low). Who uses a region announces it first and
//! looks at the key then; who closes one takes the key away first and looks at the entries then. With
//! both in one total order, one of the two sees the other.

use core::sync::atomic::{AtomicU64, Ordering};

use super::layout::{HAZARDS, Segment};
use super::lock::Patience;
use super::presence::is_at_work;

/// The use ends when this goes.
#[derive(Debug)]
pub(crate) struct Announced<'a> {
    slot: &'a AtomicU64,
    entry: u64,
}

impl Drop for Announced<'_> {
    fn drop(&mut self) {
        // Not by a store: who was stopped may have lost its entry to another.
        let ended =
            (self.slot).compare_exchange(self.entry, 0, Ordering::Release, Ordering::Relaxed);
        let _robbed = ended.is_err();
    }
}

/// Says that an operation is about to use a key of a segment. `None` if too many do.
pub(crate) fn announce(segment: &Segment, own: u32, key: u32) -> Option<Announced<'_>> {
    let entry = (u64::from(own) << 32) | u64::from(key);
    // Start somewhere else for each key: neighbours seldom meet.
    let start = usize::try_from(key.wrapping_mul(0x9e37_79b1) >> 24).unwrap_or(0);
    (0..HAZARDS).find_map(|i| {
        let slot = segment.hazards.get((start + i) % HAZARDS)?;
        slot.compare_exchange(0, entry, Ordering::SeqCst, Ordering::Relaxed)
            .is_ok()
            .then_some(Announced { slot, entry })
    })
}

/// Waits until nobody who lives, and is not stopped, uses a key.
pub(crate) fn wait(segment: &Segment, key: u32) {
    for slot in &segment.hazards {
        let mut patience = Patience::default();
        loop {
            let entry = slot.load(Ordering::SeqCst);
            if entry == 0 || entry & 0xffff_ffff != u64::from(key) {
                break;
            }
            let user = u32::try_from(entry >> 32).unwrap_or(0);
            if patience.wait() && !is_at_work(user) {
                // Gone with its process, or stopped; whoever noticed too has freed the entry.
                let mine = slot.compare_exchange(entry, 0, Ordering::SeqCst, Ordering::Relaxed);
                if mine.is_ok() {
                    break;
                }
            }
        }
    }
}
