//! listen, connect, accept, close (protocol 2d.4 to 2d.6, 2j; decisions 13, 18, 30).

use super::Transport;
use crate::clock::{self, Deadline};
use crate::connecting::{Connecting, Made};
use crate::error::{Code, NetError};
use crate::handle_state::{self, Stage as Step, State};
use crate::handle_words::CommWord;
use crate::progress::{Core, Role};
use crate::rail::LaneEnd;
use crate::traffic::TrafficClass;
use ofi_rdma::wire::handle::{HANDLE_BYTES, Handle};
use ofi_rdma::{CommKey, Lane, Stage, Target};
use std::collections::HashMap;

/// How long the calls of v4 wait for what a caller may not give them a later call for; a peer that is not
/// there yet is not waited for any longer.
const PATIENCE_V4_MS: u64 = 1000;

/// Passes that close makes for what it queued, without waiting for a peer.
pub(super) const PASSES_AT_CLOSE: usize = 4;

impl Transport {
    /// Makes a listener and fills `handle`: 88 bytes are written, the rest stays the caller's.
    ///
    /// # Errors
    /// The device could not be opened, no id is left.
    pub fn listen(&self, dev: usize, handle: &mut [u8; 128]) -> Result<CommWord, NetError> {
        self.listen_classed(dev, None, handle)
    }

    /// As [`Transport::listen`]: what the receive communicator sends is of a traffic class
    /// ([`Transport::traffic_class`]).
    ///
    /// # Errors
    /// As [`Transport::listen`].
    pub fn listen_classed(
        &self,
        dev: usize,
        class: Option<TrafficClass>,
        handle: &mut [u8; 128],
    ) -> Result<CommWord, NetError> {
        self.alive()?;
        if let Some(other) = &*self.sendrecv {
            return other.listen(&self.config, (dev, class), handle);
        }
        let seat = self.seat(self.device(dev)?, class)?;
        let (comm, id, name) = seat.domain.enter(|core| {
            core.receive_all()?;
            let (comm, id) = core.engine.listen()?;
            core.opened(comm, Role::Listener);
            core.drain();
            Ok((comm, id, core.engine.config().control_names[0].bytes))
        })?;
        Handle { name, comm_id: id }.encode(&mut handle[..HANDLE_BYTES]);
        self.registry.nudge();
        seat.comm_word(comm)
    }

    /// Takes the next step of a connection to the listener that `handle` names; the send communicator
    /// once it is up. Called again and again with the same buffer: the state is in its bytes 64..88,
    /// zero in a fresh one.
    ///
    /// # Errors
    /// A handle that is damaged or of something else, an unreachable peer, a peer set up differently,
    /// the connect deadline. The communicator is gone then.
    pub fn connect(
        &self,
        dev: usize,
        handle: &mut [u8; 128],
    ) -> Result<Option<CommWord>, NetError> {
        self.connect_classed(dev, None, handle)
    }

    /// As [`Transport::connect`]: what the communicator sends is of a traffic class
    /// ([`Transport::traffic_class`]), which the first of the calls with a handle gives.
    ///
    /// # Errors
    /// As [`Transport::connect`].
    pub fn connect_classed(
        &self,
        dev: usize,
        class: Option<TrafficClass>,
        handle: &mut [u8; 128],
    ) -> Result<Option<CommWord>, NetError> {
        self.alive()?;
        let word = match handle_state::read(handle, self.nonce) {
            State::Fresh => match self.start(dev, class, &handle[..])? {
                Some(word) => word,
                None => return Ok(None),
            },
            State::Used(word, Step::Connecting) => word,
            State::Used(_, step) => return Err(used(step)),
            State::Corrupt => return Err(corrupt(handle)),
        };
        handle_state::write(handle, self.nonce, word, Step::Connecting);
        let stepped = self.step_connect(word);
        match &stepped {
            Ok(None) => {}
            Ok(Some(_)) => handle_state::write(handle, self.nonce, word, Step::Connected),
            Err(_) => handle_state::write(handle, self.nonce, word, Step::Failed),
        }
        stepped
    }

    /// The connect of v4 (decision 18): the send communicator, once its connect message is with the
    /// provider or after a second; its connection completes in later calls on it. The handle has 64 bytes
    /// and no state.
    ///
    /// # Errors
    /// A handle that is damaged or of something else, an unreachable peer.
    pub fn connect_v4(&self, dev: usize, handle: &mut [u8; 64]) -> Result<CommWord, NetError> {
        self.alive()?;
        let word = loop {
            if let Some(word) = self.start(dev, None, &handle[..])? {
                break word;
            }
            std::thread::yield_now();
        };
        // A provider says EAGAIN at the first contact with a peer (shm). Were the message left for a later
        // call, a caller that now waits for its peers by other means would never make one.
        let deadline = Deadline::after(PATIENCE_V4_MS);
        while self.step_connect(word)?.is_none() && self.has_message_left(word)? {
            if deadline.is_over() {
                break;
            }
            std::thread::yield_now();
        }
        Ok(word)
    }

    /// Whether the connect message of a communicator waits for the provider.
    fn has_message_left(&self, word: CommWord) -> Result<bool, NetError> {
        let stage = match &*self.sendrecv {
            Some(other) => other.stage(word)?,
            None => {
                let (_, domain, key) = self.comm(word)?;
                domain.enter(|core| Ok(core.engine.comm_info(key).and_then(|info| info.stage)))?
            }
        };
        Ok(stage == Some(Stage::SendConn))
    }

    /// Takes the next step of an accept; the receive communicator once it is up.
    ///
    /// # Errors
    /// A peer set up differently (it was told), an answer that could not be sent within the connect
    /// deadline: the listener can take another connection then. A listener that gave its connection.
    pub fn accept(&self, listener: CommWord) -> Result<Option<CommWord>, NetError> {
        if let Some(other) = &*self.sendrecv {
            self.alive()?;
            return other.accept(listener);
        }
        let (seat, domain, key) = self.comm(listener)?;
        if self.config.endpoint_per_comm {
            return self.accept_elsewhere(seat, key);
        }
        self.registry.nudge();
        let accepted = domain.attempt(|core| {
            core.expect(key, Role::Listener)?;
            core.progress();
            let Core { engine, port, .. } = core;
            let accepted = engine.poll_accept(key, clock::now_ms(), port);
            core.drain();
            let accepted = core.heard(accepted?)?;
            if let Some(comm) = accepted {
                core.opened(comm, Role::Recv);
            }
            Ok(accepted)
        });
        let accepted = self.registry.told(accepted)?;
        accepted.map(|comm| seat.comm_word(comm)).transpose()
    }

    /// The accept of v4: waits, at most for the connect deadline.
    ///
    /// # Errors
    /// As [`Transport::accept`]; nobody connected in time.
    pub fn accept_blocking(&self, listener: CommWord) -> Result<CommWord, NetError> {
        let deadline = Deadline::after(self.config.connect_timeout_ms);
        loop {
            if let Some(word) = self.accept(listener)? {
                self.see_connections_through(listener)?;
                return Ok(word);
            }
            if deadline.is_over() {
                let what = format!("accept: nobody connected in {} ms", deadline.waited_ms());
                self.registry.watch().failed();
                let failed = Err(NetError::new(Code::ConnectTimeout, what));
                return self.registry.told(failed);
            }
            std::thread::yield_now();
        }
    }

    /// Takes the answers to connects of v4 that are still out, within its patience. A provider may need the
    /// receiver's calls to complete a send (shm of 2.x): a peer would wait in accept for a process that
    /// believes itself connected and calls no more.
    fn see_connections_through(&self, listener: CommWord) -> Result<(), NetError> {
        if self.sendrecv.is_some() {
            // Its connect messages have no answer.
            return Ok(());
        }
        let (_, domain, _) = self.comm(listener)?;
        let deadline = Deadline::after(PATIENCE_V4_MS);
        while domain.enter(|core| Ok(core.is_connecting()))? && !deadline.is_over() {
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Closes a send communicator, with requests in flight or without: their words are stale from
    /// now on. When their memory is safe to free: after [`Transport::dereg_mr`] of it.
    ///
    /// # Errors
    /// No such communicator, or of another kind.
    pub fn close_send(&self, comm: CommWord) -> Result<(), NetError> {
        self.close(comm, Role::Send)
    }

    /// As [`Transport::close_send`], for a receive communicator.
    ///
    /// # Errors
    /// As [`Transport::close_send`].
    pub fn close_recv(&self, comm: CommWord) -> Result<(), NetError> {
        self.close(comm, Role::Recv)
    }

    /// Closes a listener; a connection that it was making goes with it.
    ///
    /// # Errors
    /// As [`Transport::close_send`].
    pub fn close_listen(&self, comm: CommWord) -> Result<(), NetError> {
        self.close(comm, Role::Listener)
    }

    fn close(&self, word: CommWord, role: Role) -> Result<(), NetError> {
        if let Some(other) = &*self.sendrecv {
            self.alive()?;
            return other.close_comm(word, role);
        }
        let (seat, domain, key) = self.comm(word)?;
        let adopted = domain.enter(|core| {
            core.expect(key, role)?;
            let adopted = core.adopted.remove(&key);
            core.close(key)?;
            for _ in 0..PASSES_AT_CLOSE {
                core.progress();
            }
            Ok(adopted)
        })?;
        self.registry.nudge();
        if self.config.endpoint_per_comm {
            self.device(seat.device)?.release(seat.number(), key);
        }
        adopted.map_or(Ok(()), |child| self.abandon(child))
    }

    /// Makes a send communicator; `None` when the domain is busy.
    fn start(
        &self,
        dev: usize,
        class: Option<TrafficClass>,
        handle: &[u8],
    ) -> Result<Option<CommWord>, NetError> {
        if let Some(other) = &*self.sendrecv {
            return other.start(&self.config, (dev, class), handle);
        }
        let Some(Handle { name, comm_id }) = Handle::decode(handle) else {
            return Err(NetError::new(Code::CorruptHandle, "fewer than 64 bytes"));
        };
        let target = Target {
            control_name: name,
            listener_id: comm_id,
        };
        let seat = self.seat(self.device(dev)?, class)?;
        let comm = seat.domain.attempt(|core| {
            core.receive_control()?;
            let Core { engine, port, .. } = &mut *core;
            let connecting = engine.connect(clock::now_ms(), port, &target);
            let comm = connecting.map_err(|error| {
                port.receives.sender_removed();
                let control_0 = port.lane(Lane::control(0));
                let show = |end: &LaneEnd| end.peers.show_name(&target.control_name);
                NetError::from(error).of_handle(|| control_0.map(show).unwrap_or_default())
            })?;
            core.opened(comm, Role::Send);
            core.drain();
            Ok(Some(comm))
        });
        let comm = self.registry.told(comm)?;
        comm.map(|comm| seat.comm_word(comm)).transpose()
    }

    fn step_connect(&self, word: CommWord) -> Result<Option<CommWord>, NetError> {
        if let Some(other) = &*self.sendrecv {
            return other.step_connect(word);
        }
        let (_, domain, key) = self.comm(word)?;
        self.registry.nudge();
        let up = domain.attempt(|core| core.step_connect(key).map(Some));
        let up = self.registry.told(up)?;
        Ok(up.filter(|&up| up).map(|_| word))
    }
}

impl Connecting for Core {
    fn open(&self) -> &HashMap<CommKey, Role> {
        &self.open
    }

    fn pass(&mut self) {
        self.progress();
    }

    fn poll_connect(&mut self, comm: CommKey) -> Result<bool, NetError> {
        let Self { engine, port, .. } = self;
        let up = engine.poll_connect(comm, clock::now_ms(), port);
        self.drain();
        Ok(up?)
    }

    fn remember(&mut self, comm: CommKey, made: Made) {
        let views = self.engine.views(clock::now_ms());
        match made {
            Made::Yes => self.lost.made(comm, views),
            Made::No => self.lost.keep(comm, views),
        }
    }

    fn close(&mut self, comm: CommKey) -> Result<(), NetError> {
        self.close_in_engine(comm, clock::now_ms())?;
        if self.open.remove(&comm) == Some(Role::Send) {
            self.port.receives.sender_removed();
        }
        self.drain();
        self.publish();
        Ok(())
    }
}

impl Core {
    /// Makes progress; whether a send communicator still waits for its answer. One that failed does not: its
    /// next call says so.
    fn is_connecting(&mut self) -> bool {
        self.progress();
        let sends = self.open.iter().filter(|&(_, role)| *role == Role::Send);
        let sends: Vec<CommKey> = sends.map(|(&comm, _)| comm).collect();
        (sends.into_iter()).any(|comm| matches!(self.poll_connect(comm), Ok(false)))
    }
}

fn used(step: Step) -> NetError {
    let what = match step {
        Step::Connected => "connect has returned the communicator of this handle before",
        _ => "the connection of this handle has failed before",
    };
    NetError::new(Code::CorruptHandle, what)
}

fn corrupt(handle: &[u8; 128]) -> NetError {
    let state = handle.get(64..HANDLE_BYTES).unwrap_or_default();
    let what = format!("bytes 64 to 88 are not of this process: {state:02x?}");
    NetError::new(Code::CorruptHandle, what)
}
