//! Posted receives: the owner posts and cancels, senders claim, each under the endpoint's lock.
//!
//! A claimed receive stays in its place until the sender has filled it, so that a sender that dies
//! meanwhile can be found out and the receive posted again, as a device would have kept it.

use core::sync::atomic::{AtomicU32, Ordering};
use std::io;

use super::copy::{Piece, total};
use super::events;
use super::layout::{Endpoint, RECEIVE_IOV, RECEIVES, Receive, Receives};
use super::presence::{NOBODY, is_there};
use super::regions::LIVE;
use super::room::{self, reserve};

/// States of a place.
pub(crate) mod state {
    /// Nothing is here.
    pub(crate) const FREE: u32 = 0;
    /// A receive that waits.
    pub(crate) const POSTED: u32 = 1;
    /// A receive that somebody fills.
    pub(crate) const CLAIMED: u32 = 2;
}

/// Which of an endpoint's two queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    Untagged,
    Tagged,
}

/// What a receive is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Posted {
    pub(crate) context: u64,
    pub(crate) tag: u64,
    pub(crate) ignore: u64,
    /// Address and length; unused ones are 0.
    pub(crate) iov: [Piece; RECEIVE_IOV],
    /// With what it ends, if the plan says so.
    pub(crate) fault: Option<(u16, u16)>,
    /// Keys of the pieces, where they were given.
    pub(crate) keys: [Option<u32>; RECEIVE_IOV],
}

impl Posted {
    pub(crate) fn room(&self) -> u64 {
        // What is in a segment may be anything.
        total(&self.iov).unwrap_or(u64::MAX)
    }
}

/// Who claims a receive, and for whose message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct By {
    pub(crate) user: u32,
    /// As [`Happened::source`](super::events::Happened::source).
    pub(crate) source: [u64; 2],
}

impl By {
    /// The source in one word, which is not 0.
    fn word(source: [u64; 2]) -> u64 {
        source[0].rotate_left(32) ^ source[1] | 1 << 63
    }
}

/// A receive that is being filled, and where it stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    pub(crate) posted: Posted,
    pub(crate) queue: Queue,
    pub(crate) place: u64,
}

/// First position: there is room in front of it for receives that come back.
const START: u64 = 1 << 32;
/// The order is closed up when there are so many gaps in it, and more than receives.
const GAPS: u64 = 64;

fn queue(endpoint: &Endpoint, which: Queue) -> &Receives {
    let [untagged, tagged] = &endpoint.receives;
    match which {
        Queue::Untagged => untagged,
        Queue::Tagged => tagged,
    }
}

fn entry(queue: &Receives, place: u64) -> &Receive {
    &queue.entries[usize::try_from(place).unwrap_or(0) & (RECEIVES - 1)]
}

/// Places in use: whatever a peer wrote there, it is a number of places that there are.
fn places(queue: &Receives) -> u64 {
    let most = RECEIVES as u64;
    queue.places.load(Ordering::Relaxed).clamp(1, most)
}

/// Where the order has the place of a position.
fn slot(queue: &Receives, position: u64) -> &AtomicU32 {
    let masked = usize::try_from(position & (2 * places(queue) - 1)).unwrap_or(0);
    &queue.order[masked & (2 * RECEIVES - 1)]
}

/// The place of a position, if a receive is there (still).
fn place_at(queue: &Receives, position: u64) -> Option<u64> {
    let place = u64::from(slot(queue, position).load(Ordering::Relaxed));
    (entry(queue, place).position.load(Ordering::Relaxed) == position).then_some(place)
}

fn is_posted(queue: &Receives, place: u64) -> bool {
    entry(queue, place).state.load(Ordering::Relaxed) == state::POSTED
}

/// Positions from the first that may wait to the tail.
fn range(queue: &Receives) -> core::ops::Range<u64> {
    let (head, tail) = (
        queue.head.load(Ordering::Relaxed),
        queue.tail.load(Ordering::Acquire),
    );
    // Never more than there are, whatever the numbers say.
    head..tail.min(head.saturating_add(2 * places(queue)))
}

/// Places of receives that wait, oldest first. Under the endpoint's lock.
pub(crate) fn waiting(endpoint: &Endpoint, which: Queue) -> impl Iterator<Item = u64> + '_ {
    let queue = queue(endpoint, which);
    range(queue)
        .filter_map(|position| place_at(queue, position))
        .filter(|place| is_posted(queue, *place))
}

/// Posts a receive, beside so many others, and says where it is; `None` if there is no place. The owner
/// only, under the endpoint's lock.
pub(crate) fn post(
    endpoint: &Endpoint,
    which: Queue,
    receive: &Posted,
    others: u64,
) -> Option<u64> {
    let queue = queue(endpoint, which);
    let span = range(queue);
    if span.end - span.start > 2 * others + GAPS || span.end - span.start >= places(queue) {
        close_up(queue);
    }
    let tail = queue.tail.load(Ordering::Relaxed);
    if queue.next.load(Ordering::Relaxed) == 0 {
        // All of them will be used in turn: their pages become resident now, not bit by bit.
        for place in 0..places(queue) {
            entry(queue, place)
                .state
                .store(state::FREE, Ordering::Relaxed);
        }
    }
    let first = queue.next.load(Ordering::Relaxed);
    let place = (0..places(queue))
        .map(|i| first.wrapping_add(i) & (places(queue) - 1))
        .find(|place| entry(queue, *place).state.load(Ordering::Acquire) == state::FREE)?;
    queue.next.store(place + 1, Ordering::Relaxed);
    write(entry(queue, place), receive);
    put(queue, place, tail);
    queue.tail.store(tail + 1, Ordering::Release);
    Some(place)
}

fn put(queue: &Receives, place: u64, position: u64) {
    let number = u32::try_from(place).unwrap_or(0);
    slot(queue, position).store(number, Ordering::Relaxed);
    entry(queue, place)
        .position
        .store(position, Ordering::Relaxed);
}

/// Closes the gaps in the order. The owner only, under the endpoint's lock.
fn close_up(queue: &Receives) {
    let all = range(queue);
    let mut next = all.start;
    for position in all {
        let Some(place) = place_at(queue, position) else {
            continue;
        };
        if is_posted(queue, place) {
            put(queue, place, next);
            next += 1;
        }
    }
    queue.tail.store(next, Ordering::Relaxed);
}

fn write(entry: &Receive, receive: &Posted) {
    entry.context.store(receive.context, Ordering::Relaxed);
    entry.tag.store(receive.tag, Ordering::Relaxed);
    entry.ignore.store(receive.ignore, Ordering::Relaxed);
    entry
        .fault
        .store(events::pack(receive.fault), Ordering::Relaxed);
    for ([addr, len, word], (from, given)) in
        entry.iov.iter().zip(receive.iov.iter().zip(&receive.keys))
    {
        addr.store(from.0, Ordering::Relaxed);
        len.store(from.1, Ordering::Relaxed);
        let given = given.map_or(0, |key| LIVE | u64::from(key));
        word.store(given, Ordering::Relaxed);
    }
    entry.claimer.store(0, Ordering::Relaxed);
    entry.last.store(0, Ordering::Relaxed);
    entry.state.store(state::POSTED, Ordering::Relaxed);
}

fn read(entry: &Receive) -> Posted {
    let mut iov = [(0, 0); RECEIVE_IOV];
    let mut keys = [None; RECEIVE_IOV];
    for ([addr, len, word], (into, key)) in entry.iov.iter().zip(iov.iter_mut().zip(&mut keys)) {
        *into = (addr.load(Ordering::Relaxed), len.load(Ordering::Relaxed));
        let given = word.load(Ordering::Relaxed);
        *key = u32::try_from(given & !LIVE)
            .ok()
            .filter(|_| given & LIVE != 0);
    }
    Posted {
        context: entry.context.load(Ordering::Relaxed),
        tag: entry.tag.load(Ordering::Relaxed),
        ignore: entry.ignore.load(Ordering::Relaxed),
        fault: events::unpack(entry.fault.load(Ordering::Relaxed)),
        iov,
        keys,
    }
}

/// Whether the receive at a place waits, and for a message of this tag (any, if untagged).
pub(crate) fn fits(endpoint: &Endpoint, which: Queue, place: u64, tag: u64) -> bool {
    let queue = queue(endpoint, which);
    let entry = entry(queue, place);
    let ignore = entry.ignore.load(Ordering::Relaxed);
    is_posted(queue, place)
        && (which == Queue::Untagged || (entry.tag.load(Ordering::Relaxed) ^ tag) & !ignore == 0)
}

/// Whether a receive came back from this source, whose message for it was lost: what the same source sent
/// after that is not for it, or its messages would match out of order.
pub(crate) fn came_back_from(
    endpoint: &Endpoint,
    which: Queue,
    place: u64,
    source: [u64; 2],
) -> bool {
    let last = entry(queue(endpoint, which), place)
        .last
        .load(Ordering::Relaxed);
    last == By::word(source)
}

/// Notes that the message of this source for a receive that waits is lost, unless the receive came back from
/// somebody already.
pub(crate) fn note_lost(endpoint: &Endpoint, which: Queue, place: u64, source: [u64; 2]) -> bool {
    let last = &entry(queue(endpoint, which), place).last;
    let word = By::word(source);
    last.compare_exchange(0, word, Ordering::Relaxed, Ordering::Relaxed)
        .is_ok()
}

/// Claims the first receive that fits a tag (any, if untagged). Under the endpoint's lock.
pub(crate) fn claim(endpoint: &Endpoint, which: Queue, tag: u64, by: By) -> Option<Claim> {
    let mut waiting = waiting(endpoint, which);
    let place = waiting.find(|place| fits(endpoint, which, *place, tag))?;
    Some(claim_at(endpoint, which, place, by))
}

/// Claims a receive that waits. Under the endpoint's lock.
pub(crate) fn claim_at(endpoint: &Endpoint, which: Queue, place: u64, by: By) -> Claim {
    let queue = queue(endpoint, which);
    let entry = entry(queue, place);
    entry.claimer.store(by.user, Ordering::Relaxed);
    entry.last.store(By::word(by.source), Ordering::Relaxed);
    entry.state.store(state::CLAIMED, Ordering::Release);
    advance(queue);
    at(endpoint, which, place)
}

/// A receive that somebody claimed.
pub(crate) fn at(endpoint: &Endpoint, which: Queue, place: u64) -> Claim {
    Claim {
        posted: read(entry(queue(endpoint, which), place)),
        queue: which,
        place,
    }
}

/// Moves the head over receives that no longer wait.
fn advance(queue: &Receives) {
    let waits = |position: &u64| {
        let place = place_at(queue, *position);
        place.is_some_and(|place| is_posted(queue, place))
    };
    let first = range(queue).find(waits);
    let first = first.unwrap_or_else(|| queue.tail.load(Ordering::Relaxed));
    queue.head.store(first, Ordering::Relaxed);
}

/// Ends a claim: the receive is over.
pub(crate) fn finish(endpoint: &Endpoint, claim: &Claim) {
    entry(queue(endpoint, claim.queue), claim.place)
        .state
        .store(state::FREE, Ordering::Release);
}

/// Gives a claim back: the receive waits again. Under the endpoint's lock.
pub(crate) fn unclaim(endpoint: &Endpoint, claim: &Claim) {
    let queue = queue(endpoint, claim.queue);
    if entry(queue, claim.place).state.load(Ordering::Acquire) == state::CLAIMED {
        put_back(endpoint, queue, claim.place);
    }
}

/// Gives a claim up without the lock: to its owner it is one of the dead.
pub(crate) fn leave(endpoint: &Endpoint, claim: &Claim) {
    entry(queue(endpoint, claim.queue), claim.place)
        .claimer
        .store(NOBODY, Ordering::Relaxed);
}

/// A receive waits again, before those that wait, and perhaps for a message that is there already.
fn put_back(endpoint: &Endpoint, queue: &Receives, place: u64) {
    let position = queue.head.load(Ordering::Relaxed).wrapping_sub(1);
    put(queue, place, position);
    entry(queue, place)
        .state
        .store(state::POSTED, Ordering::Release);
    queue.head.store(position, Ordering::Relaxed);
    endpoint.unexpected.look.store(1, Ordering::Relaxed);
}

/// Whether a claim is still what it was: asked by the owner, who fills receives for others.
pub(crate) fn is_claimed_by(endpoint: &Endpoint, which: Queue, place: u64, pid: u32) -> bool {
    let entry = entry(queue(endpoint, which), place);
    entry.state.load(Ordering::Acquire) == state::CLAIMED
        && entry.claimer.load(Ordering::Relaxed) == pid
}

/// Takes back the first waiting receive that fits. Under the endpoint's lock, the owner only.
pub(crate) fn cancel(
    endpoint: &Endpoint,
    which: Queue,
    fits: impl Fn(&Posted) -> bool,
) -> Option<Posted> {
    let queue = queue(endpoint, which);
    let mut waiting = waiting(endpoint, which).map(|place| entry(queue, place));
    let (entry, posted) = waiting.find_map(|entry| {
        let posted = read(entry);
        fits(&posted).then_some((entry, posted))
    })?;
    entry.state.store(state::FREE, Ordering::Relaxed);
    advance(queue);
    Some(posted)
}

/// Whether somebody who lives is filling a receive; claims of the dead are posted again. Under the
/// endpoint's lock, the owner only. Costs a pass over the queue.
pub(crate) fn restore(endpoint: &Endpoint) -> bool {
    let mut in_use = false;
    for queue in &endpoint.receives {
        // Nothing was ever posted, and its pages need not become resident.
        if queue.next.load(Ordering::Relaxed) == 0 {
            continue;
        }
        for place in 0..places(queue) {
            let entry = entry(queue, place);
            if entry.state.load(Ordering::Acquire) != state::CLAIMED {
                continue;
            }
            if is_there(entry.claimer.load(Ordering::Relaxed)) {
                in_use = true;
            } else {
                put_back(endpoint, queue, place);
            }
        }
    }
    in_use
}

/// Sees to it that receives can be posted.
///
/// # Errors
/// Those of [`reserve`].
pub(crate) fn make_room(endpoint: &Endpoint, which: Queue) -> io::Result<()> {
    let queue = queue(endpoint, which);
    if queue.next.load(Ordering::Relaxed) != 0 {
        return Ok(());
    }
    let places = usize::try_from(places(queue)).unwrap_or(RECEIVES);
    reserve(&queue.order[..2 * places])?;
    reserve(&queue.entries[..places])
}

/// Forgets everything, before an endpoint is used again with this depth of queue.
pub(crate) fn reset(endpoint: &Endpoint, depth: usize) {
    // As many may still be filled by slow senders as are posted.
    let number = (2 * depth).next_power_of_two().clamp(2, RECEIVES) as u64;
    for queue in &endpoint.receives {
        // What an earlier endpoint left goes with the first post.
        queue.head.store(START, Ordering::Relaxed);
        queue.tail.store(START, Ordering::Relaxed);
        queue.next.store(0, Ordering::Relaxed);
        queue.places.store(number, Ordering::Relaxed);
    }
}

/// Gives back what room the receives had; nobody has one any more. [`reset`] and [`make_room`] come before
/// others.
pub(crate) fn give_back(endpoint: &Endpoint) {
    for queue in &endpoint.receives {
        queue.next.store(0, Ordering::Relaxed);
        room::give_back(&queue.order);
        room::give_back(&queue.entries);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mem::mapping::{self, Mapping};

    const ONE: By = By {
        user: 1,
        source: [1, 1],
    };

    fn endpoint(depth: usize) -> (tempfile::TempDir, Mapping) {
        let dir = tempfile::tempdir().expect("a directory");
        let (_, _, segment) = mapping::create(dir.path(), std::process::id()).expect("a segment");
        reset(&segment.endpoints[3], depth);
        (dir, segment)
    }

    fn tagged(tag: u64) -> Posted {
        Posted {
            tag,
            context: tag,
            ..Posted::default()
        }
    }

    /// Many come and go beside one that nothing fits, and the oldest that fits is always first.
    #[test]
    fn an_old_receive_is_in_nobodys_way() {
        let (_dir, segment) = endpoint(8);
        let endpoint = &segment.endpoints[3];
        let post = |tag| post(endpoint, Queue::Tagged, &tagged(tag), 3).expect("a place");
        post(1000);
        for round in 0..500 {
            let (first, second) = (post(round), post(round));
            let claim = |tag| claim(endpoint, Queue::Tagged, tag, ONE).expect("a receive");
            let claimed = claim(round);
            assert_eq!((claimed.place, claimed.posted.context), (first, round));
            finish(endpoint, &claimed);
            let claimed = claim(round);
            assert_eq!(claimed.place, second);
            finish(endpoint, &claimed);
        }
        assert!(claim(endpoint, Queue::Tagged, 1000, ONE).is_some());
        assert!(claim(endpoint, Queue::Tagged, 1000, ONE).is_none());
    }

    #[test]
    fn what_is_given_back_is_first_again() {
        let (_dir, segment) = endpoint(8);
        let endpoint = &segment.endpoints[3];
        for tag in 0..3 {
            post(endpoint, Queue::Untagged, &tagged(tag), tag).expect("a place");
        }
        let claim = || claim(endpoint, Queue::Untagged, 0, ONE).expect("a receive");
        let (first, second) = (claim(), claim());
        unclaim(endpoint, &first);
        assert_eq!(claim().place, first.place);
        // By somebody who is not there any more.
        finish(endpoint, &second);
        unclaim(endpoint, &second);
        assert_eq!(claim().posted.context, 2);
        assert!(!restore(endpoint) || is_there(1));
    }

    #[test]
    fn there_are_as_many_places_as_it_takes() {
        let (_dir, segment) = endpoint(2);
        let endpoint = &segment.endpoints[3];
        let post = |n| post(endpoint, Queue::Untagged, &tagged(n), n);
        assert!((0..4).all(|n| post(n).is_some()));
        assert_eq!(post(4), None);
        let third = cancel(endpoint, Queue::Untagged, |posted| posted.context == 2);
        assert_eq!(third, Some(tagged(2)));
        assert!(post(5).is_some());
        let order: Vec<u64> = waiting(endpoint, Queue::Untagged)
            .map(|place| at(endpoint, Queue::Untagged, place).posted.context)
            .collect();
        assert_eq!(order, [0, 1, 3, 5]);
    }
}
