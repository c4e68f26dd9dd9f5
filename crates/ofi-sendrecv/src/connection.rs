//! listen, connect, accept, close (protocol 2d.8).
//!
//! There is no answer: connect is done once its message is out. The message tells the receiver nothing
//! it needs but that there is a sender; a second one for the same tag tells it that there are two,
//! whose messages nothing keeps apart (trap 29). So the receive communicator goes on awaiting connect
//! messages, and fails by the second.

use ofi_pools::Key;
use ofi_rdma::{CommKey, CommKind, Event, Failure, Lane, Stage, Stray, Why};

use crate::comm::Comm;
use crate::engine::{Engine, comm_key, key_of};
use crate::error::Error;
use crate::limits::EP_NAME_BYTES;
use crate::port::TagPort;
use crate::state::{CommInput, CommState, ReqInput};
use crate::token::{Named, Op};
use crate::wire::Connect;

/// Whom to connect to: what the handle said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Name of the listener's endpoint; its length is that of our own name.
    pub name: [u8; EP_NAME_BYTES],
    /// Number of the listener.
    pub tag: u32,
}

/// Looks of the stall detector for which a call of accept counts: the next one may come just after it.
const ASKED_LOOKS: u8 = 2;

impl Engine {
    /// Makes a listener; gives its tag, which goes into the handle. Its connect message is awaited
    /// from now on.
    ///
    /// # Errors
    /// Every tag was given.
    pub fn listen(&mut self) -> Result<(CommKey, u32), Error> {
        let max = self.config.tags.max();
        let tag = self.last_tag.checked_add(1).filter(|&tag| tag < max);
        let tag = tag.ok_or(Error::OutOfTags(max))?;
        let key = self.new_comm(Comm::new(CommKind::Listener, CommState::Listening, tag, 0))?;
        self.last_tag = tag;
        self.queue_own(key, Op::Await);
        Ok((comm_key(key), tag))
    }

    /// Makes a send communicator and queues its connect message.
    ///
    /// # Errors
    /// A handle that is none, an address that the provider refuses: nothing is left behind then.
    pub fn connect<P: TagPort>(
        &mut self,
        now_ms: u64,
        port: &mut P,
        target: &Target,
    ) -> Result<CommKey, Error> {
        let Target { name, tag } = *target;
        if !self.config.tags.holds(tag) {
            let max = self.config.tags.max();
            return Err(Error::BadTag { tag, max });
        }
        let peer = port.resolve(&name).map_err(|cause| {
            let lane = Lane::data(0);
            let why = Why::Unreachable { lane, cause };
            Error::Common(ofi_rdma::Error::Unreachable(Failure {
                comm_id: tag,
                seq: None,
                request: None,
                why,
                peer: None,
            }))
        })?;
        let own = &self.config.name;
        let used = usize::from(own.len);
        let mut comm = Comm::new(CommKind::Send, CommState::Connecting, tag, now_ms);
        comm.peer = peer;
        comm.to_self = name.get(..used) == own.bytes.get(..used);
        let key = self.new_comm(comm)?;
        self.queue_own(key, Op::Connect);
        Ok(comm_key(key))
    }

    /// Takes the next step of a connection; true once messages can flow: when the connect message is
    /// sent. To ourselves that is when the provider took it, since it may complete only with the
    /// accept that the same thread calls next.
    ///
    /// # Errors
    /// The failure that sticks: not sent in time, provider error. The caller closes the communicator
    /// then.
    pub fn poll_connect(&mut self, comm: CommKey, now_ms: u64) -> Result<bool, Error> {
        let (key, c) = self.usable(comm, CommKind::Send)?;
        if c.state == CommState::Up {
            return Ok(true);
        }
        let waited_ms = now_ms.saturating_sub(c.since_ms);
        if waited_ms > self.config.connect_timeout_ms {
            let stage = self.connect_stage(key);
            self.fail(key, Why::ConnectTimeout { waited_ms, stage });
        }
        let (_, c) = self.usable(comm, CommKind::Send)?;
        Ok(c.state == CommState::Up)
    }

    /// What a connecting communicator waits for.
    pub(crate) fn connect_stage(&self, key: Key) -> Stage {
        if self.outbox.waiting(key.index()) > 0 {
            Stage::SendConn
        } else {
            Stage::Completions
        }
    }

    /// The receive communicator once the connect message came. A message whose address the provider
    /// refuses is garbage: dropped and counted, the listener goes on waiting.
    ///
    /// # Errors
    /// The listener gave its communicator before, or its receive failed.
    pub fn poll_accept<P: TagPort>(
        &mut self,
        listener: CommKey,
        now_ms: u64,
        port: &mut P,
    ) -> Result<Option<CommKey>, Error> {
        let (key, l) = self.usable(listener, CommKind::Listener)?;
        if l.state == CommState::Accepted {
            return Err(ofi_rdma::Error::AlreadyAccepted.into());
        }
        let tag = l.tag;
        let arrived = self.comms.get_mut(key).and_then(|l| {
            l.asked = ASKED_LOOKS;
            l.arrived.take()
        });
        let Some(message) = arrived else {
            return Ok(None);
        };
        let Some(peer) = self.sender_of(&message, port) else {
            self.stray(Stray::Conn(tag));
            self.queue_own(key, Op::Await);
            return Ok(None);
        };
        let mut comm = Comm::new(CommKind::Recv, CommState::Up, tag, now_ms);
        comm.peer = peer;
        let child = self.new_comm(comm)?;
        if let Some(l) = self.comms.get_mut(key) {
            l.step(CommInput::ChildTaken);
        }
        // From here on a connect message is that of a second sender.
        self.queue_own(child, Op::Await);
        let comm = comm_key(child);
        let (local_id, remote_id) = (tag, tag);
        self.event(Event::Connected {
            comm,
            local_id,
            remote_id,
            peer: Some(peer),
        });
        Ok(Some(comm))
    }

    /// The address of who sent a connect message; `None` for one that cannot be.
    fn sender_of<P: TagPort>(&self, message: &Connect, port: &mut P) -> Option<ofi_rdma::PeerAddr> {
        let Connect { name, to_self } = *message;
        if to_self && name != self.config.name {
            return None;
        }
        port.resolve(&name.bytes).ok()
    }

    /// Closes a communicator or listener, also with requests in flight: their keys are stale from now
    /// on, what is queued is dropped, receives at the provider are cancelled; its slots live until the
    /// provider gave back all operations. O(requests).
    ///
    /// # Errors
    /// It is closed already.
    pub fn close(&mut self, comm: CommKey, now_ms: u64) -> Result<(), Error> {
        let key = key_of(comm.to_bits());
        let c = self.comms.get_mut(key).ok_or(Error::NO_SUCH_COMM)?;
        if !c.step(CommInput::Close) {
            return Err(Error::NO_SUCH_COMM);
        }
        c.wait_from(now_ms);
        c.arrived = None;
        self.withdraw(key);
        let mut index = 0;
        while index < self.requests.capacity() {
            if let Some(owned) = self.requests.key_at(index) {
                self.orphan(owned, key);
            }
            index += 1;
        }
        self.reap_if_quiet(key);
        self.news();
        Ok(())
    }

    /// Nobody will test a request of a closed communicator.
    fn orphan(&mut self, request: Key, comm: Key) {
        let Some(r) = self.requests.get_mut(request) else {
            return;
        };
        if r.comm == comm {
            r.step(ReqInput::Close);
            self.drop_orphan(request);
        }
    }

    fn new_comm(&mut self, comm: Comm) -> Result<Key, Error> {
        let inserted = self.comms.insert(comm);
        inserted.map_err(|_| ofi_rdma::Error::OutOfIds.into())
    }

    /// Queues a connect message, or the wait for one.
    pub(crate) fn queue_own(&mut self, key: Key, op: Op) {
        self.outbox.push(key.index(), Named { op, owner: key });
        self.news();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::limits::FIRST_TAG;
    use crate::tag::TagSpace;
    use ofi_rdma::EpName;

    #[test]
    fn tags_run_out_and_are_never_used_again() {
        let mut engine = Engine::new(Config {
            name: EpName::EMPTY,
            tags: TagSpace::of(u64::MAX).unwrap(),
            message_bytes_max: 1,
            connect_timeout_ms: 1,
            stall_warn_ms: None,
            stall_fail_ms: None,
        });
        let (first, tag) = engine.listen().unwrap();
        engine.close(first, 0).unwrap();
        let next = engine.listen().unwrap().1;
        assert_eq!((tag, next), (FIRST_TAG, FIRST_TAG + 1));
        engine.last_tag = u32::MAX - 2;
        assert_eq!(engine.listen().unwrap().1, u32::MAX - 1);
        assert_eq!(engine.listen(), Err(Error::OutOfTags(u32::MAX)));
    }
}
