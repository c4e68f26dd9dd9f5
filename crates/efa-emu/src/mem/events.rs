//! What peers did to the endpoints of a completion queue: a ring of many producers, under its lock, and
//! one consumer, the owner.
//!
//! A completion queue is bounded as one: entries that wait here, and those that its owner has taken or made
//! (`held`), together are no more than its capacity. Neither side waits for the other to find out:
//!
//! ```text
//! peer:  incoming = 1,  reads held,             adds or not,  incoming = 0
//! owner: held += 1,     reads incoming + here,  keeps it or takes it back
//! ```
//! Each says what it is about to do before it looks (both sequentially consistent), so of two who want the
//! last place at one time at least one sees the other.

use core::slice::from_ref;
use core::sync::atomic::Ordering;
use std::io;

use super::layout::{EVENTS, Endpoint, Event, Events, Segment};
use super::room::{self, reserve};

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
    /// Nanoseconds for which it does not show yet, from when the owner finds it.
    pub(crate) late_ns: u64,
    /// It is the end of a receive.
    pub(crate) ends_receive: bool,
    /// It was told before, and the plan wants it once more: it shows, and is counted nowhere.
    pub(crate) is_repeat: bool,
}

impl Happened {
    /// The same, told once more: whatever it ended has ended.
    pub(crate) fn again(&self) -> Self {
        Self {
            ends_receive: false,
            is_repeat: true,
            ..*self
        }
    }
}

/// Bits of [`Event::marks`], and where the number of the endpoint is.
const ENDS_RECEIVE: u64 = 1;
const IS_REPEAT: u64 = 2;
const SLOT_SHIFT: u32 = 16;

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

/// Where the events of an endpoint go.
pub(crate) fn of<'a>(segment: &'a Segment, endpoint: &Endpoint) -> Option<&'a Events> {
    let number = usize::try_from(endpoint.queue.load(Ordering::Relaxed)).ok();
    segment.queues.get(number.filter(|number| *number > 0)?)
}

fn place(events: &Events, index: u64) -> (usize, &Event) {
    // No more places than it takes: no more pages become resident.
    let capacity = events.capacity.load(Ordering::Relaxed);
    let places = u64::from(capacity).clamp(1, EVENTS as u64);
    let masked = usize::try_from(index & (places.next_power_of_two() - 1)).unwrap_or(0);
    let masked = masked & (EVENTS - 1);
    (masked, &events.all[masked])
}

/// Makes an empty one for a queue of so many entries, of which the owner has some already. The owner only,
/// while no endpoint of its names it.
///
/// # Errors
/// Those of [`reserve`].
pub(crate) fn open(events: &Events, capacity: u32, held: u32) -> io::Result<()> {
    reserve(from_ref(&events.lock))?;
    reserve(from_ref(&events.tail))?;
    make_room(events, 0)?;
    events.head.store(0, Ordering::Relaxed);
    events.tail.store(0, Ordering::Relaxed);
    events.incoming.store(0, Ordering::Relaxed);
    events.capacity.store(capacity, Ordering::Relaxed);
    events.held.store(held, Ordering::Release);
    Ok(())
}

/// Sees to it that there is room for an event. Under the lock.
fn make_room(events: &Events, place: usize) -> io::Result<()> {
    let ready = events.ready.load(Ordering::Relaxed);
    let from = usize::try_from(ready).unwrap_or(0).min(EVENTS);
    if place < from {
        return Ok(());
    }
    let to = (place + CHUNK).min(EVENTS);
    reserve(&events.all[from..to])?;
    let ready = u32::try_from(to).unwrap_or(0);
    events.ready.store(ready, Ordering::Relaxed);
    Ok(())
}

/// Gives back what room the events had; there are none any more. The owner only. `false` if somebody is
/// stopped who is adding one: it is to be left as it is.
pub(crate) fn close(events: &Events, own: u32) -> bool {
    let Some(_held) = events.lock.acquire(own) else {
        return false;
    };
    events.capacity.store(0, Ordering::Relaxed);
    events.ready.store(0, Ordering::Relaxed);
    room::give_back(&events.all);
    true
}

/// Events that wait.
pub(crate) fn unread(events: &Events) -> u64 {
    let head = events.head.load(Ordering::Acquire);
    events.tail.load(Ordering::Acquire).wrapping_sub(head)
}

/// Whether the queue has room for another entry, for who only wants to know: there may be none when it is
/// added.
pub(crate) fn has_room(events: &Events) -> bool {
    // In this order: what the owner takes meanwhile counts twice, and never not at all.
    let unread = unread(events);
    let held = events.held.load(Ordering::SeqCst);
    let capacity = u64::from(events.capacity.load(Ordering::Relaxed));
    unread < EVENTS as u64 && u64::from(held).saturating_add(unread) < capacity
}

/// The owner has so many entries now: whether they, and those that wait, are no more than the queue holds.
pub(crate) fn holds(events: &Events, held: u32) -> bool {
    events.held.store(held, Ordering::SeqCst);
    // In this order: who is done with adding has moved the tail before.
    let incoming = u64::from(events.incoming.load(Ordering::SeqCst));
    let others = unread(events).saturating_add(incoming);
    let capacity = u64::from(events.capacity.load(Ordering::Relaxed));
    u64::from(held).saturating_add(others) <= capacity
}

/// Adds an event of an endpoint by its number; `false` if the queue is full, has no room for more, or is
/// kept by somebody who is stopped.
pub(crate) fn push(events: &Events, own: u32, slot: usize, event: &Happened) -> bool {
    let Some(_held) = events.lock.acquire(own) else {
        return false;
    };
    events.incoming.store(1, Ordering::SeqCst);
    let is_added = has_room(events) && add(events, slot, event);
    events.incoming.store(0, Ordering::Release);
    is_added
}

fn add(events: &Events, slot: usize, event: &Happened) -> bool {
    let tail = events.tail.load(Ordering::Relaxed);
    let (at, into) = place(events, tail);
    if make_room(events, at).is_err() {
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
    into.late_ns.store(event.late_ns, Ordering::Relaxed);
    let mark = |is: bool, bit| if is { bit } else { 0 };
    let marks = mark(event.ends_receive, ENDS_RECEIVE) | mark(event.is_repeat, IS_REPEAT);
    let marks = marks | (slot as u64) << SLOT_SHIFT;
    into.marks.store(marks, Ordering::Relaxed);
    events.tail.store(tail.wrapping_add(1), Ordering::Release);
    true
}

/// The first event, and the number of its endpoint; it stays. The owner only, one thread at a time.
pub(crate) fn first(events: &Events) -> Option<(usize, Happened)> {
    let head = events.head.load(Ordering::Relaxed);
    if head == events.tail.load(Ordering::Acquire) {
        return None;
    }
    let (_, from) = place(events, head);
    let [segment, number] = &from.source;
    let marks = from.marks.load(Ordering::Relaxed);
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
        late_ns: from.late_ns.load(Ordering::Relaxed),
        ends_receive: marks & ENDS_RECEIVE != 0,
        is_repeat: marks & IS_REPEAT != 0,
    };
    let slot = usize::try_from(marks >> SLOT_SHIFT).unwrap_or(usize::MAX);
    Some((slot, event))
}

/// Takes away what [`first`] gave, once it is counted as held. The owner only.
pub(crate) fn remove_first(events: &Events) {
    let head = events.head.load(Ordering::Relaxed);
    events.head.store(head.wrapping_add(1), Ordering::Release);
}

/// Starts over at the front if the queue is empty and has come some way: the pages behind need not
/// become resident, and those in front are warm. The owner only, one thread at a time.
pub(crate) fn rewind(events: &Events, own: u32) {
    const SOME_WAY: u64 = 64;
    if events.tail.load(Ordering::Relaxed) < SOME_WAY {
        return;
    }
    let Some(_held) = events.lock.acquire(own) else {
        return;
    };
    let tail = events.tail.load(Ordering::Relaxed);
    if events.head.load(Ordering::Relaxed) == tail {
        events.tail.store(0, Ordering::Relaxed);
        events.head.store(0, Ordering::Relaxed);
    }
}

/// Forgets what somebody was adding who died. The owner only.
pub(crate) fn restore(events: &Events, own: u32) {
    if events.incoming.load(Ordering::Relaxed) == 0 {
        return;
    }
    if let Some(_held) = events.lock.acquire(own) {
        events.incoming.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mem::mapping;
    use core::sync::atomic::AtomicU32;

    fn ring(capacity: u32, test: impl FnOnce(&Events)) {
        let dir = tempfile::tempdir().expect("a directory");
        let (_, _, segment) = mapping::create(dir.path(), std::process::id()).expect("a segment");
        let events = &segment.queues[7];
        open(events, capacity, 0).expect("room");
        test(events);
    }

    fn event(data: u64) -> Happened {
        Happened {
            data,
            ..Happened::default()
        }
    }

    #[test]
    fn entries_here_and_those_of_the_owner_share_the_places() {
        let own = std::process::id();
        ring(3, |events| {
            assert!(holds(events, 1) && push(events, own, 5, &event(1)));
            assert!(holds(events, 2) && !push(events, own, 5, &event(2)));
            assert!(!holds(events, 3), "one waits");
            assert!(holds(events, 2) && !has_room(events));
            let (slot, first) = first(events).expect("an event");
            assert_eq!((slot, first.data), (5, 1));
            remove_first(events);
            assert!(push(events, own, 5, &event(2)) && unread(events) == 1);
        });
    }

    /// Whoever comes first has the last place, and nobody has one that there is not.
    #[test]
    fn never_more_than_there_are_places() {
        const CAPACITY: u32 = 4;
        let own = std::process::id();
        ring(CAPACITY, |events| {
            let push_all = || {
                let mut pushed = 0;
                while pushed < 500 {
                    pushed += u32::from(push(events, own, 1, &event(0)));
                    std::thread::yield_now();
                }
            };
            let mut most = 0;
            std::thread::scope(|scope| {
                let peers = [scope.spawn(push_all), scope.spawn(push_all)];
                let mut held = 0;
                while !peers.iter().all(std::thread::ScopedJoinHandle::is_finished) {
                    let is_held = holds(events, held + 1);
                    held += u32::from(is_held);
                    events.held.store(held, Ordering::SeqCst);
                    most = most.max(u64::from(held) + unread(events));
                    std::thread::yield_now();
                    if !is_held || held == CAPACITY {
                        while first(events).is_some() {
                            remove_first(events);
                        }
                        held = 0;
                        events.held.store(held, Ordering::SeqCst);
                    }
                }
            });
            assert_eq!(most, u64::from(CAPACITY));
        });
    }

    /// What its owner takes over is counted on the way too.
    #[test]
    fn never_more_while_the_owner_takes_what_waits() {
        const CAPACITY: u32 = 64;
        let own = std::process::id();
        ring(CAPACITY, |events| {
            for round in 0..1000 {
                let held = AtomicU32::new(0);
                let is_full = || held.load(Ordering::Relaxed) >= CAPACITY;
                events.held.store(0, Ordering::SeqCst);
                std::thread::scope(|scope| {
                    scope.spawn(|| {
                        while !is_full() {
                            push(events, own, 1, &event(0));
                        }
                        // None of these fits.
                        (0..100).for_each(|_| assert!(!push(events, own, 1, &event(0))));
                    });
                    while !is_full() {
                        if first(events).is_some() {
                            let now = held.load(Ordering::Relaxed) + 1;
                            holds(events, now);
                            remove_first(events);
                            held.store(now, Ordering::Relaxed);
                        }
                    }
                });
                assert_eq!((round, unread(events)), (round, 0));
            }
        });
    }

    #[test]
    fn who_dies_while_adding_takes_no_place() {
        let mut child = std::process::Command::new("true").spawn().expect("true");
        let (dead, own) = (child.id(), std::process::id());
        child.wait().expect("wait");
        ring(1, |events| {
            let held = events.lock.acquire(dead).expect("free");
            events.incoming.store(1, Ordering::Relaxed);
            // Its program ends here: nobody lets go.
            let _kept = core::mem::ManuallyDrop::new(held);
            assert!(!holds(events, 1));
            restore(events, own);
            assert!(holds(events, 1));
        });
    }
}
