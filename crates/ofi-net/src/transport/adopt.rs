//! accept with an endpoint for each communicator of a peer (protocol 2d.1,
//! `OFI_NCCL_ENDPOINT_PER_COMM`).
//!
//! ```text
//! listener's domain           domain without a communicator of this peer
//!   CONN arrives ------------> communicator, CONN_RESP, all that follows
//! ```
//!
//! The domains have engines and queues of their own. A caller that waits for a request of one makes
//! progress on the others as well ([`crate::registry::Registry::nudge`]): what it waits for may depend on
//! them.

use super::Transport;
use super::connect::PASSES_AT_CLOSE;
use crate::clock;
use crate::connecting::Connecting;
use crate::domain::Seat;
use crate::error::NetError;
use crate::handle_words::CommWord;
use crate::peer_sets::address_of;
use crate::progress::{Core, Role};
use ofi_rdma::wire::conn::Conn;
use ofi_rdma::{Adoption, CommKey};

/// What a listener has.
enum Waiting {
    /// Nothing yet, or its domain is busy.
    Nothing,
    /// A CONN that nobody answered.
    Conn(Box<Conn>),
    /// A communicator on another domain that answers its CONN.
    Child(CommWord),
}

impl Transport {
    /// As [`Transport::accept`]: the communicator is made on another domain.
    pub(super) fn accept_elsewhere(
        &self,
        seat: &Seat,
        listener: CommKey,
    ) -> Result<Option<CommWord>, NetError> {
        self.registry.nudge();
        let child = match self.waiting(seat, listener)? {
            Waiting::Nothing => return Ok(None),
            Waiting::Child(child) => child,
            Waiting::Conn(conn) => match self.adopt(seat, listener, &conn) {
                Ok(Some(child)) => child,
                Ok(None) => return Ok(None),
                Err(error) => {
                    // That connection is over: the same CONN would fail in the same way for ever.
                    self.settle(seat, listener, Adoption::Lost)?;
                    return self.registry.told(Err(error));
                }
            },
        };
        let (other, domain, key) = self.comm(child)?;
        let stepped = domain.attempt(|core| {
            core.progress();
            let stepped = core.engine.poll_adopted(key, clock::now_ms());
            core.drain();
            if stepped.is_err() {
                core.open.remove(&key);
                core.forget(key);
            }
            Ok(Some(stepped?))
        });
        let adoption = match stepped {
            Ok(Some(true)) => Adoption::Taken,
            Ok(_) => return Ok(None),
            Err(_) => Adoption::Lost,
        };
        if adoption == Adoption::Lost {
            self.device(other.device)?.release(other.number(), key);
        }
        self.settle(seat, listener, adoption)?;
        self.registry.told(stepped.map(|_| Some(child)))
    }

    /// The CONN of a listener is taken, or over.
    fn settle(&self, seat: &Seat, listener: CommKey, adoption: Adoption) -> Result<(), NetError> {
        seat.domain.enter(|core| {
            core.adopted.remove(&listener);
            core.engine.settle(listener, adoption);
            Ok(())
        })
    }

    fn waiting(&self, seat: &Seat, listener: CommKey) -> Result<Waiting, NetError> {
        let waiting = seat.domain.attempt(|core| {
            core.expect(listener, Role::Listener)?;
            core.progress();
            if let Some(&child) = core.adopted.get(&listener) {
                return Ok(Some(Waiting::Child(child)));
            }
            let conn = core.engine.waiting_conn(listener)?;
            let waiting = conn.map(|conn| Waiting::Conn(Box::new(*conn)));
            core.heard(waiting)
        });
        let waiting = self.registry.told(waiting)?;
        Ok(waiting.unwrap_or(Waiting::Nothing))
    }

    /// Makes a communicator for a CONN; `None` when the CONN was garbage.
    fn adopt(
        &self,
        seat: &Seat,
        listener: CommKey,
        conn: &Conn,
    ) -> Result<Option<CommWord>, NetError> {
        let [data_rail_0, ..] = &conn.data_names;
        let peer = address_of(data_rail_0);
        let device = self.device(seat.device)?;
        let mut sets = device.peer_sets();
        let other = device.set_for(&mut sets, &peer, &self.opening(None))?;
        let child = other.domain.enter(|core| {
            core.receive_all()?;
            let Core { engine, port, .. } = &mut *core;
            let child = engine.adopt(conn, clock::now_ms(), port)?;
            if let Some(child) = child {
                core.opened(child, Role::Recv);
            }
            core.drain();
            Ok(child)
        })?;
        if let Some(child) = child {
            sets.occupy(other.number(), peer, child);
        }
        drop(sets);
        let word = child.map(|child| other.comm_word(child)).transpose()?;
        seat.domain.enter(|core| {
            match word {
                Some(word) => {
                    core.adopted.insert(listener, word);
                }
                None => core.engine.settle(listener, Adoption::Lost),
            }
            Ok(())
        })?;
        Ok(word)
    }

    /// A listener is closed: what was being made for it goes too.
    pub(super) fn abandon(&self, child: CommWord) -> Result<(), NetError> {
        let (seat, domain, key) = self.comm(child)?;
        self.device(seat.device)?.release(seat.number(), key);
        domain.enter(|core| {
            core.close(key)?;
            for _ in 0..PASSES_AT_CLOSE {
                core.progress();
            }
            Ok(())
        })
    }
}
