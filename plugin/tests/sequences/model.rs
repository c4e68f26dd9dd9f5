//! What a sequence has made, and what must come of it.

use core::cell::UnsafeCell;
use std::sync::OnceLock;

/// Bytes that all buffers of a sequence come from.
const ARENA_BYTES: usize = 4 << 20;
/// Between buffers, and around them.
const GUARD_BYTES: usize = 64;
/// The longest message.
const MESSAGE_BYTES_MAX: usize = 160_000;
const TEXT_BYTES: usize = 2 * MESSAGE_BYTES_MAX;
/// What nobody has written.
const BLANK: u8 = 0xEE;

/// A listener, and the one connection that it gives.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) word: usize,
    pub(crate) handle: [u8; 128],
    pub(crate) is_open: bool,
    pub(crate) is_accepted: bool,
    /// Which dials were begun to it.
    pub(crate) dials: Vec<usize>,
    /// A side was closed, or something on it went wrong on purpose: calls on it may fail.
    pub(crate) is_hurt: bool,
}

/// A connect that was begun.
#[derive(Debug)]
pub(crate) struct Dial {
    pub(crate) handle: [u8; 128],
    pub(crate) listener: usize,
    pub(crate) state: Dialling,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialling {
    Pending,
    Up,
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Send,
    Recv,
}

/// A send or receive communicator.
#[derive(Debug)]
pub(crate) struct Comm {
    pub(crate) word: usize,
    pub(crate) side: Side,
    pub(crate) listener: usize,
    pub(crate) is_open: bool,
    /// Messages that were taken, in order.
    pub(crate) messages: Vec<Piece>,
    /// Requests that are not done.
    pub(crate) pending: usize,
}

/// A registered block of the arena.
#[derive(Debug)]
pub(crate) struct Region {
    pub(crate) word: usize,
    pub(crate) start: usize,
    pub(crate) len: usize,
    /// Bytes of it that were given out.
    used: usize,
    pub(crate) is_open: bool,
    /// Requests that may use it.
    pub(crate) uses: usize,
    /// The communicator that it was registered with.
    pub(crate) owner: usize,
}

/// A buffer in the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) start: usize,
    pub(crate) len: usize,
    pub(crate) region: Option<usize>,
}

/// What a request is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The message of this number of its communicator.
    Send(usize),
    /// The same; `true`: its completion may come before its bytes.
    Recv(usize, bool),
    Flush,
    /// One that the peer's NIC refuses.
    Doomed,
    /// Where to, and how many bytes.
    Write(Piece, usize),
    /// The piece holds what is to be read.
    Read(Piece),
}

impl Kind {
    /// The regions that a request may use until it is over: its own, and the peer's of a one-sided one.
    pub(crate) fn regions(&self, piece: &Piece) -> impl Iterator<Item = usize> + use<> {
        let remote = match self {
            Self::Write(remote, _) | Self::Read(remote) => remote.region,
            Self::Send(_) | Self::Recv(..) | Self::Flush | Self::Doomed => None,
        };
        piece.region.into_iter().chain(remote)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) word: usize,
    pub(crate) comm: usize,
    pub(crate) kind: Kind,
    pub(crate) piece: Piece,
}

/// Memory that the plugin and the network write to; never given back.
#[repr(align(4096))]
struct Memory(UnsafeCell<[u8; ARENA_BYTES]>);

// SAFETY: one sequence at a time uses it (`super::WORLD`), and what the network writes it writes in calls.
unsafe impl Sync for Memory {}

static MEMORY: Memory = Memory(UnsafeCell::new([BLANK; ARENA_BYTES]));

/// The buffers of a sequence.
#[derive(Debug, Default)]
pub(crate) struct Arena {
    used: usize,
}

impl Arena {
    /// A block for a region, if there is room.
    pub(crate) fn block(&mut self, len: usize) -> Option<usize> {
        let start = self.used;
        let end = start.checked_add(len)?.next_multiple_of(4096);
        (end <= ARENA_BYTES).then(|| {
            self.used = end;
            start
        })
    }

    /// Nothing is given out any more, and all of it is as in the beginning.
    pub(crate) fn reset(&mut self) {
        let all = at(0, self.used);
        // SAFETY: in the arena; nobody refers to it but by address.
        unsafe { all.write_bytes(BLANK, self.used) };
        self.used = 0;
    }
}

impl Region {
    pub(crate) const fn new(word: usize, (start, len): (usize, usize), owner: usize) -> Self {
        Self {
            word,
            start,
            len,
            used: 0,
            is_open: true,
            uses: 0,
            owner,
        }
    }

    /// A piece of it, if there is room, with guards around it.
    pub(crate) fn piece(&mut self, number: usize, len: usize) -> Option<Piece> {
        let start = self.used + GUARD_BYTES;
        (start + len + GUARD_BYTES <= self.len).then(|| {
            self.used = start + len;
            Piece {
                start: self.start + start,
                len,
                region: Some(number),
            }
        })
    }
}

/// The address of a place in the arena.
pub(crate) fn address(start: usize) -> usize {
    MEMORY.0.get().expose_provenance() + start
}

/// Its bytes from there on.
fn at(start: usize, len: usize) -> *mut u8 {
    assert!(start + len <= ARENA_BYTES, "in the arena");
    MEMORY.0.get().cast::<u8>().wrapping_add(start)
}

fn fill(start: usize, bytes: &[u8]) {
    let to = at(start, bytes.len());
    // SAFETY: in the arena; nobody refers to it but by address.
    unsafe { to.copy_from(bytes.as_ptr(), bytes.len()) };
}

fn matches(start: usize, bytes: &[u8]) -> bool {
    let from = at(start, bytes.len());
    // SAFETY: in the arena, whose bytes are all written; nobody writes to it during this call.
    let there = unsafe { core::slice::from_raw_parts(from, bytes.len()) };
    there == bytes
}

/// What all messages say, from different places on; never what nobody wrote.
fn text() -> &'static [u8] {
    static TEXT: OnceLock<Vec<u8>> = OnceLock::new();
    TEXT.get_or_init(|| {
        let byte = |i: usize| (i.wrapping_mul(0x9E37_79B1) >> 11).to_le_bytes()[0] & 0x7F;
        (0..TEXT_BYTES).map(byte).collect()
    })
}

/// The first bytes of message `number` of the connection of listener `listener`.
fn said(listener: usize, number: usize, len: usize) -> &'static [u8] {
    let salt = listener.wrapping_mul(1511) ^ number.wrapping_mul(293);
    let from = salt % (TEXT_BYTES - MESSAGE_BYTES_MAX);
    &text()[from..from + len]
}

static BLANKS: [u8; MESSAGE_BYTES_MAX + GUARD_BYTES] = [BLANK; MESSAGE_BYTES_MAX + GUARD_BYTES];

impl Piece {
    pub(crate) const NOTHING: Self = Self {
        start: 0,
        len: 0,
        region: None,
    };

    pub(crate) fn address(&self) -> usize {
        address(self.start)
    }

    pub(crate) fn write(&self, listener: usize, number: usize) {
        fill(self.start, said(listener, number, self.len));
    }

    /// Its first `len` bytes are those of that message, and the rest and what is behind it nobody wrote.
    pub(crate) fn holds(&self, len: usize, listener: usize, number: usize) -> bool {
        matches(self.start, said(listener, number, len)) && self.is_blank_from(len)
    }

    fn is_blank_from(&self, len: usize) -> bool {
        if self.region.is_none() {
            return true;
        }
        let behind = self.len - len + GUARD_BYTES;
        let before = &BLANKS[..GUARD_BYTES];
        matches(self.start + len, &BLANKS[..behind])
            && (len > 0 || matches(self.start - GUARD_BYTES, before))
    }

    /// Whether its first bytes are those of another piece.
    pub(crate) fn is_as(&self, other: &Self, len: usize) -> bool {
        let from = at(other.start, len);
        // SAFETY: in the arena, whose bytes are all written; nobody writes to it during this call.
        let bytes = unsafe { core::slice::from_raw_parts(from, len) };
        matches(self.start, bytes)
    }
}
