//! What both sides know without telling each other: settings, lengths, bytes and keys of each message.

use crate::bytes::{NAME_LEN, Rng};

/// How both hosts are set up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) rails: usize,
    pub(crate) control_rails: usize,
    pub(crate) long_keys: bool,
    /// -1: off.
    pub(crate) our_eager: i64,
    pub(crate) their_eager: i64,
    pub(crate) early: bool,
    pub(crate) close_messages: bool,
    pub(crate) messages: u64,
    /// Messages that each side keeps in flight.
    pub(crate) window: usize,
}

/// What it sends.
#[derive(Clone, Debug)]
pub(crate) enum Out {
    Control {
        rail: usize,
        bytes: Vec<u8>,
    },
    Eager {
        rail: usize,
        imm: u32,
        bytes: Vec<u8>,
    },
    Write {
        rail: usize,
        imm: Option<u32>,
        addr: u64,
        key: u64,
        bytes: Vec<u8>,
    },
}

/// Who hears of the local completion of what it sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// CONN, CLOSE.
    Nobody,
    /// The answer to a CONN.
    Answer,
    /// A send.
    Send(u64),
    /// The CTRL of a receive.
    Recv(u64),
}

/// Which way messages go, seen from the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    ToPeer,
    ToUs,
}

/// Bytes of both ends of message `k`.
pub(crate) fn sizes(way: Way, k: u64) -> (usize, usize) {
    let mut rng = Rng(k << 1 | u64::from(way == Way::ToUs));
    let mut size = || match rng.below(10) {
        0 => 0,
        1 => [63, 64, 128, 512, 1024, 1025, 2048, 4096][rng.below(8)],
        _ => rng.below(5000),
    };
    let send = size();
    let recv = if size() % 3 == 0 { size() } else { send };
    (send, recv)
}

pub(crate) fn byte(way: Way, k: u64, at: usize) -> u8 {
    let salt = if way == Way::ToUs { 0x55 } else { 0 };
    let at = at as u64;
    ((k * 29) ^ (at * 131) ^ (at >> 8) ^ salt).to_le_bytes()[0]
}

pub(crate) fn content(way: Way, k: u64) -> Vec<u8> {
    (0..sizes(way, k).0).map(|at| byte(way, k, at)).collect()
}

/// The key of buffer `k` on a rail, or of one of the engine's.
pub(crate) fn key(setup: &Setup, way: Way, k: u64, rail: usize) -> u64 {
    let word = Rng(k << 8 ^ rail as u64 ^ u64::from(way == Way::ToUs) << 50).word();
    if setup.long_keys { word } else { word >> 32 }
}

impl Setup {
    /// A setup that the seed draws.
    pub(crate) fn draw(seed: u64, messages: u64) -> Self {
        let mut rng = Rng(seed ^ 0x5E70);
        let rails = 1 + rng.below(4);
        let eager = |rng: &mut Rng| [-1, 0, 64, 1000, 1024][rng.below(5)];
        let early = rng.percent(25);
        let (ours, theirs) = (eager(&mut rng), eager(&mut rng));
        // Nothing negotiates the size of eager buffers: with them off on one side they are on neither.
        let on = !early && ours >= 0 && theirs >= 0;
        Self {
            rails,
            control_rails: if rng.percent(50) { rails } else { 1 },
            long_keys: rng.percent(50),
            our_eager: if on { ours } else { -1 },
            their_eager: if on { theirs } else { -1 },
            early,
            close_messages: rng.percent(50),
            messages,
            window: [1, 2, 8, 32, 128][rng.below(5)],
        }
    }
}

/// Name of an endpoint of the peer: `[P, control?, rail, 9, ..]`.
pub(crate) fn name(control: bool, rail: u16) -> [u8; NAME_LEN] {
    let mut name = [9; NAME_LEN];
    (name[0], name[1], name[2]) = (b'P', u8::from(control), u8::try_from(rail).unwrap_or(0xFF));
    name
}
