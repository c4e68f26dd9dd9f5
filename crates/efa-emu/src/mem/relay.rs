//! Moving bytes where the system permits no direct copy: through shared memory, with the help of the
//! memory's owner, whose polls (or device thread) serve what was asked.

use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, Ordering};

use super::copy::{Direction, Piece, Side, transfer};
use super::hazard;
use super::layout::{RELAY_BYTES, RELAYS, RELAYS_A_PEER, Relay, Segment};
use super::presence::{is_at_work, is_there};
use super::receives::{Queue, is_claimed_by};
use super::regions::{LIVE, Use, allows};
use super::room;

/// Stages of a relay.
mod stage {
    pub(super) const IDLE: u32 = 0;
    /// The bytes are here, and belong into the owner's memory.
    pub(super) const PUT: u32 = 1;
    /// Bytes of the owner's memory are wanted.
    pub(super) const GET: u32 = 2;
    /// Done.
    pub(super) const DONE: u32 = 3;
    /// The memory is not there any more.
    pub(super) const REFUSED: u32 = 4;
    /// Nobody waits for it any more: the owner releases it.
    pub(super) const ABANDONED: u32 = 5;
}

/// By what right a peer uses memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Right {
    /// The key of a region.
    Key(u64),
    /// A claimed receive: endpoint, queue, place.
    Receive(usize, Queue, u64),
}

/// How far a copy through a relay is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Under {
    /// Slot in use, and the bytes in it.
    slot: Option<(usize, u64)>,
    moved: u64,
}

/// What came of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Done,
    Wait,
    Refused,
}

/// What a copy is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copy<'a> {
    pub(crate) direction: Direction,
    pub(crate) local: &'a [Piece],
    pub(crate) remote: &'a [Piece],
    pub(crate) len: u64,
    pub(crate) right: Right,
}

/// Takes a copy as far as it goes now.
///
/// # Safety
/// The local pieces are memory that may be read (out) or written (in) now.
pub(crate) unsafe fn step(segment: &Segment, own: u32, under: &mut Under, copy: &Copy<'_>) -> Step {
    if let Some((slot, bytes)) = under.slot {
        let relay = &segment.relays[slot];
        match relay.stage.load(Ordering::Acquire) {
            stage::DONE => {}
            stage::REFUSED => {
                release(relay);
                under.slot = None;
                return Step::Refused;
            }
            _ => return Step::Wait,
        }
        if copy.direction == Direction::In {
            let local = sub(copy.local, under.moved, bytes);
            // SAFETY: the caller's promise; the slot is ours until released.
            if !unsafe { move_bytes(relay, Direction::In, &local, bytes) } {
                release(relay);
                under.slot = None;
                return Step::Refused;
            }
        }
        under.moved += bytes;
        under.slot = None;
        release(relay);
    }
    if under.moved == copy.len {
        return Step::Done;
    }
    // SAFETY: the caller's promise.
    unsafe { ask(segment, own, under, copy) }
}

/// Asks for the next bytes, if a slot is free. Refused where those to be sent are not there.
///
/// # Safety
/// As [`step`].
unsafe fn ask(segment: &Segment, own: u32, under: &mut Under, copy: &Copy<'_>) -> Step {
    let room = RELAY_BYTES as u64;
    // One piece of the owner's at a time.
    let rest = sub(copy.remote, under.moved, copy.len - under.moved);
    let Some((addr, len)) = rest.first().copied() else {
        return Step::Wait;
    };
    let bytes = len.min(room);
    let free = |relay: &&Relay| {
        relay
            .user
            .compare_exchange(0, own, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    };
    let ready = || room::ready(&segment.relays, &segment.relays_ready);
    let is_own = |relay: &&Relay| relay.user.load(Ordering::Relaxed) == own;
    if ready().iter().filter(is_own).count() >= RELAYS_A_PEER {
        return Step::Wait;
    }
    let Some((slot, relay)) = ready().iter().enumerate().find(|(_, r)| free(r)) else {
        // There may be one the next time.
        if !room::one_more(&segment.relays, &segment.relays_ready) && ready().len() == RELAYS {
            tell_of_the_stopped(segment);
        }
        return Step::Wait;
    };
    relay.addr.store(addr, Ordering::Relaxed);
    relay.len.store(bytes, Ordering::Relaxed);
    let (key, receive) = match copy.right {
        Right::Key(key) => (LIVE | key, 0),
        Right::Receive(endpoint, queue, index) => (0, pack(endpoint, queue, index)),
    };
    relay.key.store(key, Ordering::Relaxed);
    relay.receive.store(receive, Ordering::Relaxed);
    let stage = match copy.direction {
        Direction::Out => {
            let local = sub(copy.local, under.moved, bytes);
            // SAFETY: the caller's promise; the slot is ours.
            if !unsafe { move_bytes(relay, Direction::Out, &local, bytes) } {
                release(relay);
                return Step::Refused;
            }
            stage::PUT
        }
        Direction::In => stage::GET,
    };
    relay.stage.store(stage, Ordering::Release);
    segment.asked.store(1, Ordering::Release);
    under.slot = Some((slot, bytes));
    Step::Wait
}

/// Says once that copies wait for processes that are stopped, if that is what they have waited for so often.
#[expect(
    clippy::print_stderr,
    reason = "a provider has no other way to say what is to be done"
)]
fn tell_of_the_stopped(segment: &Segment) {
    /// Before it is worth a look.
    const OFTEN: u32 = 10_000;
    static WAITED: AtomicU32 = AtomicU32::new(0);
    if WAITED.fetch_add(1, Ordering::Relaxed) + 1 != OFTEN {
        return;
    }
    let users = segment
        .relays
        .iter()
        .map(|relay| relay.user.load(Ordering::Relaxed));
    let stopped = users
        .filter(|user| is_there(*user) && !is_at_work(*user))
        .count();
    if stopped > 0 {
        let owner = segment.pid.load(Ordering::Relaxed);
        eprintln!(
            "efa-emu: {stopped} of the {RELAYS} copies that can be under way through the shared memory of process \
             {owner} are those of processes that are stopped; others wait\n  try: let them go on (SIGCONT), or \
             end them"
        );
    }
}

/// Gives up a copy whose operation is over.
pub(crate) fn abandon(segment: &Segment, under: &mut Under) {
    let Some((slot, _)) = under.slot.take() else {
        return;
    };
    let relay = &segment.relays[slot];
    // The owner may be at it just now: then it is the owner who releases it.
    let asked = relay.stage.load(Ordering::Acquire);
    let is_asked = matches!(asked, stage::PUT | stage::GET);
    let left = is_asked
        && relay
            .stage
            .compare_exchange(
                asked,
                stage::ABANDONED,
                Ordering::Relaxed,
                Ordering::Relaxed,
            )
            .is_ok();
    if left {
        segment.asked.store(1, Ordering::Release);
    } else {
        release(relay);
    }
}

fn release(relay: &Relay) {
    relay.stage.store(stage::IDLE, Ordering::Relaxed);
    relay.user.store(0, Ordering::Release);
}

fn pack(endpoint: usize, queue: Queue, index: u64) -> u64 {
    let tagged = u64::from(queue == Queue::Tagged);
    (index << 16) | (tagged << 15) | endpoint as u64
}

fn unpack(packed: u64) -> (usize, Queue, u64) {
    let queue = match packed >> 15 & 1 {
        0 => Queue::Untagged,
        _ => Queue::Tagged,
    };
    let endpoint = usize::try_from(packed & 0x7fff).unwrap_or(0);
    (endpoint, queue, packed >> 16)
}

/// `len` bytes of a list, from `skip` on.
fn sub(list: &[Piece], mut skip: u64, mut len: u64) -> Vec<Piece> {
    let mut result = Vec::new();
    for (addr, size) in list {
        let behind = skip.min(*size);
        skip -= behind;
        let take = (size - behind).min(len);
        if take > 0 {
            result.push((addr.wrapping_add(behind), take));
            len -= take;
        }
    }
    result
}

/// Whether the memory was there.
///
/// # Safety
/// The pieces are memory of this process that may be read (out) or written (in) now, and the slot is
/// the caller's.
unsafe fn move_bytes(relay: &Relay, direction: Direction, local: &[Piece], len: u64) -> bool {
    let area: *const c_void = relay.bytes.as_ptr().cast();
    let area = [(area.expose_provenance() as u64, len)];
    // SAFETY: the caller's promise; the area is mapped, and longer than any request.
    unsafe { transfer(Side::Own, direction, (local, &area), len) }.is_ok()
}

/// The owner's part: serves what peers asked for. One thread at a time.
pub(crate) fn serve(segment: &Segment, own: u32) {
    if segment.asked.load(Ordering::Relaxed) == 0 {
        return;
    }
    segment.asked.swap(0, Ordering::AcqRel);
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
        let slot = short & ((1 << super::layout::REGION_BITS) - 1);
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
    unsafe { move_bytes(relay, direction, &[(addr, len)], len) }
}

#[cfg(test)]
mod tests {
    use super::super::mapping;
    use super::*;

    /// Peers that are stopped with theirs leave others theirs: of as many peers as there may be.
    #[test]
    fn no_peer_has_all_slots() {
        let dir = tempfile::tempdir().expect("a directory");
        let (_, _, segment) = mapping::create(dir.path(), std::process::id()).expect("a segment");
        let copy = Copy {
            direction: Direction::In,
            local: &[],
            remote: &[(1 << 20, 8)],
            len: 8,
            right: Right::Key(1),
        };
        let asks = |user| {
            let mut all = vec![Under::default(); 4 * RELAYS_A_PEER];
            for under in &mut all {
                // SAFETY: nothing is served, so no bytes are moved.
                let step = unsafe { step(&segment, user, under, &copy) };
                assert_eq!(step, Step::Wait);
            }
            all.iter().filter(|under| under.slot.is_some()).count()
        };
        let peers = u32::try_from(RELAYS / RELAYS_A_PEER).expect("a number");
        assert_eq!(peers, 64, "more ranks than a machine has");
        assert!((1..=peers).all(|user| asks(user) == RELAYS_A_PEER));
        assert_eq!(asks(peers + 1), 0);
    }

    #[test]
    fn rights_survive_packing() {
        for queue in [Queue::Untagged, Queue::Tagged] {
            assert_eq!(unpack(pack(1023, queue, 1 << 40)), (1023, queue, 1 << 40));
        }
    }

    #[test]
    fn parts_of_lists() {
        let list = [(100, 10), (200, 0), (300, 5)];
        assert_eq!(sub(&list, 0, 15), [(100, 10), (300, 5)]);
        assert_eq!(sub(&list, 4, 8), [(104, 6), (300, 2)]);
        assert_eq!(sub(&list, 10, 1), [(300, 1)]);
        assert_eq!(sub(&list, 15, 1), []);
    }
}
