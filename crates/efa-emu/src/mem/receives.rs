//! Posted receives: the owner posts and cancels, senders claim, each under the endpoint's lock.
//!
//! A claimed receive stays in its place until the sender has filled it, so that a sender that dies
//! meanwhile can be found out and the receive posted again, as a device would have kept it.

use core::sync::atomic::Ordering;

use super::alive::is_running;
use super::copy::Piece;
use super::events;
use super::layout::{Endpoint, RECEIVE_IOV, RECEIVES, Receive, Receives};
use super::regions::LIVE;

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
        self.iov.iter().map(|(_, len)| len).sum()
    }
}

/// A receive that is being filled, and where it stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    pub(crate) posted: Posted,
    pub(crate) queue: Queue,
    pub(crate) index: u64,
}

fn queue(endpoint: &Endpoint, which: Queue) -> &Receives {
    let [untagged, tagged] = &endpoint.receives;
    match which {
        Queue::Untagged => untagged,
        Queue::Tagged => tagged,
    }
}

fn place(queue: &Receives, index: u64) -> &Receive {
    let places = window(queue);
    let masked = usize::try_from(index & (places - 1)).unwrap_or(0);
    &queue.entries[masked & (RECEIVES - 1)]
}

/// Places in use: whatever a peer wrote there, it is a number of places that there are.
fn window(queue: &Receives) -> u64 {
    let most = RECEIVES as u64;
    queue.places.load(Ordering::Relaxed).clamp(1, most)
}

/// Posts a receive; `false` if its place is still taken. The owner only, one thread at a time.
pub(crate) fn post(endpoint: &Endpoint, which: Queue, receive: &Posted) -> bool {
    let queue = queue(endpoint, which);
    let tail = queue.tail.load(Ordering::Relaxed);
    if tail == 0 {
        // All of them will be used in turn: their pages become resident now, not bit by bit.
        for index in 0..window(queue) {
            place(queue, index)
                .state
                .store(state::FREE, Ordering::Relaxed);
        }
    }
    let entry = place(queue, tail);
    if entry.state.load(Ordering::Acquire) != state::FREE {
        return false;
    }
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
    entry.state.store(state::POSTED, Ordering::Relaxed);
    queue.tail.store(tail + 1, Ordering::Release);
    true
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

/// Indices from the first that may be posted to the tail.
fn range(queue: &Receives) -> core::ops::Range<u64> {
    let (head, tail) = (
        queue.head.load(Ordering::Relaxed),
        queue.tail.load(Ordering::Acquire),
    );
    // Never more than there are, whatever the numbers say.
    head..tail.min(head.saturating_add(window(queue)))
}

/// Claims the first receive that fits a tag (any, if untagged). Under the endpoint's lock.
pub(crate) fn claim(endpoint: &Endpoint, which: Queue, tag: u64, own_pid: u32) -> Option<Claim> {
    let queue = queue(endpoint, which);
    let index = range(queue).find(|index| {
        let entry = place(queue, *index);
        let ignore = entry.ignore.load(Ordering::Relaxed);
        entry.state.load(Ordering::Relaxed) == state::POSTED
            && (which == Queue::Untagged
                || (entry.tag.load(Ordering::Relaxed) ^ tag) & !ignore == 0)
    })?;
    let entry = place(queue, index);
    entry.claimer.store(own_pid, Ordering::Relaxed);
    entry.state.store(state::CLAIMED, Ordering::Release);
    let posted = read(entry);
    advance(queue);
    Some(Claim {
        posted,
        queue: which,
        index,
    })
}

/// Moves the head over receives that no longer wait.
fn advance(queue: &Receives) {
    let first = range(queue)
        .find(|index| place(queue, *index).state.load(Ordering::Relaxed) == state::POSTED)
        .unwrap_or_else(|| queue.tail.load(Ordering::Relaxed));
    queue.head.store(first, Ordering::Relaxed);
}

/// Ends a claim: the receive is over.
pub(crate) fn finish(endpoint: &Endpoint, claim: &Claim) {
    place(queue(endpoint, claim.queue), claim.index)
        .state
        .store(state::FREE, Ordering::Release);
}

/// Whether a claim is still what it was: asked by the owner, who fills receives for others.
pub(crate) fn is_claimed_by(endpoint: &Endpoint, which: Queue, index: u64, pid: u32) -> bool {
    let entry = place(queue(endpoint, which), index);
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
    let index = range(queue).find(|index| {
        let entry = place(queue, *index);
        entry.state.load(Ordering::Relaxed) == state::POSTED && fits(&read(entry))
    })?;
    let entry = place(queue, index);
    let posted = read(entry);
    entry.state.store(state::FREE, Ordering::Relaxed);
    advance(queue);
    Some(posted)
}

/// Whether somebody who lives is filling a receive; claims of the dead are posted again. Under the
/// endpoint's lock, the owner only. Costs a pass over the queue.
pub(crate) fn restore(endpoint: &Endpoint) -> bool {
    let mut in_use = false;
    for queue in &endpoint.receives {
        let tail = queue.tail.load(Ordering::Acquire);
        for index in tail.saturating_sub(window(queue))..tail {
            let entry = place(queue, index);
            if entry.state.load(Ordering::Acquire) != state::CLAIMED {
                continue;
            }
            if is_running(entry.claimer.load(Ordering::Relaxed)) {
                in_use = true;
                continue;
            }
            entry.state.store(state::POSTED, Ordering::Relaxed);
            let head = queue.head.load(Ordering::Relaxed);
            queue.head.store(head.min(index), Ordering::Relaxed);
        }
    }
    in_use
}

/// Forgets everything, before an endpoint is used again with this depth of queue.
pub(crate) fn reset(endpoint: &Endpoint, depth: usize) {
    // As many may still be filled by slow senders as are posted.
    let places = (2 * depth).next_power_of_two().clamp(2, RECEIVES) as u64;
    for queue in &endpoint.receives {
        let tail = queue.tail.load(Ordering::Relaxed);
        for index in tail.saturating_sub(window(queue))..tail {
            place(queue, index)
                .state
                .store(state::FREE, Ordering::Relaxed);
        }
        queue.head.store(0, Ordering::Relaxed);
        queue.tail.store(0, Ordering::Relaxed);
        queue.places.store(places, Ordering::Relaxed);
    }
}
