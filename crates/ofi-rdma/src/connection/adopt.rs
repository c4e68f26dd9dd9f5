//! A connection that another engine accepts: for a receiver with an endpoint for each communicator of
//! a peer (protocol 2d.1, `OFI_NCCL_ENDPOINT_PER_COMM`). The listener's engine only takes the CONN;
//! the adopting engine makes the communicator, and its `CONN_RESP` names its own endpoints.
//!
//! ```text
//! listener's engine:  waiting_conn ----------------------------> settle(Taken | Lost)
//! adopting engine:                  adopt -> poll_adopted ... -> true | error
//! ```
//!
//! The CONN stays the listener's meanwhile, so that a second one is refused as ever.

use ofi_sched::Policy;

use crate::comm::CommKind;
use crate::dialect::Dialect;
use crate::engine::Engine;
use crate::error::Error;
use crate::key::CommKey;
use crate::port::RailPort;
use crate::state::{CommInput, CommState};
use crate::wire::conn::Conn;

/// What became of a listener's CONN elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adoption {
    /// The communicator is up: the listener has given its connection.
    Taken,
    /// It failed, or the CONN was garbage: the listener can take another.
    Lost,
}

impl<D: Dialect, S: Policy> Engine<D, S> {
    /// The CONN that came for a listener, if one did.
    ///
    /// # Errors
    /// No such listener, or one that has given its connection.
    pub fn waiting_conn(&self, listener: CommKey) -> Result<Option<&Conn>, Error> {
        let l = self.usable(listener, CommKind::Listener)?;
        if l.state == CommState::Accepted {
            return Err(Error::AlreadyAccepted);
        }
        Ok(l.message.as_deref())
    }

    /// Makes a receive communicator for a CONN that came to another engine, and queues its
    /// `CONN_RESP`. `None` for a CONN whose addresses the provider refuses: garbage, counted.
    ///
    /// # Errors
    /// No id left.
    pub fn adopt<P: RailPort>(
        &mut self,
        conn: &Conn,
        now_ms: u64,
        port: &mut P,
    ) -> Result<Option<CommKey>, Error> {
        Ok(self.child_of(conn, now_ms, port)?.map(CommKey))
    }

    /// Takes the next step of an adopted connection; true once its `CONN_RESP` is sent.
    ///
    /// # Errors
    /// The peer is set up differently (it was told), or the answer could not be sent within the
    /// connect deadline. The communicator is closed then.
    pub fn poll_adopted(&mut self, comm: CommKey, now_ms: u64) -> Result<bool, Error> {
        self.step_child(comm.0, now_ms)
    }

    /// Ends the wait of a listener whose CONN was adopted.
    pub fn settle(&mut self, listener: CommKey, adoption: Adoption) {
        let Some(l) = self.comms.get_mut(listener.0) else {
            return;
        };
        if l.message.take().is_some() {
            l.step(match adoption {
                Adoption::Taken => CommInput::ChildTaken,
                Adoption::Lost => CommInput::ChildLost,
            });
        }
    }
}
