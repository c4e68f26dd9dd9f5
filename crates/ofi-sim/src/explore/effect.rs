//! What operations do where they land, and what has to be true of it.

use ofi_rdma::{Dialect, RxFate, Wire};

use super::net::{RECV, SEND, message_of};
use super::scene::Scene;
use super::state::{Asked, State, place, region};
use crate::config::Sabotage;

impl<D: Dialect> State<D> {
    /// An operation takes effect at its target, which is told.
    pub(super) fn land(&mut self, scene: &Scene, at: usize) {
        let flight = &mut self.net.flights[at];
        flight.landed = true;
        let (to, rail) = (1 - flight.from, flight.lane.rail());
        let sabotage = scene.sabotage;
        match flight.wire {
            // CTRL is what is lost: it is shorter than what connects.
            Wire::Control { len, .. } if sabotage == Sabotage::DropControl && len < 100 => {}
            Wire::Control { .. } => {
                let bytes = core::mem::take(&mut flight.bytes);
                self.engines[to].on_control(&bytes);
                self.net.flights[at].bytes = bytes;
            }
            Wire::Eager { len, imm, .. } => self.land_eager(at, (imm, len)),
            Wire::Write { data, len, .. } => {
                self.take_effect(scene, at);
                let len = len + u64::from(sabotage == Sabotage::WrongLength);
                let times = match sabotage {
                    Sabotage::DropImmediate => 0,
                    Sabotage::DoubleImmediate => 2,
                    _ => 1,
                };
                for data in data
                    .into_iter()
                    .flat_map(|data| core::iter::repeat_n(data, times))
                {
                    self.engines[to].on_remote_write(rail, data, Some(len));
                }
            }
            _ => {}
        }
        self.drain(scene, to);
    }

    fn land_eager(&mut self, at: usize, (imm, len): (u32, u32)) {
        let flight = &self.net.flights[at];
        let (rail, k) = (flight.lane.rail(), flight.k.unwrap_or(u8::MAX));
        let Some(rx) = self.net.hold(rail, k) else {
            return self.net.violation("no receive buffer is left".into());
        };
        if self.engines[RECV].on_eager(imm, len, rx) == RxFate::Repost {
            self.net.release(rx);
        }
    }

    /// The receiver's memory is gone. The write came in time, and only its completion is late; or it
    /// fails.
    pub(super) fn land_gone(&mut self, scene: &Scene, at: usize, in_time: bool) {
        let flight = &mut self.net.flights[at];
        flight.landed = true;
        let (rail, from, token) = (flight.lane.rail(), flight.from, flight.token);
        match (flight.wire, token.filter(|_| !flight.completed)) {
            (
                Wire::Write {
                    data: Some(data),
                    len,
                    ..
                },
                _,
            ) if in_time => {
                self.engines[RECV].on_remote_write(rail, data, Some(len));
                self.drain(scene, RECV);
            }
            (_, Some(token)) if !in_time => {
                flight.completed = true;
                self.engines[from].on_failed(token, ofi_rdma::Cause::errno(5));
                self.drain(scene, from);
            }
            _ => self.net.sweep(),
        }
    }

    /// Bytes arrive in the receiver's buffer.
    pub(super) fn take_effect(&mut self, scene: &Scene, at: usize) {
        let flight = &self.net.flights[at];
        let astray = 64 * u64::from(scene.sabotage == Sabotage::Misplace);
        let (from, addr, len) = match flight.wire {
            Wire::Write {
                addr,
                remote_addr,
                len,
                ..
            } => (
                message_of(SEND, addr),
                remote_addr + astray,
                u32::try_from(len).unwrap_or(u32::MAX),
            ),
            Wire::EagerCopy { rx, addr, len, .. } => (self.net.held(rx).map(|k| (k, 0)), addr, len),
            _ => return,
        };
        let copies = matches!(flight.wire, Wire::EagerCopy { .. });
        if self.net.closed[RECV] {
            if copies && self.engines[RECV].region_refs(region(RECV)) == 0 {
                self.net
                    .violation("a copy into memory that nobody holds".into());
            }
            return;
        }
        let to = message_of(RECV, addr);
        let Some((k, offset)) = to.filter(|_| to == from) else {
            let what = format!("bytes of {from:?} land at {to:?}");
            return self.net.violation(what);
        };
        self.net.bytes_land((k, offset), len, scene.optional);
    }

    /// A request is done: everything about it has to be true.
    pub(super) fn done(&mut self, scene: &Scene, side: usize, asked: Asked, bytes: u64) {
        let Asked { k, is_flush, .. } = asked;
        if is_flush {
            if bytes != 0 {
                self.net.violation(format!("a flush says {bytes} bytes"));
            }
            return;
        }
        let moved = scene.moved(k);
        let early = scene.optional && side == RECV;
        let expected = if early { 0 } else { u64::from(moved) };
        let flying = self.net.flights.iter().any(|flight| {
            flight.from == side
                && flight.k == Some(k)
                && !flight.completed
                && flight.token.is_some()
        });
        let Some(fortune) = self.net.fortune(k) else {
            return;
        };
        let whole = side == SEND || early || fortune.landed == moved;
        fortune.done[side] = true;
        if bytes != expected || flying || !whole {
            let what = format!("side {side}, message {k}: done with {bytes} bytes, {fortune:?}");
            self.net.violation(what);
        }
        if side == RECV && scene.flush {
            self.flush(scene, k);
        }
    }

    fn flush(&mut self, scene: &Scene, k: u8) {
        let Some(comm) = self.sides[RECV].comm else {
            return;
        };
        let (addr, _) = place(scene, RECV, k);
        match self.engines[RECV].flush(comm, addr, region(RECV)) {
            Ok(req) => {
                let is_flush = true;
                self.sides[RECV].pending.push(Asked { k, req, is_flush });
            }
            Err(ofi_rdma::Error::Failed(_)) => {}
            Err(error) => self.net.violation(format!("flush: {error}")),
        }
    }
}
