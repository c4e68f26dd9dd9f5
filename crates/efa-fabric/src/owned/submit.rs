//! What became of an attempt to start an operation.

use core::fmt;

use crate::error::FabricError;
use crate::owned::buffer::Buffer;
use crate::owned::ticket::Ticket;

/// An attempt that did not fail.
#[derive(Debug)]
#[must_use = "it holds the ticket, or the buffer of an operation that was not started"]
pub enum Submitted {
    /// The operation goes on; its buffer comes back through the ticket.
    Pending(Ticket),
    /// The provider cannot take it now: poll the port, then try again with the buffer.
    Busy(Buffer),
}

/// An attempt that failed. The buffer is untouched.
#[derive(Debug)]
pub struct SubmitError {
    /// Why.
    pub error: FabricError,
    /// The buffer.
    pub buffer: Buffer,
}

impl fmt::Display for SubmitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.error, f)
    }
}

impl core::error::Error for SubmitError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        Some(&self.error)
    }
}
