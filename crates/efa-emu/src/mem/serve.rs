//! The owner's part of copies through shared memory ([`super::relay`]): puts bytes where they belong, or
//! fetches them from there, after another look at the right to use that memory.

use core::sync::atomic::Ordering;

use super::copy::Direction;
use super::hazard;
use super::layout::{REGION_BITS, RELAY_BYTES, Relay, Segment};
use super::presence::is_there;
use super::receives::is_claimed_by;
use super::regions::{LIVE, Use, allows};
use super::relay::{move_bytes, release, stage, unpack};
use super::room;

/// Serves what peers asked for. One thread at a time. Whether it was anything.
pub(crate) fn serve(segment: &Segment, own: u32) -> bool {
    if segment.asked.load(Ordering::Relaxed) == 0 {
        return false;
    }
    segment.asked.swap(0, Ordering::AcqRel);
    let mut any = false;
    for relay in room::ready(&segment.relays, &segment.relays_ready) {
        let user = relay.user.load(Ordering::Relaxed);
        if user == 0 {
            continue;
        }
        let asked = relay.stage.load(Ordering::Acquire);
        if !matches!(asked, stage::PUT | stage::GET) {
            if asked == stage::ABANDONED || !is_there(user) {
                release(relay);
            }
            continue;
        }
        any = true;
        let served = serve_one(segment, own, relay, asked);
        let answer = if served { stage::DONE } else { stage::REFUSED };
        // Somebody who gave up meanwhile left the slot to us.
        let told =
            relay
                .stage
                .compare_exchange(asked, answer, Ordering::Release, Ordering::Relaxed);
        if told.is_err() {
            release(relay);
        }
    }
    any
}

/// The owner looks by itself: nobody has to wake its thread.
pub(crate) fn look(segment: &Segment) {
    if segment.relays_ready.load(Ordering::Relaxed) > 0 {
        segment.looks.fetch_add(1, Ordering::Relaxed);
    }
}

fn serve_one(segment: &Segment, own: u32, relay: &Relay, asked: u32) -> bool {
    let (addr, len) = (
        relay.addr.load(Ordering::Relaxed),
        relay.len.load(Ordering::Relaxed),
    );
    if len > RELAY_BYTES as u64 {
        return false;
    }
    let direction = if asked == stage::PUT {
        Direction::In
    } else {
        Direction::Out
    };
    let key = relay.key.load(Ordering::Relaxed);
    let _in_use;
    if key == 0 {
        let (endpoint, queue, index) = unpack(relay.receive.load(Ordering::Relaxed));
        let user = relay.user.load(Ordering::Relaxed);
        let Some(endpoint) = segment.endpoints.get(endpoint) else {
            return false;
        };
        if !is_claimed_by(endpoint, queue, index, user) {
            return false;
        }
    } else {
        let key = key & !LIVE;
        let short = u32::try_from(key).unwrap_or(0);
        let Some(announced) = hazard::announce(segment, own, short) else {
            return false;
        };
        _in_use = announced;
        let slot = short & ((1 << REGION_BITS) - 1);
        let domain = usize::try_from(slot)
            .ok()
            .and_then(|s| segment.regions.get(s));
        let wanted = Use {
            addr,
            len,
            access: u64::MAX,
            domain: domain.map_or(0, |region| region.domain.load(Ordering::Relaxed)),
            counts: false,
        };
        if !allows(segment, key, &wanted) {
            return false;
        }
    }
    // SAFETY: memory of a region that is announced and whose key is good, or of a receive that is
    // posted and not over: registered memory exists (fi_mr(3), FI_MR_ALLOCATED).
    unsafe { move_bytes(relay, direction, &[(addr, len)], len) }.is_ok()
}
