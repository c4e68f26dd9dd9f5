//! What may happen next, and what it does.

use core::fmt;

use ofi_rdma::{Admission, Cause, Dialect, Error, Lane, NotNow, RecvBuf, SendBuf, Test};

use super::net::{RECV, SEND};
use super::scene::{BOUND_MS, Scene};
use super::state::{Asked, Phase, State, keys, place, region};
use crate::config::Sabotage;

/// One step of somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    /// An operation takes effect at its target, which is told.
    Land(usize),
    /// A write finds its target's memory gone, or landed just before that.
    LandGone { flight: usize, in_time: bool },
    /// An operation completes at its source.
    Complete(usize),
    /// It completes with an error; what it did is done, or never will be.
    Fail { flight: usize, lands: bool },
    /// A control message comes twice.
    Repeat(usize),
    /// The sender connects.
    Connect,
    /// A side asks whether it is connected.
    Poll(usize),
    /// A side asks for its next message.
    Ask(usize),
    /// A side tests one of its requests.
    Test { side: usize, at: usize },
    /// A side closes.
    Close(usize),
    /// A lane is busy from now on, or free again.
    Busy(usize, Lane),
    /// See [`Move::Busy`].
    Free,
    /// A progress pass, with posts waiting.
    Pump(usize),
    /// Nothing else can happen: time passes.
    Wait,
}

impl Move {
    /// Whether it brings things forward whatever the adversary does: what it does not have to do is
    /// nothing that anybody may wait for.
    pub(super) fn is_owed<D: Dialect>(self, state: &State<D>) -> bool {
        match self {
            Self::Fail { .. } | Self::Repeat(_) | Self::Busy(..) => false,
            Self::Close(side) => state.sides[side].failed || state.has_finished(side),
            _ => true,
        }
    }
}

impl fmt::Display for Move {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl<D: Dialect> State<D> {
    /// All that may happen next.
    pub(super) fn moves(&self, scene: &Scene, out: &mut Vec<Move>) {
        out.clear();
        self.moves_of_net(scene, out);
        for side in [SEND, RECV] {
            self.moves_of(scene, side, out);
        }
    }

    fn moves_of_net(&self, scene: &Scene, out: &mut Vec<Move>) {
        for (at, flight) in self.net.flights.iter().enumerate() {
            if !flight.landed {
                self.landings(at, out);
            }
            if flight.token.is_some() && !flight.completed {
                out.push(Move::Complete(at));
                if self.net.errors_left > 0 {
                    let lands = true;
                    out.push(Move::Fail { flight: at, lands });
                    if !flight.landed {
                        let lands = false;
                        out.push(Move::Fail { flight: at, lands });
                    }
                }
            }
            if !flight.landed && !flight.bytes.is_empty() && self.net.repeats_left > 0 {
                out.push(Move::Repeat(at));
            }
        }
        if self.net.busy.is_some() {
            out.push(Move::Free);
        } else if self.net.busy_left > 0 {
            for host in [SEND, RECV] {
                out.push(Move::Busy(host, Lane::control(0)));
                out.extend((0..scene.rails).map(|rail| Move::Busy(host, Lane::data(rail))));
            }
        }
    }

    fn landings(&self, at: usize, out: &mut Vec<Move>) {
        let writes = matches!(self.net.flights[at].wire, ofi_rdma::Wire::Write { .. });
        if writes && self.net.gone {
            let gone = |in_time| Move::LandGone {
                flight: at,
                in_time,
            };
            out.extend([gone(true), gone(false)]);
        } else {
            out.push(Move::Land(at));
        }
    }

    fn moves_of(&self, scene: &Scene, side: usize, out: &mut Vec<Move>) {
        let caller = &self.sides[side];
        match caller.phase {
            Phase::Closed => {}
            Phase::Idle => out.push(Move::Connect),
            Phase::Opening if !caller.failed => out.push(Move::Poll(side)),
            Phase::Open if !caller.failed => {
                if caller.next < scene.count() {
                    out.push(Move::Ask(side));
                }
                out.extend((0..caller.pending.len()).map(|at| Move::Test { side, at }));
            }
            Phase::Opening | Phase::Open => {}
        }
        let may = scene.may_close || self.net.tainted || caller.failed || self.has_finished(side);
        if may && caller.phase != Phase::Closed {
            out.push(Move::Close(side));
        }
        if self.engines[side].posts_waiting() > 0 {
            out.push(Move::Pump(side));
        }
    }

    /// Does it.
    pub(super) fn apply(&mut self, scene: &Scene, what: Move) {
        match what {
            Move::Land(at) => self.land(scene, at),
            Move::LandGone { flight, in_time } => self.land_gone(scene, flight, in_time),
            Move::Complete(at) => self.complete(scene, at),
            Move::Fail { flight, lands } => self.fail(scene, flight, lands),
            Move::Repeat(at) => {
                self.net.repeats_left -= 1;
                let mut twin = self.net.flights[at].clone();
                twin.token = None;
                self.net.flights.push(twin);
            }
            Move::Connect => self.connect(scene),
            Move::Poll(side) => self.poll(scene, side),
            Move::Ask(side) => self.ask(scene, side),
            Move::Test { side, at } => self.test(scene, side, at),
            Move::Close(side) => self.close(scene, side),
            Move::Busy(host, lane) => {
                self.net.busy_left -= 1;
                self.net.busy = Some((host, lane));
            }
            Move::Free => {
                if let Some((host, _)) = self.net.busy.take() {
                    self.drain(scene, host);
                }
            }
            Move::Pump(host) => self.drain(scene, host),
            Move::Wait => self.wait(scene),
        }
    }

    fn complete(&mut self, scene: &Scene, at: usize) {
        let flight = &mut self.net.flights[at];
        let (from, token, local) = (flight.from, flight.token, flight.is_local());
        flight.completed = true;
        if local {
            self.take_effect(scene, at);
        }
        let writes = matches!(self.net.flights[at].wire, ofi_rdma::Wire::Write { .. });
        let lost = writes && scene.sabotage == Sabotage::DropCompletion;
        if let Some(token) = token.filter(|_| !lost) {
            self.engines[from].on_local(token);
        }
        self.drain(scene, from);
    }

    fn fail(&mut self, scene: &Scene, at: usize, lands: bool) {
        self.net.errors_left -= 1;
        self.net.tainted = true;
        let flight = &mut self.net.flights[at];
        flight.completed = true;
        flight.landed |= !lands;
        if let (from, Some(token)) = (flight.from, flight.token) {
            self.engines[from].on_failed(token, Cause::errno(5));
            self.drain(scene, from);
        }
    }

    fn connect(&mut self, scene: &Scene) {
        let (target, now_ms) = (self.target(), self.now_ms);
        let (engine, mut port) = self.at(scene, SEND);
        match engine.connect(now_ms, &mut port, &target) {
            Ok(comm) => self.sides[SEND].comm = Some(comm),
            Err(error) => self.net.violation(format!("connect: {error}")),
        }
        self.sides[SEND].phase = Phase::Opening;
        self.drain(scene, SEND);
    }

    fn poll(&mut self, scene: &Scene, side: usize) {
        let (Some(comm), now_ms) = (self.sides[side].comm, self.now_ms) else {
            return;
        };
        let (engine, mut port) = self.at(scene, side);
        let answer = if side == SEND {
            let up = engine.poll_connect(comm, now_ms, &mut port);
            up.map(|up| up.then_some(comm))
        } else {
            engine.poll_accept(comm, now_ms, &mut port)
        };
        match answer {
            Ok(None) => {}
            Ok(Some(up)) => {
                if side == RECV {
                    self.close_comm(side);
                }
                self.sides[side].comm = Some(up);
                self.sides[side].phase = Phase::Open;
            }
            Err(error) => self.failed(side, &error),
        }
        self.drain(scene, side);
    }

    fn ask(&mut self, scene: &Scene, side: usize) {
        let (Some(comm), k) = (self.sides[side].comm, self.sides[side].next) else {
            return;
        };
        let ((addr, len), region) = (place(scene, side, k), region(side));
        let answer = if side == SEND {
            self.engines[side].isend(comm, SendBuf { addr, len, region })
        } else {
            let recv = RecvBuf {
                addr,
                len,
                region,
                wire_addr: addr,
                keys: keys(scene),
                optional: scene.optional,
            };
            self.engines[side].irecv(comm, &recv)
        };
        match answer {
            Ok(Admission::Admitted(req)) => {
                let is_flush = false;
                self.sides[side].pending.push(Asked { k, req, is_flush });
                self.sides[side].next += 1;
                if let Some(fortune) = self.net.fortune(k) {
                    fortune.started[side] = true;
                }
            }
            Ok(Admission::NotNow(why)) => self.judge_not_now(side, why),
            Err(error) => self.failed(side, &error),
        }
        self.drain(scene, side);
    }

    fn judge_not_now(&mut self, side: usize, why: NotNow) {
        let true_reason = match why {
            NotNow::InFlightCap => {
                let oldest = self.sides[side].pending.iter().map(|asked| asked.k).min();
                oldest.is_some_and(|k| self.sides[side].next - k >= inflight::<D>())
            }
            NotNow::PostsWaiting => self.engines[side].posts_waiting() > 0,
            NotNow::Connecting | NotNow::ProviderBusy => false,
        };
        if !true_reason {
            self.net
                .violation(format!("side {side}: {why:?} is not true"));
        }
    }

    fn test(&mut self, scene: &Scene, side: usize, at: usize) {
        let asked = self.sides[side].pending[at];
        let answer = match self.engines[side].test(asked.req) {
            Ok(Test::Done(done)) => Ok(Some(done)),
            Ok(Test::Pending { .. }) => self.engines[side].recheck(asked.req),
            Err(error) => Err(error),
        };
        match answer {
            Ok(None) => {}
            Ok(Some(done)) => {
                self.sides[side].pending.remove(at);
                self.done(scene, side, asked, done.bytes);
            }
            Err(error) => self.failed(side, &error),
        }
        self.drain(scene, side);
    }

    fn close(&mut self, scene: &Scene, side: usize) {
        // Who closes with work left may make the other fail.
        self.net.tainted |= !self.has_finished(side);
        self.net.closed[side] = true;
        self.close_comm(side);
        let pending = core::mem::take(&mut self.sides[side].pending);
        for Asked { req, .. } in pending {
            if self.engines[side].test(req) != Err(Error::NoSuchRequest) {
                self.net
                    .violation("a request outlives its communicator".into());
            }
        }
        self.sides[side].phase = Phase::Closed;
        self.drain(scene, side);
    }

    fn close_comm(&mut self, side: usize) {
        let (Some(comm), now_ms) = (self.sides[side].comm.take(), self.now_ms) else {
            return;
        };
        let first = self.engines[side].close(comm, now_ms);
        let again = self.engines[side].close(comm, now_ms);
        if (first, again) != (Ok(()), Err(Error::NoSuchComm)) {
            self.net
                .violation(format!("close: {first:?}, then {again:?}"));
        }
    }

    /// A call failed: only what was hit may.
    fn failed(&mut self, side: usize, error: &Error) {
        self.sides[side].failed = true;
        if !self.net.tainted || !matches!(error, Error::Failed(_)) {
            self.net
                .violation(format!("side {side} failed, and nothing hit it: {error}"));
        }
    }

    /// Longer than every bound of the engine: who still waits after this waits for ever.
    fn wait(&mut self, scene: &Scene) {
        self.waits += 1;
        self.now_ms += 2 * BOUND_MS;
        for host in [SEND, RECV] {
            let now_ms = self.now_ms;
            // The first look notes that nothing moved since, the second that it is too long ago.
            self.engines[host].tick(now_ms);
            self.engines[host].tick(now_ms + 2 * BOUND_MS);
            self.drain(scene, host);
        }
        self.now_ms += 2 * BOUND_MS;
    }
}

const fn inflight<D: Dialect>() -> u8 {
    let [low, _] = D::INFLIGHT_MAX.to_le_bytes();
    low
}
