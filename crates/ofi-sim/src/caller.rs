//! The two callers of a link, small state machines over the engine's commands, with oracles.

use ofi_rdma::{Admission, CommKey, Dialect, Engine, Error, NotNow, RecvBuf, SendBuf, Test};

use crate::harvest::{drain, progress};
use crate::ledger::{RECV, Role, SEND};
use crate::link::{Link, Pending, Phase};
use crate::pattern::{GUARD, GUARD_BYTES, fill};
use crate::post::Port;
use crate::report::What;
use crate::world::World;

/// Requests that one turn starts, or tests in any order.
const PER_TURN: usize = 16;

/// How long after one side failed the other hears of it by other means, at most, nanoseconds.
const HEARSAY_NS: u64 = 2_000_000;

/// One side of one link, while its host has the processor.
pub(crate) struct Caller<'a, D: Dialect> {
    pub(crate) world: &'a mut World,
    pub(crate) engine: &'a mut Engine<D>,
    pub(crate) link: &'a mut Link,
    pub(crate) side: usize,
    /// A progress pass was made in this turn since a test asked for it.
    pub(crate) polled: bool,
}

impl<D: Dialect> Caller<'_, D> {
    /// One turn. True when it achieved something.
    pub(crate) fn turn(&mut self) -> bool {
        let phase = self.link.sides[self.side].phase;
        let overdue = self.link.sides[self.side]
            .abort_at
            .is_some_and(|at| self.world.now >= at);
        let moved = match phase {
            Phase::Over => return false,
            Phase::Draining => self.drained(),
            _ if overdue => self.abort(),
            Phase::Idle => self.begin(),
            Phase::Opening => self.opened(),
            Phase::Open => self.work(),
        };
        if moved {
            self.link.moved_at = self.world.now;
            let waiting = self.engine.posts_waiting() > 0;
            let World { report, ledger, .. } = &mut *self.world;
            let truth = ledger.link(self.link.index);
            report.coverage.see(self.link, truth, waiting);
        }
        moved
    }

    pub(crate) fn host(&self) -> u8 {
        self.link.hosts[self.side]
    }

    pub(crate) fn note(&mut self, what: What, b: u64) {
        let (host, link) = (self.host(), u64::from(self.link.index));
        self.world.note(host, what, link, b);
    }

    pub(crate) fn violation(&mut self, what: impl core::fmt::Display) {
        let (index, host, side) = (
            self.link.index,
            self.host(),
            ["sender", "receiver"][self.side],
        );
        self.world
            .violation(format!("link {index}, {side} on host {host}: {what}"));
    }

    fn begin(&mut self) -> bool {
        let (host, index) = (self.host(), self.link.index);
        if self.side == RECV {
            match self.engine.listen() {
                Ok((listener, id)) => {
                    let taken = self.world.ledger.take_id(host, id, index, Role::Listener);
                    self.world.expect(taken);
                    self.link.sides[RECV].comm = Some(listener);
                    self.link.handle = Some(id);
                }
                Err(error) => self.violation(format!("listen: {error}")),
            }
        } else {
            let Some(target) = self.link.target() else {
                return false;
            };
            let now_ms = self.world.now_ms();
            let mut port = Port {
                world: self.world,
                host,
            };
            match self.engine.connect(now_ms, &mut port, &target) {
                Ok(comm) => self.link.sides[SEND].comm = Some(comm),
                Err(error) => self.violation(format!("connect: {error}")),
            }
        }
        self.link.sides[self.side].phase = Phase::Opening;
        self.note(What::Open, u64::from(self.side == SEND));
        true
    }

    fn opened(&mut self) -> bool {
        let Some(comm) = self.link.sides[self.side].comm else {
            return false;
        };
        if self.side == SEND && self.link.rng.chance(100_000) {
            self.try_before_connected(comm);
        }
        let (host, now_ms) = (self.host(), self.world.now_ms());
        let mut port = Port {
            world: self.world,
            host,
        };
        let opened = if self.side == SEND {
            self.engine
                .poll_connect(comm, now_ms, &mut port)
                .map(|up| up.then_some(comm))
        } else {
            self.engine.poll_accept(comm, now_ms, &mut port)
        };
        match opened {
            Ok(None) => false,
            Ok(Some(up)) => {
                if self.side == RECV {
                    self.expect_closed(comm);
                }
                self.link.sides[self.side].comm = Some(up);
                self.link.sides[self.side].phase = Phase::Open;
                self.note(What::Open, 2 + u64::from(self.side == RECV));
                true
            }
            Err(error) => self.failed(&error),
        }
    }

    /// The engine closes a communicator, and says that it is gone when asked again.
    fn expect_closed(&mut self, comm: CommKey) {
        let now_ms = self.world.now_ms();
        if let Err(error) = self.engine.close(comm, now_ms) {
            self.violation(format!("close: {error}"));
        }
        if self.engine.close(comm, now_ms) != Err(Error::NoSuchComm) {
            self.violation("a communicator can be closed twice");
        }
    }

    /// v4 hands out the communicator before it is connected (decision 18).
    fn try_before_connected(&mut self, comm: CommKey) {
        let region = self.link.sides[SEND].region;
        let buf = SendBuf {
            addr: self.link.sides[SEND].memory,
            len: 8,
            region,
        };
        let connected = self
            .engine
            .comm_info(comm)
            .is_some_and(|info| info.connected);
        let answer = self.engine.isend(comm, buf);
        let refused = matches!(
            answer,
            Ok(Admission::NotNow(NotNow::Connecting)) | Err(Error::Failed(_))
        );
        if !connected && !refused {
            self.violation(format!("isend before the connection is made: {answer:?}"));
        }
    }

    fn work(&mut self) -> bool {
        let mut moved = self.test_all();
        if self.side == RECV {
            moved |= self.look_for_data();
        }
        if self.link.sides[self.side].phase != Phase::Open {
            return true;
        }
        for _ in 0..PER_TURN {
            let side = &self.link.sides[self.side];
            let next = self.world.ledger.link(self.link.index).rings[self.side].next;
            if next >= self.link.total || side.free.is_empty() || self.is_too_far_ahead(next) {
                break;
            }
            match self.start(next) {
                Ok(true) => {
                    moved = true;
                    self.maybe_one_sided();
                }
                Ok(false) => break,
                Err(error) => return self.failed(&error),
            }
        }
        let side = &self.link.sides[self.side];
        let next = self.world.ledger.link(self.link.index).rings[self.side].next;
        let idle = side.pending.is_empty() && side.flushes.is_empty() && side.one_sided.is_empty();
        let idle = idle && side.awaited.is_empty();
        if next >= self.link.total && idle && self.peer_needs_nothing() {
            self.close();
            return true;
        }
        moved
    }

    /// Starts message `k`; false when the engine says not now.
    fn start(&mut self, k: u64) -> Result<bool, Error> {
        let side = &self.link.sides[self.side];
        let (Some(&slot), Some(comm)) = (side.free.last(), side.comm) else {
            return Ok(false);
        };
        let buf = self.prepare(k, slot);
        let admission = if self.side == SEND {
            self.send(comm, k, buf)?
        } else {
            self.recv(comm, buf)?
        };
        self.judge_admission(k, admission);
        let Admission::Admitted(req) = admission else {
            return Ok(false);
        };
        let side = &mut self.link.sides[self.side];
        side.free.pop();
        side.pending.push_back(Pending { req, k, slot });
        let what = [What::Isend, What::Irecv][self.side];
        self.note(what, k);
        drain(self.world, self.engine, self.host());
        Ok(true)
    }

    /// The buffer of message `k`: full of it, or of guards. An empty one is the host's page, as
    /// `ofi-net` has it.
    fn prepare(&mut self, k: u64, slot: u16) -> SendBuf {
        let addr = self.link.buffer(self.side, slot, &self.world.config);
        let region = self.link.sides[self.side].region;
        let plan = self.world.ledger.link(self.link.index).plan;
        let sizes = plan.sizes(k, &self.world.config);
        let len = [sizes.send, sizes.recv][self.side];
        let host = self.host();
        let node = self.world.node_mut(host);
        if self.side == SEND {
            fill(node.memory.at_mut(addr, len), plan.content(k));
        } else {
            let around = len + 2 * GUARD_BYTES;
            node.memory.at_mut(addr - GUARD_BYTES, around).fill(GUARD);
        }
        if len == 0 {
            let (addr, region) = (node.page_addr, node.page);
            return SendBuf { addr, len, region };
        }
        SendBuf { addr, len, region }
    }

    fn send(&mut self, comm: CommKey, k: u64, buf: SendBuf) -> Result<Admission, Error> {
        if !self.engine.ctrl_known(comm) && self.link.rng.chance(300_000) {
            progress(self.world, self.engine, self.host());
        }
        // The ledger is told before, since the message may be posted within the call.
        let eager = self.is_eager(k, buf.len);
        let truth = self.world.ledger.link_mut(self.link.index);
        let untold = truth.rings[SEND].before();
        truth.rings[SEND].admit(buf.addr, buf.len, buf.region, eager);
        truth.writes_out += u64::from(!eager);
        let before = self.engine.counters().eager_sends;
        // Not while something waits: that would be posted within the call, and with a full window its
        // record in the ledger is the one that this message takes.
        let said = if self.engine.posts_waiting() == 0 && self.link.rng.chance(500_000) {
            let (host, world) = (self.host(), &mut *self.world);
            self.engine.isend_to(comm, buf, &mut Port { world, host })
        } else {
            self.engine.isend(comm, buf)
        };
        if let Ok(Admission::Admitted(_)) = said {
            let chosen = self.engine.counters().eager_sends > before;
            self.judge_choice((k, buf.len), eager, chosen);
        } else {
            let truth = self.world.ledger.link_mut(self.link.index);
            truth.rings[SEND].retract(untold);
            truth.writes_out -= u64::from(!eager);
        }
        said
    }

    fn recv(&mut self, comm: CommKey, buf: SendBuf) -> Result<Admission, Error> {
        let SendBuf { addr, len, region } = buf;
        let optional = self.wants_optional();
        let memory = &self.world.node(self.host()).memory;
        let (wire_addr, keys) = (memory.wire_addr(region, addr), memory.keys(region));
        let recv = RecvBuf {
            addr,
            len,
            region,
            wire_addr,
            keys,
            optional,
        };
        // The ledger is told before, since the CTRL may be posted within the call.
        let ring = &mut self.world.ledger.link_mut(self.link.index).rings[RECV];
        let untold = ring.before();
        ring.admit(addr, len, region, false);
        if let Some(record) = ring.get_mut(ring.next - 1) {
            record.optional = optional;
        }
        // As for a send.
        let said = if self.engine.posts_waiting() == 0 && self.link.rng.chance(500_000) {
            let (host, world) = (self.host(), &mut *self.world);
            self.engine.irecv_to(comm, &recv, &mut Port { world, host })
        } else {
            self.engine.irecv(comm, &recv)
        };
        if !matches!(said, Ok(Admission::Admitted(_))) {
            self.world.ledger.link_mut(self.link.index).rings[RECV].retract(untold);
        }
        said
    }

    fn test_all(&mut self) -> bool {
        let mut moved = self.test_flushes() | self.test_one_sided();
        let mut tries = PER_TURN;
        while tries > 0 && self.link.sides[self.side].phase == Phase::Open {
            let pending = &self.link.sides[self.side].pending;
            let at = if self.link.any_order {
                usize::try_from(self.link.rng.below(pending.len() as u64)).unwrap_or(0)
            } else {
                0
            };
            let Some(&Pending { req, k, slot }) = pending.get(at) else {
                break;
            };
            match self.ask(req) {
                Ok(None) if self.link.any_order => tries -= 1,
                Ok(None) => break,
                Ok(Some(bytes)) => {
                    self.link.sides[self.side].pending.remove(at);
                    self.done(k, slot, bytes);
                    moved = true;
                }
                Err(error) => return self.failed(&error),
            }
        }
        moved
    }

    fn test_flushes(&mut self) -> bool {
        let mut moved = false;
        let mut at = 0;
        while let Some(&req) = self.link.sides[self.side].flushes.get(at) {
            match self.ask(req) {
                Ok(None) => at += 1,
                Ok(Some(bytes)) => {
                    if bytes != 0 {
                        self.violation(format!("a flush says {bytes} bytes"));
                    }
                    self.world.report.flushes += 1;
                    self.link.sides[self.side].flushes.swap_remove(at);
                    moved = true;
                }
                Err(error) => return self.failed(&error),
            }
        }
        moved
    }

    /// Tests a request as `ofi-net` does: with one progress pass when the engine asks for one.
    pub(crate) fn ask(&mut self, req: ofi_rdma::ReqKey) -> Result<Option<u64>, Error> {
        match self.engine.test(req)? {
            Test::Done(done) => Ok(Some(self.judge_rails(done))),
            Test::Pending { poll: true } if !self.polled => {
                self.polled = true;
                progress(self.world, self.engine, self.host());
                let done = self.engine.recheck(req)?;
                Ok(done.map(|done| self.judge_rails(done)))
            }
            Test::Pending { .. } => Ok(None),
        }
    }

    /// A request is done: everything about it has to be true.
    fn done(&mut self, k: u64, slot: u16, bytes: u64) {
        self.note(What::Done, k);
        if self.side == SEND {
            self.judge_send(k, bytes);
            // From here on the buffer is the caller's: what is read from it now is wrong.
            let addr = self.link.buffer(SEND, slot, &self.world.config);
            let len = self
                .world
                .ledger
                .link(self.link.index)
                .plan
                .sizes(k, &self.world.config)
                .send;
            let host = self.host();
            self.world
                .node_mut(host)
                .memory
                .at_mut(addr, len)
                .fill(0xEE);
        } else if self.is_optional(k) {
            self.judge_early(k, bytes);
            self.link.sides[RECV].awaited.push((k, slot));
            return;
        } else {
            self.judge_recv(k, slot, bytes);
            self.maybe_flush(slot);
        }
        self.over(k, slot);
    }

    fn is_optional(&self, k: u64) -> bool {
        let ring = &self.world.ledger.link(self.link.index).rings[RECV];
        ring.get(k).is_some_and(|record| record.optional)
    }

    /// Nothing more happens in the buffer of message `k`.
    pub(crate) fn over(&mut self, k: u64, slot: u16) {
        let truth = self.world.ledger.link_mut(self.link.index);
        if let Some(record) = truth.rings[self.side].get_mut(k) {
            record.live = false;
            truth.writes_out -= u64::from(self.side == SEND && !record.chosen);
        }
        self.link.sides[self.side].free.push(slot);
    }

    fn maybe_flush(&mut self, slot: u16) {
        let side = &self.link.sides[RECV];
        if !self.link.rng.chance(self.world.config.flush_ppm) || side.flushes.len() > 100 {
            return;
        }
        let Some(comm) = side.comm else { return };
        let addr = self.link.buffer(RECV, slot, &self.world.config);
        match self.engine.flush(comm, addr, side.region) {
            Ok(req) => self.link.sides[RECV].flushes.push(req),
            Err(Error::Failed(_)) => {}
            Err(error) => self.violation(format!("flush: {error}")),
        }
    }

    /// A call failed: only a link that was hit by a fault may.
    pub(crate) fn failed(&mut self, error: &Error) -> bool {
        self.note(What::Fail, self.side as u64);
        let tainted = self.world.ledger.link(self.link.index).tainted;
        if !tainted || !matches!(error, Error::Failed(_)) {
            self.violation(format!("failed, and no fault hit it: {error}"));
        }
        self.abort()
    }

    /// Closes with whatever is in flight; the other side hears of it, or has to notice.
    fn abort(&mut self) -> bool {
        self.world.ledger.link_mut(self.link.index).tainted = true;
        let now = self.world.now;
        let other = &mut self.link.sides[1 - self.side];
        if other.abort_at.is_none() {
            other.abort_at = Some(now + self.link.rng.below(HEARSAY_NS));
        }
        self.world.report.lives_failed += 1;
        self.close();
        true
    }

    fn close(&mut self) {
        let side = self.side;
        self.note(What::Close, side as u64);
        self.world.ledger.link_mut(self.link.index).closed[side] = true;
        if let Some(comm) = self.link.sides[side].comm.take() {
            self.expect_closed(comm);
        }
        for Pending { req, .. } in core::mem::take(&mut self.link.sides[side].pending) {
            if self.engine.test(req) != Err(Error::NoSuchRequest) {
                self.violation("a request outlives its communicator");
            }
        }
        self.link.sides[side].flushes.clear();
        self.link.sides[side].one_sided.clear();
        self.link.sides[side].awaited.clear();
        self.link.sides[side].phase = Phase::Draining;
        let host = self.host();
        drain(self.world, self.engine, host);
    }

    /// The region goes when no request refers to it any more (decision 13).
    fn drained(&mut self) -> bool {
        let (host, region) = (self.host(), self.link.sides[self.side].region);
        let peer_dead = self.world.node(self.link.hosts[1 - self.side]).dead;
        if self.engine.region_refs(region) > 0 {
            // Operations to a dead peer may never complete; the end of the endpoints ends them.
            let lost = peer_dead && !self.world.vanished.is_empty();
            if lost {
                self.link.sides[self.side].phase = Phase::Over;
            }
            return lost;
        }
        self.world.node_mut(host).memory.deregister(region);
        self.link.sides[self.side].phase = Phase::Over;
        true
    }
}
