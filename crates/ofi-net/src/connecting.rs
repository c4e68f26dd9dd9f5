//! What both protocols do alike about a connection that is being made: whether a communicator is what a call takes,
//! and one more call of connect.

use crate::error::{Code, NetError};
use crate::progress::Role;
use crate::registry::stale;
use ofi_rdma::CommKey;
use std::collections::HashMap;

/// What has become of a connection, for dumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Made {
    /// It is up.
    Yes,
    /// It failed, and is about to be closed.
    No,
}

/// A domain's core, as far as connections go.
pub(crate) trait Connecting {
    /// The communicators that callers hold.
    fn open(&self) -> &HashMap<CommKey, Role>;

    /// Makes progress.
    fn pass(&mut self);

    /// Lets the engine look at an answer that came, or at the deadline; whether it is up.
    fn poll_connect(&mut self, comm: CommKey) -> Result<bool, NetError>;

    /// Keeps in mind what dumps say of it later.
    fn remember(&mut self, comm: CommKey, made: Made);

    /// Detaches a communicator.
    fn close(&mut self, comm: CommKey) -> Result<(), NetError>;

    /// Whether a communicator is there and of the kind that a call takes.
    fn expect(&self, comm: CommKey, role: Role) -> Result<(), NetError> {
        match self.open().get(&comm) {
            Some(&found) if found == role => Ok(()),
            Some(found) => {
                let what = format!("{found:?} communicator where {role:?} was expected");
                Err(NetError::new(Code::WrongKind, what))
            }
            None => Err(stale(Code::StaleComm, "communicator", comm.to_bits())),
        }
    }

    /// One call of connect more: whether the communicator is up. One that failed is closed.
    ///
    /// # Errors
    /// What it failed of.
    fn step_connect(&mut self, comm: CommKey) -> Result<bool, NetError> {
        self.expect(comm, Role::Send)?;
        self.pass();
        let up = self.poll_connect(comm);
        match up {
            Ok(true) => self.remember(comm, Made::Yes),
            Ok(false) => {}
            Err(_) => {
                self.remember(comm, Made::No);
                self.close(comm)?;
            }
        }
        up
    }
}
