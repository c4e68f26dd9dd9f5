//! One life of a link: a listener, a sender, a receiver, and the callers of both sides, who ask, test and
//! close in any order. What they are told is held against what was sent.

use ofi_rdma::{Admission, CommKey, NotNow, RegionId, ReqKey, Test};
use ofi_sendrecv::limits::INFLIGHT_MAX;
use ofi_sendrecv::{Buffer, Error, Target};

use super::host::{Host, name_of};
use super::net::{BAD_NAME, Net, Port};
use super::setup::Fault;
use crate::rng::{Rng, mix};

/// Regions that buffers are in.
const REGIONS: u64 = 3;
/// Milliseconds after which a life to which nothing happened must be over.
const LIFE_MS_MAX: u64 = 600_000;

#[derive(Clone, Copy)]
struct Asked {
    req: ReqKey,
    number: u64,
    buffer: Buffer,
}

/// One of the two ends.
#[derive(Default)]
struct Side {
    comm: Option<CommKey>,
    is_up: bool,
    asked: Vec<Asked>,
    flushes: Vec<ReqKey>,
    started: u64,
    done: u64,
    has_failed: bool,
    is_closed: bool,
}

impl Side {
    fn is_over(&self, count: u64) -> bool {
        let is_idle = self.asked.is_empty() && self.flushes.is_empty();
        self.is_closed || is_idle && (self.has_failed || self.done == count)
    }
}

pub(super) struct Life {
    number: u64,
    /// Of the sender, and of the receiver.
    hosts: [u8; 2],
    /// Messages.
    count: u64,
    listener: Option<CommKey>,
    was_accepted: bool,
    tag: u32,
    sides: [Side; 2],
    began_ms: u64,
    /// Messages that arrived and were compared, with their bytes.
    pub(super) verified: (u64, u64),
}

const SEND: usize = 0;
const RECV: usize = 1;

impl Life {
    pub(super) fn begin(
        number: u64,
        hosts: [u8; 2],
        count: u64,
        all: &mut [Host],
        net: &mut Net,
    ) -> Result<Self, String> {
        let receiver = &mut all[usize::from(hosts[RECV])];
        let (listener, tag) = receiver
            .engine
            .listen()
            .map_err(|e| format!("listen: {e}"))?;
        receiver.lives.insert(listener.to_bits(), number);
        net.lives.insert((hosts[RECV], tag.into()), number);
        Ok(Self {
            number,
            hosts,
            count,
            listener: Some(listener),
            was_accepted: false,
            tag,
            sides: [Side::default(), Side::default()],
            began_ms: net.now_ms,
            verified: (0, 0),
        })
    }

    /// Bytes of a message, and of its receive.
    fn sizes(&self, number: u64, net: &Net) -> (u64, u64) {
        let mut rng = Rng::new(mix(self.number) ^ number);
        let len = rng.magnitude(net.drawn.max_bytes);
        let is_cut = rng.chance(net.drawn.rates[Fault::Cut.at()]);
        let room = if is_cut {
            rng.below(len.max(1))
        } else {
            len + rng.magnitude(100)
        };
        (len, room)
    }

    /// Something happens to it.
    pub(super) fn touch(&self, net: &mut Net) {
        net.touched.insert(self.number);
    }

    pub(super) fn is_touched(&self, net: &Net) -> bool {
        net.touched.contains(&self.number)
    }

    fn is_dead(&self, side: usize, net: &Net) -> bool {
        net.inboxes[usize::from(self.hosts[side])].is_dead
    }

    /// Everything is closed.
    pub(super) fn is_over(&self, net: &Net) -> bool {
        let is_closed = |side: usize| self.sides[side].is_closed || self.is_dead(side, net);
        let is_deaf = self.listener.is_none() || self.is_dead(RECV, net);
        is_closed(SEND) && is_closed(RECV) && is_deaf
    }

    /// Nobody will hear of it again.
    pub(super) fn end(&self, net: &mut Net) {
        net.forget(self.hosts[RECV], self.tag);
    }

    /// One thing that a caller does.
    pub(super) fn act(&mut self, all: &mut [Host], net: &mut Net) -> Result<(), String> {
        let waited_ms = net.now_ms.saturating_sub(self.began_ms);
        if waited_ms > LIFE_MS_MAX {
            return Err(format!(
                "life {} is not over after {waited_ms} ms",
                self.number
            ));
        }
        let side = usize::from(net.rng.chance(500_000));
        let host = &mut all[usize::from(self.hosts[side])];
        if self.is_dead(side, net) || host.away_until_ms > net.now_ms {
            return Ok(());
        }
        match net.rng.below(8) {
            0 => self.connect(side, host, net)?,
            1..=3 => self.ask(side, host, net)?,
            4..=6 => self.test(side, host, net)?,
            _ => self.flush_or_close(side, host, net)?,
        }
        host.pump(net)?;
        self.nothing_stays_posted(net)
    }

    fn connect(&mut self, side: usize, host: &mut Host, net: &mut Net) -> Result<(), String> {
        let (now_ms, tag) = (net.now_ms, self.tag);
        if self.sides[side].is_closed || self.sides[side].has_failed {
            return Ok(());
        }
        match (side, self.sides[side].comm) {
            (SEND, None) => {
                let contents = &host.contents;
                let port = &mut Port {
                    net,
                    host: host.number,
                    contents,
                };
                let name = name_of(self.hosts[RECV]);
                let mut bad = name;
                bad[0] = BAD_NAME;
                if host
                    .engine
                    .connect(now_ms, port, &Target { name: bad, tag })
                    .is_ok()
                {
                    return Err("a name that the provider refuses is connected to".to_owned());
                }
                let target = Target { name, tag };
                let made = host.engine.connect(now_ms, port, &target);
                let comm = made.map_err(|error| format!("connect: {error}"))?;
                host.lives.insert(comm.to_bits(), self.number);
                self.sides[SEND].comm = Some(comm);
            }
            (SEND, Some(comm)) if !self.sides[SEND].is_up => {
                match host.engine.poll_connect(comm, now_ms) {
                    Ok(is_up) => self.sides[SEND].is_up = is_up,
                    Err(error) => self.failed(SEND, net, error)?,
                }
            }
            (RECV, None) => self.accept(host, net)?,
            _ => {}
        }
        Ok(())
    }

    fn accept(&mut self, host: &mut Host, net: &mut Net) -> Result<(), String> {
        let Some(listener) = self.listener else {
            return Ok(());
        };
        let now_ms = net.now_ms;
        if net.strikes(Fault::Garbage) {
            let len = usize::try_from(net.rng.below(200)).unwrap_or(0);
            // 80 bytes are a connect message if the name is one.
            let mut bytes = vec![BAD_NAME; len];
            if let Some(name_len) = bytes.get_mut(56..64) {
                name_len.fill(0xFF);
            }
            net.forge(self.hosts[RECV], self.tag, bytes);
        }
        let port = &mut Port {
            net,
            host: host.number,
            contents: &host.contents,
        };
        match host.engine.poll_accept(listener, now_ms, port) {
            Ok(Some(comm)) if self.was_accepted => {
                return Err(format!("a listener gave a second communicator, {comm:?}"));
            }
            Ok(Some(comm)) => {
                host.lives.insert(comm.to_bits(), self.number);
                self.sides[RECV].comm = Some(comm);
                self.sides[RECV].is_up = true;
                self.was_accepted = true;
            }
            Ok(None) => {}
            Err(error) => self.failed(RECV, net, error)?,
        }
        Ok(())
    }

    /// A side was told that it failed: something must have happened.
    fn failed(&mut self, side: usize, net: &Net, error: Error) -> Result<(), String> {
        let is_failure = matches!(
            error,
            Error::Common(ofi_rdma::Error::Failed(_)) | Error::Truncated { .. }
        );
        if !is_failure || !self.is_touched(net) {
            return Err(format!("life {} was told {error}", self.number));
        }
        self.sides[side].has_failed = true;
        Ok(())
    }

    fn ask(&mut self, side: usize, host: &mut Host, net: &mut Net) -> Result<(), String> {
        let end = &self.sides[side];
        let Some(comm) = end.comm.filter(|_| !end.is_closed && !end.has_failed) else {
            return Ok(());
        };
        if end.started == self.count || end.asked.len() >= net.drawn.window {
            return Ok(());
        }
        let number = end.started;
        let (len, room) = self.sizes(number, net);
        let buffer = Buffer {
            addr: (self.number << 32 | number << 1 | u64::from(side == RECV)) << 21,
            len: if side == SEND { len } else { room },
            region: RegionId(u32::try_from(number % REGIONS).unwrap_or(0)),
        };
        let answer = if side == SEND {
            host.contents.insert(buffer.addr, (self.number, number));
            host.engine.isend(comm, buffer)
        } else {
            net.hits[Fault::Cut.at()] += u64::from(room < len);
            host.engine.irecv(comm, buffer)
        };
        match answer {
            Ok(Admission::Admitted(req)) => {
                let end = &mut self.sides[side];
                end.asked.push(Asked {
                    req,
                    number,
                    buffer,
                });
                end.started += 1;
                Ok(())
            }
            Ok(Admission::NotNow(why)) => self.may_refuse(side, why, host),
            Err(error) => self.failed(side, net, error),
        }
    }

    /// "Not now" is true.
    fn may_refuse(&self, side: usize, why: NotNow, host: &Host) -> Result<(), String> {
        let end = &self.sides[side];
        let is_true = match why {
            NotNow::Connecting => side == SEND && !end.is_up,
            NotNow::InFlightCap => end.asked.len() == usize::from(INFLIGHT_MAX),
            NotNow::PostsWaiting => host.engine.posts_waiting() > 0,
            NotNow::ProviderBusy => false,
        };
        let outstanding = end.asked.len();
        is_true
            .then_some(())
            .ok_or_else(|| format!("{why:?} with {outstanding} outstanding"))
    }

    fn test(&mut self, side: usize, host: &mut Host, net: &mut Net) -> Result<(), String> {
        let end = &mut self.sides[side];
        if end.is_closed {
            return Ok(());
        }
        let all = end.asked.len() as u64;
        if all == 0 {
            return Ok(());
        }
        let at = usize::try_from(net.rng.below(all)).unwrap_or(0);
        let asked = end.asked[at];
        let answer = host.engine.test(asked.req);
        if matches!(answer, Ok(Test::Pending { .. })) {
            return Ok(());
        }
        end.asked.swap_remove(at);
        if host.engine.test(asked.req).is_ok() {
            return Err(format!("message {} ended twice", asked.number));
        }
        match answer {
            Ok(Test::Done(done)) => self.done(side, &asked, done.bytes, host, net),
            Ok(Test::Pending { .. }) => Ok(()),
            Err(error) => self.failed(side, net, error),
        }
    }

    fn done(
        &mut self,
        side: usize,
        asked: &Asked,
        bytes: u64,
        host: &mut Host,
        net: &mut Net,
    ) -> Result<(), String> {
        let (len, room) = self.sizes(asked.number, net);
        self.sides[side].done += 1;
        if side == SEND {
            host.contents.remove(&asked.buffer.addr);
            return (bytes == len)
                .then_some(())
                .ok_or_else(|| format!("a send of {len} bytes says {bytes}"));
        }
        let landed = net.landed.remove(&asked.buffer.addr);
        let sent = (self.number, asked.number, len);
        if landed != Some(sent) || bytes != len.min(room) {
            return Err(format!(
                "receive {sent:?} with room for {room} says {bytes} bytes, and has {landed:?}"
            ));
        }
        self.verified.0 += 1;
        self.verified.1 += bytes;
        Ok(())
    }

    fn flush_or_close(
        &mut self,
        side: usize,
        host: &mut Host,
        net: &mut Net,
    ) -> Result<(), String> {
        self.flush(side, host, net)?;
        let is_over = self.sides[side].is_over(self.count);
        // What something happened to may wait for ever: its callers give up some time.
        let gives_up = self.is_touched(net) && net.rng.chance(5_000);
        let is_abrupt = !is_over && net.strikes(Fault::Abrupt);
        if is_abrupt {
            net.touched.insert(self.number);
        }
        if is_over || gives_up || is_abrupt {
            self.close(side, host, net)?;
        }
        if side == RECV && (self.was_accepted || self.sides[RECV].is_closed) {
            if let Some(listener) = self.listener.take() {
                let closed = host.engine.close(listener, net.now_ms);
                closed.map_err(|error| format!("close of a listener: {error}"))?;
            }
        }
        let is_accepted = side == RECV && self.was_accepted && !self.sides[RECV].is_closed;
        if is_accepted && net.strikes(Fault::SecondSender) {
            let bytes = connect_bytes(self.hosts[SEND]);
            net.second_sender(self.hosts[RECV], self.tag, bytes);
        }
        Ok(())
    }

    fn flush(&mut self, side: usize, host: &mut Host, net: &mut Net) -> Result<(), String> {
        let end = &mut self.sides[side];
        let Some(comm) = end.comm.filter(|_| side == RECV && !end.is_closed) else {
            return Ok(());
        };
        if let Some(req) = end.flushes.pop() {
            match host.engine.test(req) {
                Ok(Test::Pending { .. }) => end.flushes.push(req),
                Ok(Test::Done(_)) => {}
                Err(error) => self.failed(side, net, error)?,
            }
        } else if !end.has_failed && end.done < self.count {
            match host.engine.flush(comm, 1 << 20, RegionId(0)) {
                Ok(req) => end.flushes.push(req),
                Err(error) => self.failed(side, net, error)?,
            }
        }
        Ok(())
    }

    fn close(&mut self, side: usize, host: &mut Host, net: &Net) -> Result<(), String> {
        let end = &mut self.sides[side];
        if core::mem::replace(&mut end.is_closed, true) {
            return Ok(());
        }
        if let Some(comm) = end.comm {
            let closed = host.engine.close(comm, net.now_ms);
            closed.map_err(|error| format!("close: {error}"))?;
            if host.engine.close(comm, net.now_ms).is_ok() {
                return Err("a communicator closed twice".to_owned());
            }
        }
        for asked in end.asked.drain(..) {
            if host.engine.test(asked.req).is_ok() {
                return Err("a request outlived its communicator".to_owned());
            }
        }
        end.flushes.clear();
        Ok(())
    }

    /// Nothing is written any more for who closed or failed.
    fn nothing_stays_posted(&self, net: &Net) -> Result<(), String> {
        let end = &self.sides[RECV];
        let is_quiet = end.is_closed && self.listener.is_none();
        let mut posted = net.inboxes[usize::from(self.hosts[RECV])].posted();
        if is_quiet && posted.any(|tag| tag == u64::from(self.tag)) {
            return Err(format!(
                "life {}: closed, and a receive is posted",
                self.number
            ));
        }
        Ok(())
    }
}

/// The connect message of a sender that nobody simulates, at a host.
fn connect_bytes(host: u8) -> Vec<u8> {
    let mut bytes = name_of(host).to_vec();
    bytes.extend(16_u64.to_le_bytes());
    bytes.extend([0; 16]);
    bytes
}
