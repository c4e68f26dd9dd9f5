//! Communicators found in maps, with the checks that the engine makes of a write.

use std::sync::Mutex;

const SLOTS: usize = 256;
const ACTIVE: u32 = 1 << 31;

/// What a receive waits for.
#[derive(Clone, Copy, Default)]
struct Receive {
    want: u8,
    have: u8,
    rails: u8,
    bytes: u64,
}

/// A communicator: a window of sequence numbers and its receives.
pub(crate) struct Peer {
    is_open: bool,
    oldest: u16,
    next: u16,
    window: Box<[u32; SLOTS]>,
    receives: Vec<Receive>,
    free: Vec<u32>,
}

/// Longest message, as a receive says it.
const LEN: u64 = 1 << 20;

impl Peer {
    pub(crate) fn new() -> Self {
        Self {
            is_open: true,
            oldest: 0,
            next: 0,
            window: Box::new([0; SLOTS]),
            receives: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Posts a receive; returns its number.
    pub(crate) fn post(&mut self) -> u16 {
        let at = self.free.pop().unwrap_or_else(|| {
            self.receives.push(Receive::default());
            u32::try_from(self.receives.len() - 1).unwrap()
        });
        self.receives[at as usize] = Receive::default();
        let seq = self.next;
        self.window[usize::from(seq) % SLOTS] = ACTIVE | at;
        self.next = (seq + 1) & 0x3FF;
        seq
    }

    /// A write of a message of `count` segments; whether it was the last, or `None` if it is wrong.
    #[inline]
    pub(crate) fn land(&mut self, seq: u16, count: u8, rail: u8, len: u64) -> Option<bool> {
        let ahead = seq.wrapping_sub(self.oldest) & 0x3FF;
        if !self.is_open || usize::from(ahead) >= SLOTS {
            return None;
        }
        let word = self.window[usize::from(seq) % SLOTS];
        let receive = self.receives.get_mut((word & !ACTIVE) as usize)?;
        let is_known = receive.want == 0 || receive.want == count;
        if word & ACTIVE == 0 || count == 0 || !is_known || receive.have == count {
            return None;
        }
        receive.want = count;
        receive.have += 1;
        receive.rails |= 1 << (rail & 3);
        receive.bytes += len;
        (receive.bytes <= LEN).then_some(receive.have == count)
    }

    /// Takes the oldest.
    pub(crate) fn take(&mut self) {
        let word = core::mem::take(&mut self.window[usize::from(self.oldest) % SLOTS]);
        self.free.push(word & !ACTIVE);
        self.oldest = (self.oldest + 1) & 0x3FF;
    }
}

/// How communicators are found.
pub(crate) trait Find {
    fn with<R>(&mut self, id: u32, work: impl FnOnce(&mut Peer) -> R) -> Option<R>;
}

pub(crate) struct Dash(dashmap::DashMap<u32, Mutex<Peer>>);
pub(crate) struct Papaya(papaya::HashMap<u32, Mutex<Peer>>);
pub(crate) struct Locked(Mutex<hashbrown::HashMap<u32, Peer>>);

impl Find for Dash {
    #[inline]
    fn with<R>(&mut self, id: u32, work: impl FnOnce(&mut Peer) -> R) -> Option<R> {
        let peer = self.0.get(&id)?;
        Some(work(&mut peer.lock().unwrap()))
    }
}

impl Find for Papaya {
    #[inline]
    fn with<R>(&mut self, id: u32, work: impl FnOnce(&mut Peer) -> R) -> Option<R> {
        let map = self.0.pin();
        let peer = map.get(&id)?;
        Some(work(&mut peer.lock().unwrap()))
    }
}

impl Find for Locked {
    #[inline]
    fn with<R>(&mut self, id: u32, work: impl FnOnce(&mut Peer) -> R) -> Option<R> {
        let mut map = self.0.lock().unwrap();
        Some(work(map.get_mut(&id)?))
    }
}

impl Dash {
    pub(crate) fn new(count: u32) -> Self {
        Self((0..count).map(|id| (id, Mutex::new(Peer::new()))).collect())
    }
}

impl Papaya {
    pub(crate) fn new(count: u32) -> Self {
        Self((0..count).map(|id| (id, Mutex::new(Peer::new()))).collect())
    }
}

impl Locked {
    pub(crate) fn new(count: u32) -> Self {
        Self(Mutex::new((0..count).map(|id| (id, Peer::new())).collect()))
    }
}
