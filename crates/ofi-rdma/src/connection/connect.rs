//! The sending side: listen's handle in, CONN out, `CONN_RESP` in (protocol 2d.5).

use alloc::boxed::Box;
use ofi_pools::Key;
use ofi_sched::Policy;

use crate::comm::{Comm, CommKind, Peer};
use crate::dialect::Dialect;
use crate::engine::Engine;
use crate::error::{Error, Failure, Mismatch, OpKind, Stage, Why};
use crate::event::Event;
use crate::key::CommKey;
use crate::limits::EP_NAME_BYTES;
use crate::outbox::Waiting;
use crate::port::{Cause, Lane, PeerAddr, RailPort};
use crate::state::{CommInput, CommState};
use crate::wire::capability::Capabilities;
use crate::wire::conn::Conn;

/// Whom to connect to: what the handle said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Name of the listener's control rail 0.
    pub control_name: [u8; EP_NAME_BYTES],
    /// Id of the listener.
    pub listener_id: u32,
}

impl<D: Dialect, S: Policy> Engine<D, S> {
    /// Makes a send communicator and queues its CONN. Early CTRLs for it are kept from now on
    /// (protocol 2.k 1).
    ///
    /// # Errors
    /// A handle that is none, no id left, an address that the provider refuses: nothing is left
    /// behind then.
    pub fn connect<P: RailPort>(
        &mut self,
        now_ms: u64,
        port: &mut P,
        target: &Target,
    ) -> Result<CommKey, Error> {
        if ofi_imm::CommId::new(target.listener_id).is_none() {
            return Err(Error::BadHandle(target.listener_id));
        }
        let lane = Lane::control(0);
        let (key, id) = self.new_comm(CommKind::Send, CommState::Connecting, now_ms)?;
        let addr = match port.resolve(lane, &target.control_name) {
            Ok(addr) => addr,
            Err(cause) => {
                self.comms.remove(key);
                self.free_id(id);
                let why = Why::Unreachable { lane, cause };
                return Err(Error::Unreachable(Failure {
                    comm_id: id,
                    seq: None,
                    request: None,
                    why,
                    peer: None,
                }));
            }
        };
        if let Some(comm) = self.comms.get_mut(key) {
            comm.peer.control[0] = addr;
            comm.remote_id = target.listener_id;
        }
        self.queue_own(key, OpKind::Conn);
        Ok(CommKey(key))
    }

    /// Takes the next step of a connection; true once messages can flow.
    ///
    /// # Errors
    /// The failure that sticks: no answer in time, peer set up differently, provider error. The
    /// caller closes the communicator then.
    pub fn poll_connect<P: RailPort>(
        &mut self,
        comm: CommKey,
        now_ms: u64,
        port: &mut P,
    ) -> Result<bool, Error> {
        let c = self.usable(comm, CommKind::Send)?;
        if c.state == CommState::Up {
            return Ok(true);
        }
        let (has_answer, since_ms) = (c.message.is_some(), c.since_ms);
        if has_answer {
            self.take_answer(comm.0, now_ms, port);
        } else if now_ms.saturating_sub(since_ms) > self.config.connect_timeout_ms {
            let stage = self.connect_stage(comm.0);
            let why = Why::ConnectTimeout {
                waited_ms: now_ms - since_ms,
                stage,
            };
            self.fail(comm.0, None, why);
        }
        Ok(self.usable(comm, CommKind::Send)?.state == CommState::Up)
    }

    /// What a connecting communicator waits for.
    pub(crate) fn connect_stage(&self, key: Key) -> Stage {
        if self.comms.get(key).is_some_and(|c| c.queued > 0) {
            Stage::SendConn
        } else {
            Stage::AwaitConnResp
        }
    }

    fn take_answer<P: RailPort>(&mut self, key: Key, now_ms: u64, port: &mut P) {
        let Some(answer) = self.comms.get_mut(key).and_then(|c| c.message.take()) else {
            return;
        };
        let target = self.comms.get(key).and_then(Comm::peer_address);
        name_host(port, target, &answer);
        if let Some((what, ours, theirs)) = self.mismatch(&answer) {
            return self.fail(key, None, Why::Mismatch { what, ours, theirs });
        }
        let tells = self.config.capabilities().has(Capabilities::TELLS_LENGTHS);
        let (ours, said) = (self.config.eager_max, answer.capabilities);
        let eager_max = said.unwrap_or_default().eager.cap(ours);
        match self.resolve_all(&answer, port) {
            Err((lane, cause)) => self.fail(key, None, Why::Unreachable { lane, cause }),
            Ok(peer) => {
                // It may answer from another endpoint than the one that the handle named.
                name_host(port, Some(peer.control[0]), &answer);
                let Some(comm) = self.comms.get_mut(key) else {
                    return;
                };
                comm.peer = peer;
                comm.remote_id = answer.local_id;
                comm.len_in_data = agreed(tells, answer.capabilities, Capabilities::WANTS_LENGTHS);
                comm.set_eager_max(eager_max);
                comm.step(CommInput::AnswerTaken);
                comm.since_ms = now_ms;
                comm.moved = true;
                let (local_id, remote_id) = (comm.local_id, comm.remote_id);
                let peer = comm.peer_address();
                self.event(Event::Connected {
                    comm: CommKey(key),
                    local_id,
                    remote_id,
                    peer,
                });
                if eager_max != ours {
                    let comm = CommKey(key);
                    self.event(Event::EagerCapped {
                        comm,
                        ours,
                        theirs: eager_max,
                    });
                }
                self.news();
            }
        }
    }

    /// What the two sides have to agree on and do not (trap 6).
    pub(crate) fn mismatch(&self, theirs: &Conn) -> Option<(Mismatch, u32, u32)> {
        let (rails, control) = (self.config.data_rails, self.config.control_rails);
        if theirs.rails != rails {
            return Some((Mismatch::Rails, u32::from(rails), u32::from(theirs.rails)));
        }
        let differs = theirs.control_rails != control;
        differs.then(|| {
            (
                Mismatch::ControlRails,
                u32::from(control),
                u32::from(theirs.control_rails),
            )
        })
    }

    /// Addresses of all endpoints of a peer. The names of its message are taken from rail 0 on, not
    /// from the handle: a peer with an endpoint per communicator answers from another one.
    pub(crate) fn resolve_all<P: RailPort>(
        &self,
        conn: &Conn,
        port: &mut P,
    ) -> Result<Peer, (Lane, Cause)> {
        let mut peer = Peer::default();
        for rail in 0..self.config.control_rails {
            let (lane, i) = (Lane::control(rail), usize::from(rail));
            let name = &conn.control_names[i].bytes;
            peer.control[i] = port.resolve(lane, name).map_err(|cause| (lane, cause))?;
        }
        for rail in 0..self.config.data_rails {
            let (lane, i) = (Lane::data(rail), usize::from(rail));
            let name = &conn.data_names[i].bytes;
            peer.data[i] = port.resolve(lane, name).map_err(|cause| (lane, cause))?;
        }
        Ok(peer)
    }

    /// Queues CONN, `CONN_RESP` or CLOSE: control rail 0 (protocol 2c.9).
    pub(crate) fn queue_own(&mut self, key: Key, op: OpKind) {
        let waiting = Waiting {
            op,
            owner: key,
            offset: 0,
            len: 0,
        };
        if let Some(comm) = self.comms.get_mut(key) {
            comm.queue(1);
        }
        self.outbox.push(key.index(), Lane::control(0), waiting);
        self.news();
    }

    /// The connection message of a communicator.
    pub(crate) fn own_conn(&self, key: Key, is_response: bool) -> Option<Box<Conn>> {
        let comm = self.comms.get(key)?;
        Some(Box::new(Conn {
            is_response,
            rails: self.config.data_rails,
            control_rails: self.config.control_rails,
            local_id: comm.local_id,
            remote_id: comm.remote_id,
            control_names: self.config.control_names,
            data_names: self.config.data_names,
            capabilities: Some(self.config.capabilities()),
            host: self.host,
        }))
    }
}

/// Tells the port which host a peer says it is on.
pub(super) fn name_host<P: RailPort>(port: &mut P, peer: Option<PeerAddr>, conn: &Conn) {
    if let (Some(peer), Some(host)) = (peer, &conn.host) {
        port.on_host(peer, host);
    }
}

/// Whether we have our part of something and the peer said that it has its own.
pub(super) fn agreed(ours: bool, theirs: Option<Capabilities>, flag: u16) -> bool {
    ours && theirs.is_some_and(|word| word.has(flag))
}
