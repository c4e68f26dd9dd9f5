//! The network between the two hosts, small enough to be compared: operations under way, and what has
//! become of each message.

use core::hash::{Hash, Hasher};

use ofi_rdma::{Lane, RxId, Token, Wire};

use super::hasher::Mixer;
use super::scene::Scene;

/// Host of the sender, and side of it.
pub(super) const SEND: usize = 0;
/// See [`SEND`].
pub(super) const RECV: usize = 1;

/// Where the buffer of message `k` of a side begins: one region a side, with room between.
pub(super) const fn buffer(side: usize, k: u8) -> u64 {
    ((side as u64 + 1) << 32) | (k as u64) << 16
}

/// The message whose buffer an address of a side lies in, and the offset there.
pub(super) fn message_of(side: usize, addr: u64) -> Option<(u8, u32)> {
    let rest = addr.checked_sub(buffer(side, 0))?;
    let k = u8::try_from(rest >> 16).ok()?;
    Some((k, u32::try_from(rest & 0xFFFF).ok()?))
}

/// The key of the receiver's region on a rail.
pub(super) const fn key(rail: u8) -> u64 {
    0x40 + rail as u64
}

/// One operation under way.
#[derive(Clone, Debug)]
pub(super) struct Flight {
    pub(super) from: usize,
    pub(super) lane: Lane,
    pub(super) wire: Wire,
    /// `None`: nobody waits for a completion (injected, or a repetition).
    pub(super) token: Option<Token>,
    pub(super) bytes: Vec<u8>,
    /// The message it belongs to, if it carries one.
    pub(super) k: Option<u8>,
    /// It took effect at its target (or never will).
    pub(super) landed: bool,
    /// Its completion was given to the engine that posted it.
    pub(super) completed: bool,
}

impl Flight {
    /// A read of the host's own memory: its effect is its completion.
    pub(super) const fn is_local(&self) -> bool {
        matches!(self.wire, Wire::EagerCopy { .. } | Wire::FlushRead { .. })
    }

    /// Nothing more will come of it.
    pub(super) const fn is_over(&self) -> bool {
        self.landed && (self.completed || self.token.is_none())
    }

    fn digest(&self) -> u64 {
        let mut mixer = Mixer::default();
        (self.from, self.lane, self.token, &self.bytes).hash(&mut mixer);
        (self.k, self.landed, self.completed).hash(&mut mixer);
        match self.wire {
            Wire::Control { len, .. } => len.hash(&mut mixer),
            Wire::Eager { addr, len, imm, .. } => (addr, len, imm).hash(&mut mixer),
            Wire::Write {
                addr,
                len,
                remote_addr,
                data,
                ..
            } => (addr, len, remote_addr, data).hash(&mut mixer),
            Wire::EagerCopy { rx, len, addr, .. } => (rx, len, addr).hash(&mut mixer),
            Wire::FlushRead { addr, .. } => addr.hash(&mut mixer),
            Wire::Put { .. } | Wire::Get { .. } => {}
        }
        mixer.finish()
    }
}

/// What became of one message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Fortune {
    /// By side: the request was made, and is done.
    pub(super) started: [bool; 2],
    pub(super) done: [bool; 2],
    /// Bytes that landed in the receiver's buffer, and the offsets (in stripes) where segments did.
    pub(super) landed: u32,
    pub(super) places: u16,
}

/// The network, and the truth about what it carried.
#[derive(Clone, Debug)]
pub(super) struct Net {
    pub(super) flights: Vec<Flight>,
    pub(super) fortunes: Vec<Fortune>,
    /// Bounce buffers of the receiver: the message in each that the engine holds.
    pub(super) bounce: [Option<u8>; 8],
    /// Which sides called close, and whose region is gone.
    pub(super) closed: [bool; 2],
    pub(super) gone: bool,
    /// Something happened that may fail the connection.
    pub(super) tainted: bool,
    /// Receives are done before their data comes.
    pub(super) optional: bool,
    pub(super) errors_left: u8,
    pub(super) repeats_left: u8,
    pub(super) busy_left: u8,
    /// The lane that is busy.
    pub(super) busy: Option<(usize, Lane)>,
    /// The first thing that is wrong.
    pub(super) wrong: Option<String>,
}

impl Net {
    pub(super) fn new(scene: &Scene) -> Self {
        Self {
            flights: Vec::new(),
            fortunes: vec![Fortune::default(); scene.messages.len()],
            bounce: [None; 8],
            closed: [false; 2],
            gone: false,
            tainted: false,
            optional: scene.optional,
            errors_left: scene.errors,
            repeats_left: scene.repeats,
            busy_left: scene.busy,
            busy: None,
            wrong: None,
        }
    }

    pub(super) fn violation(&mut self, what: String) {
        self.wrong.get_or_insert(what);
    }

    pub(super) fn fortune(&mut self, k: u8) -> Option<&mut Fortune> {
        self.fortunes.get_mut(usize::from(k))
    }

    /// `len` bytes are written at `offset` of the receive of message `k`, which may be over if it is optional.
    pub(super) fn bytes_land(&mut self, (k, offset): (u8, u32), len: u32, optional: bool) {
        let place = 1_u16 << (offset / 128).min(15);
        let Some(fortune) = self.fortune(k) else {
            return self.violation("bytes land nowhere".into());
        };
        let late = fortune.done[RECV] && !optional;
        if !fortune.started[RECV] || late || fortune.places & place != 0 {
            let what = format!("message {k}: bytes land at {offset} of {fortune:?}");
            return self.violation(what);
        }
        fortune.places |= place;
        fortune.landed += len;
    }

    /// Operations that are over are forgotten.
    pub(super) fn sweep(&mut self) {
        self.flights.retain(|flight| !flight.is_over());
    }

    /// A free bounce buffer for message `k`.
    pub(super) fn hold(&mut self, rail: u8, k: u8) -> Option<RxId> {
        let at = self.bounce.iter().position(Option::is_none)?;
        self.bounce[at] = Some(k);
        let index = u32::try_from(at).ok()?;
        Some(RxId { rail, index })
    }

    /// The message in a bounce buffer.
    pub(super) fn held(&self, rx: RxId) -> Option<u8> {
        let at = usize::try_from(rx.index).ok()?;
        self.bounce.get(at).copied().flatten()
    }

    /// A bounce buffer is posted again. False when nobody held it.
    pub(super) fn release(&mut self, rx: RxId) -> bool {
        let at = usize::try_from(rx.index).unwrap_or(usize::MAX);
        self.bounce.get_mut(at).and_then(Option::take).is_some()
    }
}

impl Hash for Net {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // The order in which operations were posted is not the order of anything.
        let sum = self
            .flights
            .iter()
            .fold(0_u64, |sum, flight| sum.wrapping_add(flight.digest()));
        (sum, self.flights.len(), &self.fortunes, self.bounce).hash(state);
        (self.closed, self.gone, self.tainted).hash(state);
        (self.errors_left, self.repeats_left, self.busy_left).hash(state);
        self.busy.hash(state);
    }
}
