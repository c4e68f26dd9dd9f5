//! What both sides do with a connection: verify, then measure. Each function is one side of a script that
//! the other side follows at the same time.

use std::time::Instant;

use ofi_net::ReqWord;
use serde::Serialize;

use super::cause::{Failure, Stage};
use super::lane::{LONGEST, Lane, WINDOW};
use super::talk::Talk;

/// Sizes that are verified: nothing, a word, eager, a stripe, several stripes.
const VERIFIED: [usize; 5] = [0, 8, 8192, 65_536, LONGEST];
/// Round trips of eight bytes.
const TRIPS: u32 = 200;
const WORD: usize = 8;
/// Messages of the longest size in each direction.
const MESSAGES: u32 = 48;
/// What stands in the room before a message comes.
const POISON: u8 = 0xee;

/// Which side of the script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Listener,
    Connector,
}

/// What came of one device.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    /// Number of the device, among those of its pass.
    pub(super) device: usize,
    /// Its NICs.
    pub(super) rails: Vec<String>,
    /// Each NIC on its own.
    pub(super) is_alone: bool,
    /// Half a round trip of eight bytes, microseconds.
    pub(super) latency_us: f64,
    /// 10^9 bytes a second from this host.
    pub(super) out_gbps: f64,
    /// And to it.
    pub(super) in_gbps: f64,
    pub(super) verified_bytes: u64,
}

/// The numbers of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Numbers {
    pub(super) latency_us: f64,
    pub(super) out_gbps: f64,
    pub(super) in_gbps: f64,
    pub(super) verified_bytes: u64,
}

/// Runs the whole script.
pub(super) fn all(lane: &Lane<'_>, side: Side, talk: &mut Talk) -> Result<Numbers, Failure> {
    let verified_bytes = verify(lane, side)?;
    talk.step("verified", 0.0)?;
    let latency_us = round_trips(lane, side)?;
    talk.step("latency", latency_us)?;
    let mut numbers = Numbers {
        latency_us,
        verified_bytes,
        ..Numbers::default()
    };
    for sender in [Side::Connector, Side::Listener] {
        let gbps = one_way(lane, side == sender, talk)?;
        match side == sender {
            true => numbers.out_gbps = gbps,
            false => numbers.in_gbps = gbps,
        }
    }
    Ok(numbers)
}

fn pattern(side: Side, len: usize) -> Vec<u8> {
    let first: u8 = match side {
        Side::Listener => 3,
        Side::Connector => 101,
    };
    let next = |byte: &u8| Some(byte.wrapping_mul(31).wrapping_add(7));
    core::iter::successors(Some(first), next)
        .take(len)
        .collect()
}

fn verify(lane: &Lane<'_>, side: Side) -> Result<u64, Failure> {
    let other = match side {
        Side::Listener => Side::Connector,
        Side::Connector => Side::Listener,
    };
    let mut verified = 0;
    for len in VERIFIED {
        lane.out.write(0, &pattern(side, len));
        lane.room.write(0, &vec![POISON; len + WORD]);
        lane.exchange(len)?;
        let mut got = vec![0; len + WORD];
        lane.room.read(0, &mut got);
        let mut wanted = pattern(other, len);
        wanted.extend([POISON; WORD]);
        if let Some(at) = (0..got.len()).find(|at| got[*at] != wanted[*at]) {
            let what = format!(
                "byte {at} of a message of {len} is {:#04x} and not {:#04x}",
                got[at], wanted[at]
            );
            return Err(Failure::new(Stage::Bytes, what));
        }
        verified += u64::try_from(len).unwrap_or(0);
    }
    Ok(verified)
}

/// Half a round trip, microseconds.
fn round_trips(lane: &Lane<'_>, side: Side) -> Result<f64, Failure> {
    let start = Instant::now();
    for _ in 0..TRIPS {
        let want = lane.start_recv(0, WORD)?;
        match side {
            Side::Connector => {
                let give = lane.start_send(0, WORD)?;
                lane.finish(want)?;
                lane.finish(give)?;
            }
            Side::Listener => {
                lane.finish(want)?;
                let give = lane.start_send(0, WORD)?;
                lane.finish(give)?;
            }
        }
    }
    Ok(start.elapsed().as_secs_f64() * 1e6 / f64::from(TRIPS) / 2.0)
}

/// 10^9 bytes a second of one direction; both sides get what the sender saw until all had arrived.
fn one_way(lane: &Lane<'_>, is_sender: bool, talk: &mut Talk) -> Result<f64, Failure> {
    let start = Instant::now();
    let mut slots: [Option<ReqWord>; WINDOW] = [None; WINDOW];
    for message in 0..MESSAGES {
        let slot = usize::try_from(message).unwrap_or(0) % WINDOW;
        if let Some(request) = slots[slot].take() {
            lane.finish(request)?;
        }
        slots[slot] = Some(match is_sender {
            true => lane.start_send(slot, LONGEST)?,
            false => lane.start_recv(slot, LONGEST)?,
        });
    }
    // The oldest first: the slot after the last one used.
    let first = usize::try_from(MESSAGES).unwrap_or(0) % WINDOW;
    for slot in (first..WINDOW).chain(0..first) {
        if let Some(request) = slots[slot].take() {
            lane.finish(request)?;
        }
    }
    talk.step("arrived", 0.0)?;
    let bytes = f64::from(MESSAGES) * f64::from(u32::try_from(LONGEST).unwrap_or(0));
    let seen = bytes / start.elapsed().as_secs_f64() / 1e9;
    let theirs = talk.step("bandwidth", seen)?;
    Ok(if is_sender { seen } else { theirs })
}

#[cfg(test)]
mod tests {
    use super::{Side, pattern};

    #[test]
    fn the_two_sides_send_different_bytes() {
        let (a, b) = (pattern(Side::Listener, 300), pattern(Side::Connector, 300));
        assert!(a.iter().zip(&b).filter(|(a, b)| a == b).count() < 10);
        assert!(pattern(Side::Listener, 0).is_empty());
    }
}
