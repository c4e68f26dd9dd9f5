//! The receiving side: CONN in, `CONN_RESP` out (protocol 2d.4, 2d.6).

use ofi_pools::Key;
use ofi_sched::Policy;

use super::connect::{agreed, name_host};
use crate::comm::{CommKind, Peer};
use crate::dialect::Dialect;
use crate::engine::Engine;
use crate::error::{Error, OpKind, Stage, Why};
use crate::event::Stray;
use crate::key::CommKey;
use crate::port::{Lane, RailPort};
use crate::state::{CommInput, CommState};
use crate::wire::capability::Capabilities;
use crate::wire::conn::Conn;

/// Looks of the stall detector for which a call of accept counts: the next one may come just after it.
const ASKED_LOOKS: u8 = 2;

impl<D: Dialect, S: Policy> Engine<D, S> {
    /// Makes a listener; gives its id, which goes into the handle.
    ///
    /// # Errors
    /// No id left.
    pub fn listen(&mut self) -> Result<(CommKey, u32), Error> {
        let (key, id) = self.new_comm(CommKind::Listener, CommState::Listening, 0)?;
        Ok((CommKey(key), id))
    }

    /// Takes the next step of an accept; the receive communicator once its `CONN_RESP` is sent.
    /// Waits for a CONN for ever (the caller decides), for everything after it only within the
    /// connect deadline.
    ///
    /// # Errors
    /// The peer is set up differently (it was told), or the answer could not be sent. The listener
    /// can take another connection then.
    pub fn poll_accept<P: RailPort>(
        &mut self,
        listener: CommKey,
        now_ms: u64,
        port: &mut P,
    ) -> Result<Option<CommKey>, Error> {
        let l = self.usable(listener, CommKind::Listener)?;
        if l.state == CommState::Accepted {
            return Err(Error::AlreadyAccepted);
        }
        let child = l.child;
        if let Some(l) = self.comms.get_mut(listener.0) {
            l.asked = ASKED_LOOKS;
        }
        let child = match child {
            Some(child) => child,
            None => match self.answer(listener.0, now_ms, port)? {
                Some(child) => child,
                None => return Ok(None),
            },
        };
        self.poll_child(listener.0, child, now_ms)
    }

    fn poll_child(
        &mut self,
        listener: Key,
        child: Key,
        now_ms: u64,
    ) -> Result<Option<CommKey>, Error> {
        let stepped = self.step_child(child, now_ms);
        match stepped {
            Ok(true) => self.detach_child(listener, CommInput::ChildTaken),
            Ok(false) => {}
            Err(_) => self.detach_child(listener, CommInput::ChildLost),
        }
        Ok(stepped?.then_some(CommKey(child)))
    }

    /// Whether an answered communicator is up; one that failed is closed.
    pub(super) fn step_child(&mut self, child: Key, now_ms: u64) -> Result<bool, Error> {
        let timeout = self.config.connect_timeout_ms;
        if let Some(c) = self.comms.get(child) {
            let waited_ms = now_ms.saturating_sub(c.since_ms);
            if c.state != CommState::Up && c.failure().is_none() && waited_ms > timeout {
                let stage = Stage::SendConnResp;
                self.fail(child, None, Why::ConnectTimeout { waited_ms, stage });
            }
        }
        let Some(c) = self.comms.get(child) else {
            return Err(Error::NoSuchComm);
        };
        let (up, failure) = (c.state == CommState::Up, c.failure());
        if let Some(failure) = failure {
            self.close(CommKey(child), now_ms)?;
            return Err(Error::Failed(failure));
        }
        Ok(up)
    }

    fn detach_child(&mut self, listener: Key, input: CommInput) {
        if let Some(l) = self.comms.get_mut(listener) {
            l.child = None;
            l.step(input);
        }
    }

    /// Answers the CONN that came, if one did.
    fn answer<P: RailPort>(
        &mut self,
        listener: Key,
        now_ms: u64,
        port: &mut P,
    ) -> Result<Option<Key>, Error> {
        let Some(conn) = self.comms.get_mut(listener).and_then(|l| l.message.take()) else {
            return Ok(None);
        };
        let child = self.child_of(&conn, now_ms, port)?;
        if let (Some(child), Some(l)) = (child, self.comms.get_mut(listener)) {
            l.child = Some(child);
        }
        Ok(child)
    }

    /// Makes a receive communicator that answers a CONN. One whose addresses the provider refuses is
    /// garbage: dropped and counted, the listener goes on waiting.
    pub(super) fn child_of<P: RailPort>(
        &mut self,
        conn: &Conn,
        now_ms: u64,
        port: &mut P,
    ) -> Result<Option<Key>, Error> {
        let refusal = self.mismatch(conn);
        let (state, peer) = match refusal {
            None => (CommState::Answering, self.resolve_all(conn, port).ok()),
            // Only the endpoint that the refusal goes to: a BASE connector learns of the mismatch
            // from our true counts (decision 19).
            Some(_) => {
                let peer = Self::resolve_control_0(conn, port);
                (CommState::Refusing, peer)
            }
        };
        let Some(peer) = peer else {
            self.stray(Stray::Conn(conn.remote_id));
            return Ok(None);
        };
        name_host(port, Some(peer.control[0]), conn);
        let wants = self.config.capabilities().has(Capabilities::WANTS_LENGTHS);
        let len_in_data = agreed(wants, conn.capabilities, Capabilities::TELLS_LENGTHS);
        let (child, _) = self.new_comm(CommKind::Recv, state, now_ms)?;
        if let Some(c) = self.comms.get_mut(child) {
            c.peer = peer;
            c.refusal = refusal;
            c.len_in_data = len_in_data;
            c.remote_id = conn.local_id;
        }
        self.queue_own(child, OpKind::ConnResp);
        Ok(Some(child))
    }

    fn resolve_control_0<P: RailPort>(conn: &Conn, port: &mut P) -> Option<Peer> {
        let mut peer = Peer::default();
        peer.control[0] = port
            .resolve(Lane::control(0), &conn.control_names[0].bytes)
            .ok()?;
        Some(peer)
    }
}
