//! Moving bytes where the system permits no direct copy: through shared memory, with the help of the
//! memory's owner, whose polls (or device thread) serve what was asked ([`super::serve`]).

use core::cell::Cell;
use core::ffi::c_void;
use core::sync::atomic::{AtomicU32, Ordering};
use std::thread::yield_now;

use super::copy::{Direction, Piece, beside};
use super::layout::{RELAY_BYTES, RELAYS, RELAYS_A_PEER, Relay, Segment};
use super::presence::{is_at_work, is_there};
use super::receives::Queue;
use super::regions::LIVE;
use super::{room, wake};

/// Stages of a relay.
pub(in crate::mem) mod stage {
    pub(in crate::mem) const IDLE: u32 = 0;
    /// The bytes are here, and belong into the owner's memory.
    pub(in crate::mem) const PUT: u32 = 1;
    /// Bytes of the owner's memory are wanted.
    pub(in crate::mem) const GET: u32 = 2;
    /// Done.
    pub(in crate::mem) const DONE: u32 = 3;
    /// The memory is not there any more.
    pub(in crate::mem) const REFUSED: u32 = 4;
    /// Nobody waits for it any more: the owner releases it.
    pub(in crate::mem) const ABANDONED: u32 = 5;
}

/// By what right a peer uses memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Right {
    /// The key of a region.
    Key(u64),
    /// A claimed receive: endpoint, queue, place.
    Receive(usize, Queue, u64),
}

/// Parts of one copy that are under way at one time: one is filled while those before are emptied.
const AHEAD: usize = 4;
/// A peer that has so many parts under way gets no second one for a copy: others of its own wait.
const AHEAD_A_PEER: usize = RELAYS_A_PEER / 2;

/// How far a copy through relays is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Under {
    /// Slots in use, and the bytes in each, in the order of the copy; none behind the first `None`.
    slots: [Option<(usize, u64)>; AHEAD],
    /// Bytes that slots were asked for, and those that are where they belong.
    asked: u64,
    moved: u64,
    urge: Urge,
}

/// When the owner is to be woken.
#[derive(Clone, Copy, Debug, Default)]
struct Urge {
    /// What the owner's count of looks was, and since when, in nanoseconds.
    looks: u32,
    since: u64,
    /// Times that it was woken since.
    times: u32,
}

/// So long an owner may take to look by itself, in nanoseconds; twice as long each time it was woken ..
const LOOKS_NS: u64 = 3_000;
/// .. and after so many times without an answer this thread makes room for it ..
const WAKES: u32 = 2;
/// .. but the time does not double more than so often: it is stopped, or has no processor.
const DOUBLINGS: u32 = 8;

thread_local! {
    static STEPS: Cell<u64> = const { Cell::new(0) };
}

/// Counts what this thread did for copies through relays: while that is something, there is more to come.
pub(crate) fn steps_of_this_thread() -> u64 {
    STEPS.get()
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

/// Takes a copy as far as it goes now, which is a time of the own process in nanoseconds.
///
/// # Safety
/// The local pieces are memory that may be read (out) or written (in) now.
pub(crate) unsafe fn step(
    segment: &Segment,
    (own, now): (u32, u64),
    under: &mut Under,
    copy: &Copy<'_>,
) -> Step {
    // SAFETY: the caller's promise.
    let went = unsafe { harvest(segment, under, copy) }
        // SAFETY: as above.
        .and_then(|()| unsafe { fill(segment, own, under, copy) });
    if went.is_err() {
        abandon(segment, under);
        return Step::Refused;
    }
    if under.moved == copy.len {
        return Step::Done;
    }
    urge(segment, under, now);
    Step::Wait
}

/// There is no such memory, here or there.
pub(super) struct NoMemory;

/// Takes the parts that were served, in their order.
///
/// # Safety
/// As [`step`].
unsafe fn harvest(segment: &Segment, under: &mut Under, copy: &Copy<'_>) -> Result<(), NoMemory> {
    while let Some((slot, bytes)) = under.slots[0] {
        let relay = &segment.relays[slot];
        match relay.stage.load(Ordering::Acquire) {
            stage::DONE => {}
            stage::REFUSED => return Err(NoMemory),
            _ => return Ok(()),
        }
        if copy.direction == Direction::In {
            let local = sub(copy.local, under.moved, bytes);
            // SAFETY: the caller's promise; the slot is ours until released.
            unsafe { move_bytes(relay, Direction::In, &local, bytes) }?;
        }
        release(relay);
        under.slots[0] = None;
        under.slots.rotate_left(1);
        under.moved += bytes;
        under.urge.times = 0;
        STEPS.set(STEPS.get() + 1);
    }
    Ok(())
}

/// Asks for the next parts, as far as there are slots.
///
/// # Safety
/// As [`step`].
unsafe fn fill(
    segment: &Segment,
    own: u32,
    under: &mut Under,
    copy: &Copy<'_>,
) -> Result<(), NoMemory> {
    while under.asked < copy.len {
        let Some(place) = under.slots.iter().position(Option::is_none) else {
            return Ok(());
        };
        let most = if place == 0 {
            RELAYS_A_PEER
        } else {
            AHEAD_A_PEER
        };
        let Some(slot) = free_slot(segment, own, most) else {
            return Ok(());
        };
        // SAFETY: the caller's promise; the slot is ours.
        let asked = unsafe { ask(segment, &segment.relays[slot], under.asked, copy) };
        let bytes = asked.inspect_err(|_| release(&segment.relays[slot]))?;
        under.slots[place] = Some((slot, bytes));
        under.asked += bytes;
        STEPS.set(STEPS.get() + 1);
    }
    Ok(())
}

/// A slot for this process, if it has fewer than so many and one is free.
fn free_slot(segment: &Segment, own: u32, most: usize) -> Option<usize> {
    let ready = room::ready(&segment.relays, &segment.relays_ready);
    let is_own = |relay: &&Relay| relay.user.load(Ordering::Relaxed) == own;
    if ready.iter().filter(is_own).count() >= most {
        return None;
    }
    let is_ours = |relay: &Relay| {
        relay
            .user
            .compare_exchange(0, own, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    };
    let free = ready.iter().position(is_ours);
    // There may be one the next time.
    if free.is_none()
        && !room::one_more(&segment.relays, &segment.relays_ready)
        && ready.len() == RELAYS
    {
        tell_of_the_stopped(segment);
    }
    free
}

/// Asks for the bytes from `skip` on, as many as a slot holds, and gives how many those are.
///
/// # Safety
/// As [`step`]; the slot is the caller's.
unsafe fn ask(
    segment: &Segment,
    relay: &Relay,
    skip: u64,
    copy: &Copy<'_>,
) -> Result<u64, NoMemory> {
    // One piece of the owner's at a time.
    let rest = sub(copy.remote, skip, copy.len - skip);
    let (addr, len) = rest.first().copied().ok_or(NoMemory)?;
    let bytes = len.min(RELAY_BYTES as u64);
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
            let local = sub(copy.local, skip, bytes);
            // SAFETY: the caller's promise; the slot is ours.
            unsafe { move_bytes(relay, Direction::Out, &local, bytes) }?;
            stage::PUT
        }
        Direction::In => stage::GET,
    };
    relay.stage.store(stage, Ordering::Release);
    segment.asked.store(1, Ordering::SeqCst);
    Ok(bytes)
}

/// Wakes the owner's thread, unless the owner looks by itself.
fn urge(segment: &Segment, under: &mut Under, now: u64) {
    let looks = segment.looks.load(Ordering::Relaxed);
    let urge = &mut under.urge;
    if urge.looks != looks {
        *urge = Urge {
            looks,
            since: now,
            times: 0,
        };
        return;
    }
    let patience = LOOKS_NS << urge.times.min(DOUBLINGS);
    if now.saturating_sub(urge.since) >= patience {
        urge.since = now;
        urge.times += 1;
        wake::wake(segment);
        // It may have no processor: on a busy machine this thread's is one that it can have.
        if urge.times > WAKES {
            yield_now();
        }
    }
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
    for (slot, _) in core::mem::take(under).slots.into_iter().flatten() {
        abandon_slot(segment, &segment.relays[slot]);
    }
}

fn abandon_slot(segment: &Segment, relay: &Relay) {
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

pub(super) fn release(relay: &Relay) {
    relay.stage.store(stage::IDLE, Ordering::Relaxed);
    relay.user.store(0, Ordering::Release);
}

fn pack(endpoint: usize, queue: Queue, index: u64) -> u64 {
    let tagged = u64::from(queue == Queue::Tagged);
    (index << 16) | (tagged << 15) | endpoint as u64
}

pub(super) fn unpack(packed: u64) -> (usize, Queue, u64) {
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

/// # Errors
/// The memory is not there.
///
/// # Safety
/// The pieces are memory of this process that may be read (out) or written (in) now, and the slot is
/// the caller's.
pub(super) unsafe fn move_bytes(
    relay: &Relay,
    direction: Direction,
    local: &[Piece],
    len: u64,
) -> Result<(), NoMemory> {
    let area: *const c_void = relay.bytes.as_ptr().cast();
    // SAFETY: the caller's promise; the area is mapped, and longer than any request.
    unsafe { beside(direction, local, area.cast_mut(), len) }.map_err(|_| NoMemory)
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
                let step = unsafe { step(&segment, (user, 0), under, &copy) };
                assert_eq!(step, Step::Wait);
            }
            all.iter().flat_map(|under| under.slots).flatten().count()
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
