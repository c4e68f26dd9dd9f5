//! Messages that came before their receive, on the fabric `efa`: short ones with their bytes, long ones
//! announced, their bytes still with the sender.
//!
//! Under the endpoint's lock either a message finds its receive or it is added here, and either a
//! receive finds its message here or it is posted: what waits here fits nothing that is posted, so
//! messages of one sender match in their order, and none waits for another one's receive.
//!
//! An announced message may be lost: its sender dies, or gives it up. Its receive waits for others then, but
//! not for what the same sender sent after it. A message that is lost before it has a receive stays as
//! [`state::LOST`] until it meets the one that it would have had.

use core::slice::from_ref;
use core::sync::atomic::{AtomicU32, Ordering};

use super::layout::{BLOCKS, Block, Endpoint, Message, Segment, UNEXPECTED};
use super::presence::{NOBODY, is_there};
use super::receives::{self, By, Claim, Queue};
use super::room;

/// States of a place.
mod state {
    pub(super) const FREE: u32 = 0;
    /// The bytes are with the sender.
    pub(super) const ANNOUNCED: u32 = 1;
    /// The bytes are in a block.
    pub(super) const KEPT: u32 = 2;
    /// As announced; the sender has a receive to fill.
    pub(super) const MATCHED: u32 = 3;
    /// As kept; the owner has a receive to fill.
    pub(super) const DUE: u32 = 4;
    /// Was announced, and its bytes are nowhere any more.
    pub(super) const LOST: u32 = 5;
}

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) queue: Queue,
    pub(crate) tag: u64,
    pub(crate) len: u64,
    pub(crate) data: Option<u32>,
    /// As [`Happened::source`](super::events::Happened::source).
    pub(crate) source: [u64; 2],
}

/// Where a message of one's own waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    place: usize,
    serial: u64,
}

/// What became of a message whose bytes are with the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Waits,
    /// There is a receive: [`take`] it.
    Matched,
    /// The endpoint closed.
    Gone,
}

/// A message whose bytes are here, and its receive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Due {
    pub(crate) sent: Sent,
    pub(crate) claim: Claim,
    /// In which block the bytes are.
    pub(crate) block: usize,
    place: usize,
}

/// Places up to the last one that may be in use.
fn places(endpoint: &Endpoint) -> &[Message] {
    let high = endpoint.unexpected.high.load(Ordering::Relaxed) as usize;
    endpoint
        .unexpected
        .messages
        .get(..high.min(UNEXPECTED))
        .unwrap_or(&[])
}

/// Adds a message, its bytes in a block or with the sender. `None` if there are too many. Under the
/// endpoint's lock.
pub(crate) fn add(
    endpoint: &Endpoint,
    sent: &Sent,
    block: Option<(usize, &Block)>,
    own: u32,
) -> Option<Ticket> {
    let all = &endpoint.unexpected;
    let free = |message: &Message| message.state.load(Ordering::Relaxed) == state::FREE;
    let used = places(endpoint);
    let place = used.iter().position(free).unwrap_or(used.len());
    let into = all.messages.get(place)?;
    if place == used.len() {
        room::reserve(from_ref(into)).ok()?;
    }
    let serial = all.serial.load(Ordering::Relaxed).wrapping_add(1);
    all.serial.store(serial, Ordering::Relaxed);
    into.sender.store(own, Ordering::Relaxed);
    into.serial.store(serial, Ordering::Relaxed);
    let tagged = u32::from(sent.queue == Queue::Tagged);
    into.tagged.store(tagged, Ordering::Relaxed);
    into.tag.store(sent.tag, Ordering::Relaxed);
    into.len.store(sent.len, Ordering::Relaxed);
    let data = sent.data.map_or(0, |data| (1 << 32) | u64::from(data));
    into.data.store(data, Ordering::Relaxed);
    for (into, from) in into.source.iter().zip(sent.source) {
        into.store(from, Ordering::Relaxed);
    }
    let number = block.map_or(0, |(number, _)| number as u64);
    into.block.store(number, Ordering::Relaxed);
    let high = used.len().max(place + 1);
    let high = u32::try_from(high).unwrap_or(u32::MAX);
    all.high.store(high, Ordering::Relaxed);
    if let Some((_, block)) = block {
        block.user.store(BELONGS_HERE, Ordering::Relaxed);
    }
    let kind = block.map_or(state::ANNOUNCED, |_| state::KEPT);
    into.state.store(kind, Ordering::Release);
    Some(Ticket { place, serial })
}

fn of_ticket(endpoint: &Endpoint, ticket: Ticket) -> Option<(&Message, u32)> {
    // Of one that closed nothing is looked at: its pages are not there any more.
    if endpoint.enabled.load(Ordering::Acquire) == 0 {
        return None;
    }
    let message = endpoint.unexpected.messages.get(ticket.place)?;
    let state = message.state.load(Ordering::Acquire);
    (message.serial.load(Ordering::Relaxed) == ticket.serial).then_some((message, state))
}

/// How it stands with an announced message; one look, without the lock.
pub(crate) fn fate(endpoint: &Endpoint, ticket: Ticket) -> Fate {
    match of_ticket(endpoint, ticket) {
        Some((_, state::ANNOUNCED)) => Fate::Waits,
        Some((_, state::MATCHED)) => Fate::Matched,
        _ => Fate::Gone,
    }
}

fn claim_of(endpoint: &Endpoint, message: &Message) -> Claim {
    let place = message.receive.load(Ordering::Relaxed);
    receives::at(endpoint, read(message).queue, place)
}

/// The receive of an announced message, which is the sender's to fill now. Under the endpoint's lock.
pub(crate) fn take(endpoint: &Endpoint, ticket: Ticket) -> Option<Claim> {
    let (message, state::MATCHED) = of_ticket(endpoint, ticket)? else {
        return None;
    };
    let claim = claim_of(endpoint, message);
    message.state.store(state::FREE, Ordering::Relaxed);
    Some(claim)
}

/// Takes an announced message back; a receive that it has waits again. Under the endpoint's lock.
pub(crate) fn withdraw(endpoint: &Endpoint, ticket: Ticket) {
    // If the endpoint closed meanwhile, somebody else's message is there, or none.
    if let Some((message, state::ANNOUNCED | state::MATCHED)) = of_ticket(endpoint, ticket) {
        lose(endpoint, message);
    }
}

/// Gives an announced message up without the lock: to its owner it is one of the dead.
pub(crate) fn leave(endpoint: &Endpoint, ticket: Ticket) {
    if let Some((message, state::ANNOUNCED | state::MATCHED)) = of_ticket(endpoint, ticket) {
        message.sender.store(NOBODY, Ordering::Relaxed);
    }
}

/// Ends an announced message that will not come. A receive that it has waits again.
fn lose(endpoint: &Endpoint, message: &Message) {
    let lost = read(message);
    let serial = message.serial.load(Ordering::Relaxed);
    let has_later = places(endpoint).iter().any(|other| {
        let later = read(other);
        matches!(
            other.state.load(Ordering::Acquire),
            state::ANNOUNCED | state::KEPT
        ) && other.serial.load(Ordering::Relaxed) > serial
            && (later.queue, later.source) == (lost.queue, lost.source)
    });
    // A receive remembers whose message it had.
    let has_receive = message.state.load(Ordering::Relaxed) == state::MATCHED;
    if has_receive || !has_later {
        drop_message(endpoint, message);
    } else {
        message.state.store(state::LOST, Ordering::Relaxed);
    }
}

/// Ends a message; a receive that it has waits again.
fn drop_message(endpoint: &Endpoint, message: &Message) {
    let state = message.state.load(Ordering::Relaxed);
    if matches!(state, state::MATCHED | state::DUE) {
        receives::unclaim(endpoint, &claim_of(endpoint, message));
    }
    message.state.store(state::FREE, Ordering::Relaxed);
}

fn read(message: &Message) -> Sent {
    let data = message.data.load(Ordering::Relaxed);
    Sent {
        queue: match message.tagged.load(Ordering::Relaxed) {
            0 => Queue::Untagged,
            _ => Queue::Tagged,
        },
        tag: message.tag.load(Ordering::Relaxed),
        len: message.len.load(Ordering::Relaxed),
        data: (data >> 32 != 0).then(|| u32::try_from(data & 0xffff_ffff).unwrap_or(0)),
        source: message.source.each_ref().map(|s| s.load(Ordering::Relaxed)),
    }
}

/// Gives a receive that was just posted to the message that waits for it longest, if there is one. The
/// owner only, under the endpoint's lock.
pub(crate) fn meet(endpoint: &Endpoint, which: Queue, place: u64, own: u32) {
    let (message, sent, state) = loop {
        let Some((message, sent)) = first_for(endpoint, which, place) else {
            return;
        };
        let state = message.state.load(Ordering::Acquire);
        if state != state::LOST {
            break (message, sent, state);
        }
        // One receive for one lost message: the next one's is another.
        if !receives::note_lost(endpoint, which, place, sent.source) {
            return;
        }
        message.state.store(state::FREE, Ordering::Relaxed);
    };
    let (next, user) = match state {
        state::KEPT => (state::DUE, own),
        _ => (state::MATCHED, message.sender.load(Ordering::Relaxed)),
    };
    let source = sent.source;
    receives::claim_at(endpoint, which, place, By { user, source });
    message.receive.store(place, Ordering::Relaxed);
    message.state.store(next, Ordering::Release);
    if next == state::DUE {
        endpoint.unexpected.due.store(1, Ordering::Relaxed);
    }
}

/// The message that waits longest of those that this receive is for.
fn first_for(endpoint: &Endpoint, which: Queue, place: u64) -> Option<(&Message, Sent)> {
    let mut first: Option<(u64, &Message, Sent)> = None;
    let mut any = false;
    for message in places(endpoint) {
        let state = message.state.load(Ordering::Acquire);
        any |= state != state::FREE;
        if !matches!(state, state::ANNOUNCED | state::KEPT | state::LOST) {
            continue;
        }
        let sent = read(message);
        let serial = message.serial.load(Ordering::Relaxed);
        let is_first = first.is_none_or(|(best, ..)| serial < best);
        if sent.queue == which
            && is_first
            && receives::fits(endpoint, which, place, sent.tag)
            && !receives::came_back_from(endpoint, which, place, sent.source)
        {
            first = Some((serial, message, sent));
        }
    }
    if !any {
        endpoint.unexpected.high.store(0, Ordering::Relaxed);
    }
    first.map(|(_, message, sent)| (message, sent))
}

/// After receives came back that somebody had: which messages are they for? The owner only, under the
/// endpoint's lock.
pub(crate) fn meet_all(endpoint: &Endpoint, own: u32) {
    if endpoint.unexpected.look.swap(0, Ordering::Relaxed) == 0 {
        return;
    }
    for which in [Queue::Untagged, Queue::Tagged] {
        let waiting: Vec<u64> = receives::waiting(endpoint, which).collect();
        for place in waiting {
            meet(endpoint, which, place, own);
        }
    }
}

/// Whether receives came back, or messages are due. The owner's question at each poll.
pub(crate) fn needs_owner(endpoint: &Endpoint) -> bool {
    let all = &endpoint.unexpected;
    all.look.load(Ordering::Relaxed) != 0 || all.due.load(Ordering::Relaxed) != 0
}

/// Whether a receive came back and its message, if one waits, has not met it yet: senders must not
/// have it before.
pub(crate) fn is_unsettled(endpoint: &Endpoint) -> bool {
    endpoint.unexpected.look.load(Ordering::Relaxed) != 0
}

/// The oldest message that is due. The owner only, one thread at a time.
pub(crate) fn first_due(endpoint: &Endpoint) -> Option<Due> {
    let due = places(endpoint).iter().enumerate();
    let due = due.filter(|(_, message)| message.state.load(Ordering::Acquire) == state::DUE);
    let first = due.min_by_key(|(_, message)| message.serial.load(Ordering::Relaxed));
    let Some((place, message)) = first else {
        endpoint.unexpected.due.store(0, Ordering::Relaxed);
        return None;
    };
    let block = usize::try_from(message.block.load(Ordering::Relaxed)).unwrap_or(0);
    Some(Due {
        sent: read(message),
        claim: claim_of(endpoint, message),
        block: block % BLOCKS,
        place,
    })
}

/// Ends a message whose bytes are where they belong. Under the endpoint's lock.
pub(crate) fn delivered(segment: &Segment, endpoint: &Endpoint, due: &Due) {
    receives::finish(endpoint, &due.claim);
    release(&segment.blocks[due.block]);
    endpoint.unexpected.messages[due.place]
        .state
        .store(state::FREE, Ordering::Relaxed);
}

/// Forgets all messages; receives that they had wait again. The owner only, under the endpoint's lock.
pub(crate) fn clear(segment: &Segment, endpoint: &Endpoint) {
    for message in places(endpoint) {
        let state = message.state.load(Ordering::Acquire);
        if matches!(state, state::KEPT | state::DUE) {
            let block = usize::try_from(message.block.load(Ordering::Relaxed)).unwrap_or(0);
            release(&segment.blocks[block % BLOCKS]);
        }
        drop_message(endpoint, message);
    }
    for flag in [
        &endpoint.unexpected.high,
        &endpoint.unexpected.look,
        &endpoint.unexpected.due,
    ] {
        flag.store(0, Ordering::Relaxed);
    }
}

/// Gives back what room the messages had, once they are [`clear`]ed.
pub(crate) fn give_back(endpoint: &Endpoint) {
    room::give_back(&endpoint.unexpected.messages);
}

/// Gives announcements of the dead up; what is kept of theirs stays. The owner only, under the
/// endpoint's lock. Costs some 1 us for each sender that has messages here.
pub(crate) fn forget_dead(endpoint: &Endpoint) {
    let mut known = (0, true);
    for message in places(endpoint) {
        let state = message.state.load(Ordering::Acquire);
        if !matches!(state, state::ANNOUNCED | state::MATCHED) {
            continue;
        }
        let sender = message.sender.load(Ordering::Relaxed);
        if known.0 != sender {
            known = (sender, is_there(sender));
        }
        if !known.1 {
            lose(endpoint, message);
        }
    }
}

/// The block belongs to a message that is here.
const BELONGS_HERE: u32 = u32::MAX;

/// A block to fill. `None` if all are in use, or there is no room for another.
pub(crate) fn block(segment: &Segment, own: u32) -> Option<(usize, &Block)> {
    let is_ours = |user: &AtomicU32| {
        user.load(Ordering::Relaxed) == 0
            && user
                .compare_exchange(0, own, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
    };
    loop {
        let ready = room::ready(&segment.blocks, &segment.blocks_ready);
        let mut blocks = ready.iter().enumerate();
        let found = blocks.find(|(_, block)| is_ours(&block.user));
        if found.is_some() || !room::one_more(&segment.blocks, &segment.blocks_ready) {
            return found;
        }
    }
}

/// The reverse of [`block`].
pub(crate) fn release(block: &Block) {
    block.user.store(0, Ordering::Release);
}

/// Frees blocks whose senders died before they added the message.
pub(crate) fn release_dead(segment: &Segment) {
    for block in room::ready(&segment.blocks, &segment.blocks_ready) {
        let user = block.user.load(Ordering::Relaxed);
        if user == 0 {
            // Lowest first: behind the first free one there are few.
            break;
        }
        if user != BELONGS_HERE && !is_there(user) {
            release(block);
        }
    }
}
