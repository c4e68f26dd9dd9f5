//! listen, connect, accept, close (protocol 2d.8).

use super::SendRecv;
use super::progress::Core;
use crate::clock;
use crate::config::Config;
use crate::connecting::{Connecting, Made};
use crate::error::{Code, NetError};
use crate::handle_words::CommWord;
use crate::progress::Role;
use crate::report::Note;
use crate::traffic::TrafficClass;
use ofi_rdma::wire::handle::{HANDLE_BYTES, Handle};
use ofi_rdma::{CommKey, Stage};
use ofi_sendrecv::Target;
use ofi_sendrecv::limits::FIRST_TAG;
use std::collections::HashMap;

/// Passes that close makes for what it queued, without waiting for a peer.
const PASSES_AT_CLOSE: usize = 4;

impl SendRecv {
    pub(crate) fn listen(
        &self,
        config: &Config,
        on: (usize, Option<TrafficClass>),
        handle: &mut [u8; 128],
    ) -> Result<CommWord, NetError> {
        let seat = self.seat(config, on)?;
        let (comm, tag, name) = seat.domain.enter(|core| {
            let (comm, tag) = core.engine.listen()?;
            core.opened(comm, Role::Listener);
            core.drain();
            Ok((comm, tag, core.engine.config().name.bytes))
        })?;
        let handle = &mut handle[..HANDLE_BYTES];
        Handle { name, comm_id: tag }.encode(handle);
        self.registry.nudge();
        seat.comm_word(comm)
    }

    /// Makes a send communicator; `None` when the domain is busy.
    pub(crate) fn start(
        &self,
        config: &Config,
        on: (usize, Option<TrafficClass>),
        handle: &[u8],
    ) -> Result<Option<CommWord>, NetError> {
        let Some(Handle { name, comm_id }) = Handle::decode(handle) else {
            return Err(NetError::new(Code::CorruptHandle, "fewer than 64 bytes"));
        };
        let target = Target { name, tag: comm_id };
        let seat = self.seat(config, on)?;
        let comm = seat.domain.attempt(|core| {
            let Core { engine, port, .. } = &mut *core;
            let connecting = engine.connect(clock::now_ms(), port, &target);
            let comm = connecting.map_err(|error| {
                NetError::from(error).of_handle(|| port.peers.show_name(&target.name))
            })?;
            if comm_id < FIRST_TAG {
                let peer = port.peers.show_name(&target.name).into();
                port.note(Note::Foreign { tag: comm_id, peer });
            }
            core.opened(comm, Role::Send);
            core.drain();
            Ok(Some(comm))
        });
        let comm = self.registry.told(comm)?;
        comm.map(|comm| seat.comm_word(comm)).transpose()
    }

    pub(crate) fn step_connect(&self, word: CommWord) -> Result<Option<CommWord>, NetError> {
        let (_, domain, key) = self.comm(word)?;
        self.registry.nudge();
        let up = domain.attempt(|core| core.step_connect(key).map(Some));
        let up = self.registry.told(up)?;
        Ok(up.filter(|&up| up).map(|_| word))
    }

    /// What a communicator waits for, if for anything.
    pub(crate) fn stage(&self, word: CommWord) -> Result<Option<Stage>, NetError> {
        let (_, domain, key) = self.comm(word)?;
        domain.enter(|core| Ok(core.engine.comm_info(key).and_then(|info| info.stage)))
    }

    pub(crate) fn accept(&self, listener: CommWord) -> Result<Option<CommWord>, NetError> {
        let (seat, domain, key) = self.comm(listener)?;
        self.registry.nudge();
        let accepted = domain.attempt(|core| {
            core.expect(key, Role::Listener)?;
            core.progress();
            let Core { engine, port, .. } = &mut *core;
            let accepted = engine.poll_accept(key, clock::now_ms(), port);
            core.drain();
            let accepted = accepted?;
            if let Some(comm) = accepted {
                core.opened(comm, Role::Recv);
            }
            Ok(accepted)
        });
        let accepted = self.registry.told(accepted)?;
        accepted.map(|comm| seat.comm_word(comm)).transpose()
    }

    pub(crate) fn close_comm(&self, word: CommWord, role: Role) -> Result<(), NetError> {
        let (_, domain, key) = self.comm(word)?;
        domain.enter(|core| {
            core.expect(key, role)?;
            core.close(key)?;
            for _ in 0..PASSES_AT_CLOSE {
                core.progress();
            }
            Ok(())
        })?;
        self.registry.nudge();
        Ok(())
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
        let up = self.engine.poll_connect(comm, clock::now_ms());
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
        self.open.remove(&comm);
        self.drain();
        self.publish();
        Ok(())
    }
}
