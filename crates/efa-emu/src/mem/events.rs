//! What peers did to an endpoint: a queue of many producers, under the endpoint's lock, and one
//! consumer, the owner.

use core::sync::atomic::Ordering;
use std::io;

use super::layout::{EVENTS, Endpoint, Event};
use super::room::reserve;

/// An event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Happened {
    pub(crate) flags: u64,
    pub(crate) context: u64,
    pub(crate) buf: u64,
    pub(crate) len: u64,
    pub(crate) data: u64,
    pub(crate) tag: u64,
    /// Segment, and NIC and number of the endpoint that did it.
    pub(crate) source: [u64; 2],
    /// errno and the provider's number, if it went wrong.
    pub(crate) error: Option<(u16, u16)>,
    pub(crate) excess: u64,
}

/// An error in one word; 0 for none.
pub(super) fn pack(error: Option<(u16, u16)>) -> u64 {
    error.map_or(0, |(err, prov)| u64::from(err) | (u64::from(prov) << 16))
}

/// The reverse of [`pack`].
pub(super) fn unpack(word: u64) -> Option<(u16, u16)> {
    let half = |value: u64| u16::try_from(value & 0xffff).unwrap_or(0);
    (word != 0).then(|| (half(word), half(word >> 16)))
}

/// So many events get their room at a time.
const CHUNK: usize = 256;

fn place(endpoint: &Endpoint, index: u64) -> (usize, &Event) {
    // No more places than it takes: no more pages become resident.
    let capacity = endpoint.event_capacity.load(Ordering::Relaxed);
    let places = u64::from(capacity).min(EVENTS as u64).next_power_of_two();
    let masked = usize::try_from(index & (places - 1)).unwrap_or(0);
    let masked = masked & (EVENTS - 1);
    (masked, &endpoint.events[masked])
}

/// Sees to it that there is room for an event. Under the endpoint's lock.
///
/// # Errors
/// Those of [`reserve`].
pub(crate) fn make_room(endpoint: &Endpoint, place: usize) -> io::Result<()> {
    let ready = endpoint.events_ready.load(Ordering::Relaxed);
    let from = usize::try_from(ready).unwrap_or(0).min(EVENTS);
    if place < from {
        return Ok(());
    }
    let to = (place + CHUNK).min(EVENTS);
    reserve(&endpoint.events[from..to])?;
    let ready = u32::try_from(to).unwrap_or(0);
    endpoint.events_ready.store(ready, Ordering::Relaxed);
    Ok(())
}

/// Events that can still be added.
pub(crate) fn room(endpoint: &Endpoint) -> u64 {
    let head = endpoint.event_head.load(Ordering::Acquire);
    let unread = endpoint
        .event_tail
        .load(Ordering::Relaxed)
        .wrapping_sub(head);
    u64::from(endpoint.event_capacity.load(Ordering::Relaxed)).saturating_sub(unread)
}

/// Adds an event; `false` if the queue is full, or has no room for more. Under the endpoint's lock.
pub(crate) fn push(endpoint: &Endpoint, event: &Happened) -> bool {
    if room(endpoint) == 0 {
        return false;
    }
    let tail = endpoint.event_tail.load(Ordering::Relaxed);
    let (at, into) = place(endpoint, tail);
    if make_room(endpoint, at).is_err() {
        return false;
    }
    into.flags.store(event.flags, Ordering::Relaxed);
    into.context.store(event.context, Ordering::Relaxed);
    into.buf.store(event.buf, Ordering::Relaxed);
    into.len.store(event.len, Ordering::Relaxed);
    into.data.store(event.data, Ordering::Relaxed);
    into.tag.store(event.tag, Ordering::Relaxed);
    let [segment, number] = &into.source;
    segment.store(event.source[0], Ordering::Relaxed);
    number.store(event.source[1], Ordering::Relaxed);
    into.error.store(pack(event.error), Ordering::Relaxed);
    into.excess.store(event.excess, Ordering::Relaxed);
    endpoint
        .event_tail
        .store(tail.wrapping_add(1), Ordering::Release);
    true
}

/// Takes the first event. The owner only, one thread at a time.
pub(crate) fn pop(endpoint: &Endpoint) -> Option<Happened> {
    let head = endpoint.event_head.load(Ordering::Relaxed);
    if head == endpoint.event_tail.load(Ordering::Acquire) {
        return None;
    }
    let (_, from) = place(endpoint, head);
    let [segment, number] = &from.source;
    let event = Happened {
        flags: from.flags.load(Ordering::Relaxed),
        context: from.context.load(Ordering::Relaxed),
        buf: from.buf.load(Ordering::Relaxed),
        len: from.len.load(Ordering::Relaxed),
        data: from.data.load(Ordering::Relaxed),
        tag: from.tag.load(Ordering::Relaxed),
        source: [
            segment.load(Ordering::Relaxed),
            number.load(Ordering::Relaxed),
        ],
        error: unpack(from.error.load(Ordering::Relaxed)),
        excess: from.excess.load(Ordering::Relaxed),
    };
    endpoint
        .event_head
        .store(head.wrapping_add(1), Ordering::Release);
    Some(event)
}

/// Starts over at the front if the queue is empty and has come some way: the pages behind need not
/// become resident, and those in front are warm. The owner only, one thread at a time.
pub(crate) fn rewind(endpoint: &Endpoint, own: u32) {
    const SOME_WAY: u64 = 64;
    if endpoint.event_tail.load(Ordering::Relaxed) < SOME_WAY {
        return;
    }
    let Some(_held) = endpoint.lock.acquire(own) else {
        return;
    };
    let tail = endpoint.event_tail.load(Ordering::Relaxed);
    if endpoint.event_head.load(Ordering::Relaxed) == tail {
        endpoint.event_tail.store(0, Ordering::Relaxed);
        endpoint.event_head.store(0, Ordering::Relaxed);
    }
}
