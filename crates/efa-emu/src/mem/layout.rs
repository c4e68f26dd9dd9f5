//! The segment of a process: what is where in its file.
//!
//! Everything is an atomic, so a segment can be borrowed while others write it, and bytes of a peer
//! can at worst be wrong numbers. A fresh file is all zeros, which is a valid empty segment; pages
//! that nobody touches cost nothing.

use core::sync::atomic::{AtomicU32, AtomicU64};

use super::lock::Lock;

/// First word of a segment; the digits count the layout's versions.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"efaemu11");

/// Bits of a key that name the slot of its region; the others are its generation.
pub(crate) const REGION_BITS: u32 = 18;
/// Regions that a process can have.
pub(crate) const REGIONS: usize = 1 << REGION_BITS;
/// Operations that can use a process' regions at one time.
pub(crate) const HAZARDS: usize = 256;
/// Addresses that all address vectors of a process can have, with room for hashing.
pub(crate) const KNOWN: usize = 1 << 17;
/// Endpoints that a process can have.
pub(crate) const ENDPOINTS: usize = 1024;
/// NICs that a process can have.
pub(crate) const NICS: usize = crate::config::NICS_MAX;
/// Receives that an endpoint can have posted or being filled.
pub(crate) const RECEIVES: usize = 1 << 13;
/// Completion queues that endpoints of a process can receive into: one each.
pub(crate) const QUEUES: usize = ENDPOINTS;
/// Events that wait in shared memory until the owner of their queue takes them.
pub(crate) const EVENTS: usize = 1 << 13;
/// Messages that can wait at an endpoint for their receives.
pub(crate) const UNEXPECTED: usize = 1 << 11;
/// Messages that a process can keep the bytes of; further ones are announced only.
pub(crate) const BLOCKS: usize = 1 << 12;
/// Bytes of such a message; longer ones are announced only.
pub(crate) const BLOCK_BYTES: usize = 1 << 13;
/// Segments of one receive.
pub(crate) const RECEIVE_IOV: usize = 4;
/// Copies into or from one process that can be under way where the system permits no direct ones ..
pub(crate) const RELAYS: usize = PEERS * RELAYS_A_PEER;
/// .. and those of one peer: it may be stopped with them, and others have theirs ..
pub(crate) const RELAYS_A_PEER: usize = 8;
/// .. as long as no more peers than these are.
const PEERS: usize = 64;
/// Bytes of one such copy.
pub(crate) const RELAY_BYTES: usize = 1 << 16;

/// A segment. In every layout the magic, the process id and when it started are where they are here: by them
/// those of other versions are swept.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Segment {
    /// [`MAGIC`], written last.
    pub(crate) magic: AtomicU64,
    /// The owner, and when it started.
    pub(crate) pid: AtomicU32,
    /// [`Self::blocks`] that have room.
    pub(crate) blocks_ready: AtomicU32,
    pub(crate) started: AtomicU64,
    /// Whether a relay waits to be served; the owner's thread sleeps on it ([`super::wake`]).
    pub(crate) asked: AtomicU32,
    /// [`Self::relays`] that have room.
    pub(crate) relays_ready: AtomicU32,
    /// The owner, as it is among the users of shared memory ([`super::presence`]).
    pub(crate) user: AtomicU32,
    /// 1 while the owner's thread sleeps.
    pub(crate) asleep: AtomicU32,
    /// Counts the owner's own looks at relays: who looks needs nobody to wake it.
    pub(crate) looks: AtomicU32,
    pub(crate) padding: AtomicU32,
    /// [`nic_flags`] of the owner's NICs.
    pub(crate) nics: [AtomicU32; NICS],
    /// What peers moved by the owner's NICs, until it counts them.
    pub(crate) traffic: [Traffic; NICS],
    pub(crate) hazards: [AtomicU64; HAZARDS],
    pub(crate) regions: [Region; REGIONS],
    pub(crate) known: [AtomicU64; KNOWN],
    pub(crate) endpoints: [Endpoint; ENDPOINTS],
    /// What peers did, by the completion queue in which it shows.
    pub(crate) queues: [Events; QUEUES],
    pub(crate) relays: [Relay; RELAYS],
    pub(crate) blocks: [Block; BLOCKS],
}

/// Bytes that peers moved by a NIC, and that its owner has not counted yet.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Traffic {
    /// They wrote.
    pub(crate) written: AtomicU64,
    /// They read.
    pub(crate) read: AtomicU64,
}

/// A registered region. Only its owner writes it, but for `uses_left`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Region {
    /// [`LIVE`](super::regions::LIVE) and the key, or 0.
    pub(crate) key: AtomicU64,
    pub(crate) base: AtomicU64,
    pub(crate) len: AtomicU64,
    /// From the addresses by which peers name its bytes to those above, wrapping.
    pub(crate) shift: AtomicU64,
    /// Access bits of fi_mr(3), all below 2^32.
    pub(crate) access: AtomicU32,
    /// The domain it belongs to.
    pub(crate) domain: AtomicU32,
    /// Remote uses before the key is revoked, plus one; 0 for no such end.
    pub(crate) uses_left: AtomicU64,
}

/// An endpoint, as peers see it.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Endpoint {
    /// Guards claims of receives, and that it takes part when an event of it is added.
    pub(crate) lock: Lock,
    /// 1 while it takes part.
    pub(crate) enabled: AtomicU32,
    pub(crate) qkey: AtomicU32,
    pub(crate) nic: AtomicU32,
    pub(crate) domain: AtomicU32,
    /// The address vector that says whom it knows.
    pub(crate) vector: AtomicU32,
    /// [`flags`](super::layout::flags).
    pub(crate) flags: AtomicU32,
    /// Which of [`Segment::queues`] its events are in; 0 for none.
    pub(crate) queue: AtomicU32,
    pub(crate) padding: AtomicU32,
    /// Untagged and tagged.
    pub(crate) receives: [Receives; 2],
    pub(crate) unexpected: Unexpected,
}

/// The part of a completion queue that peers see: [`super::events`].
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Events {
    /// Guards the tail.
    pub(crate) lock: Lock,
    /// Entries that the queue holds, here and in its owner's memory.
    pub(crate) capacity: AtomicU32,
    /// Those in its owner's memory, and those that operations of the owner's are about to make.
    pub(crate) held: AtomicU32,
    /// 1 while one is being added here.
    pub(crate) incoming: AtomicU32,
    /// Events that have room.
    pub(crate) ready: AtomicU32,
    pub(crate) padding: AtomicU32,
    pub(crate) head: AtomicU64,
    pub(crate) tail: AtomicU64,
    pub(crate) all: [Event; EVENTS],
}

/// What a NIC is.
pub(crate) mod nic_flags {
    /// It is lost, or hangs: nobody gets an answer.
    pub(crate) const SILENT: u32 = 1;
}

/// What an endpoint is.
pub(crate) mod flags {
    /// Of the fabric efa-direct.
    pub(crate) const DIRECT: u32 = 1;
    /// Writes with immediate consume no posted receive.
    pub(crate) const UNSOLICITED: u32 = 2;
}

/// A queue of posted receives.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Receives {
    /// Position in the order of the first one that may wait.
    pub(crate) head: AtomicU64,
    /// Position of the next one to be posted.
    pub(crate) tail: AtomicU64,
    /// Places that are used, a power of two: no more pages become resident than it takes.
    pub(crate) places: AtomicU64,
    /// Where the owner looks for a free place first; 0 until something is posted.
    pub(crate) next: AtomicU64,
    /// Place of the receive at each position: the oldest one that fits is found first, and an old one
    /// that nothing fits is in nobody's way.
    pub(crate) order: [AtomicU32; 2 * RECEIVES],
    pub(crate) entries: [Receive; RECEIVES],
}

/// A posted receive.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Receive {
    /// [`super::receives::State`].
    pub(crate) state: AtomicU32,
    /// Who claimed it.
    pub(crate) claimer: AtomicU32,
    /// Its position in the order.
    pub(crate) position: AtomicU64,
    /// Whose message had it last ([`super::receives::By`]), 0 if nobody's.
    pub(crate) last: AtomicU64,
    /// The owner's context.
    pub(crate) context: AtomicU64,
    pub(crate) tag: AtomicU64,
    pub(crate) ignore: AtomicU64,
    /// With what it ends, if the plan says so: as [`Event::error`].
    pub(crate) fault: AtomicU64,
    /// Address, length, and [`LIVE`](super::regions::LIVE) with the key if one was given.
    pub(crate) iov: [[AtomicU64; 3]; RECEIVE_IOV],
}

/// Messages that came before their receives.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Unexpected {
    /// Places up to the last one that may be in use.
    pub(crate) high: AtomicU32,
    /// Whether receives came back that messages here may wait for.
    pub(crate) look: AtomicU32,
    /// Whether bytes here have a receive.
    pub(crate) due: AtomicU32,
    pub(crate) padding: AtomicU32,
    /// Counts messages.
    pub(crate) serial: AtomicU64,
    pub(crate) messages: [Message; UNEXPECTED],
}

/// A message that came before its receive.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) state: AtomicU32,
    /// Whose it is.
    pub(crate) sender: AtomicU32,
    /// Earlier messages have lower ones.
    pub(crate) serial: AtomicU64,
    pub(crate) tagged: AtomicU32,
    pub(crate) padding: AtomicU32,
    pub(crate) tag: AtomicU64,
    pub(crate) len: AtomicU64,
    /// Bit 32: whether there are any; below, the data.
    pub(crate) data: AtomicU64,
    /// As [`Event::source`].
    pub(crate) source: [AtomicU64; 2],
    /// Where the bytes are, if they are here.
    pub(crate) block: AtomicU64,
    /// Place of its receive, once it has one.
    pub(crate) receive: AtomicU64,
}

/// The bytes of a message that came before its receive.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Block {
    /// 0, who fills it, or all ones if it belongs to a message.
    pub(crate) user: AtomicU32,
    pub(crate) padding: AtomicU32,
    pub(crate) bytes: [AtomicU64; BLOCK_BYTES / 8],
}

/// Something that a peer's operation did to an endpoint.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Event {
    /// Bits of fi_cq(3).
    pub(crate) flags: AtomicU64,
    /// Of the receive that it used, or 0.
    pub(crate) context: AtomicU64,
    pub(crate) buf: AtomicU64,
    pub(crate) len: AtomicU64,
    pub(crate) data: AtomicU64,
    pub(crate) tag: AtomicU64,
    /// Who did it: segment, and NIC and number of the endpoint.
    pub(crate) source: [AtomicU64; 2],
    /// errno (low) and the provider's number (high), or 0.
    pub(crate) error: AtomicU64,
    /// Bytes that did not fit.
    pub(crate) excess: AtomicU64,
    /// Nanoseconds for which it does not show yet.
    pub(crate) late_ns: AtomicU64,
    /// What it is to its owner: bits of [`super::events`].
    pub(crate) marks: AtomicU64,
}

/// A copy that the owner of the memory makes for a peer.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Relay {
    /// Who uses it, or 0.
    pub(crate) user: AtomicU32,
    /// [`super::relay::Stage`].
    pub(crate) stage: AtomicU32,
    /// Where the bytes belong in the owner's memory.
    pub(crate) addr: AtomicU64,
    pub(crate) len: AtomicU64,
    /// [`LIVE`](super::regions::LIVE) and key of the region, or 0 for a claimed receive.
    pub(crate) key: AtomicU64,
    /// Endpoint, queue and place of the claimed receive.
    pub(crate) receive: AtomicU64,
    pub(crate) bytes: [AtomicU64; RELAY_BYTES / 8],
}

const _: () = {
    assert!(size_of::<Region>() == 48);
    assert!(size_of::<Receive>() == 152);
    assert!(size_of::<Event>() == 96);
    // Sparse, but the address space of 64 peers must hold it.
    assert!(size_of::<Segment>() < 4 << 30);
    assert!(RECEIVES.is_power_of_two() && EVENTS.is_power_of_two() && KNOWN.is_power_of_two());
    // Numbers of queue pairs have 16 bits.
    assert!(ENDPOINTS <= 1 << 16);
};
