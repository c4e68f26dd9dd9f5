//! What became of an operation.

use core::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::completion::CompletionError;
use crate::flags::CompletionFlags;
use crate::owned::buffer::Buffer;

/// A good completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Bytes received, for receives; other operations: as the provider says, often 0.
    pub len: usize,
    /// The CQ data that came with a message.
    pub data: Option<u64>,
    /// The tag of a tagged message that was received.
    pub tag: Option<u64>,
    /// What kind of operation it was.
    pub flags: CompletionFlags,
}

/// Why an operation did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperationError {
    /// It failed.
    Failed(CompletionError),
    /// Its port was closed first.
    PortClosed,
}

impl fmt::Display for OperationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(error) => fmt::Display::fmt(error, f),
            Self::PortClosed => f.write_str("the port was closed before the operation completed"),
        }
    }
}

impl core::error::Error for OperationError {}

/// An operation that is over, with its buffer.
#[derive(Debug)]
pub struct Completed {
    /// The buffer, free again.
    pub buffer: Buffer,
    /// How it went.
    pub outcome: Result<Transfer, OperationError>,
}

/// Why [`Ticket::take`] has nothing to give.
#[derive(Debug)]
pub enum Unfinished {
    /// The operation is still going on: poll the port, and ask again.
    Pending(Ticket),
    /// The port was closed during the operation and could not give the buffer back (see
    /// [`crate::owned`]).
    Lost,
}

/// Where port and ticket meet.
pub(crate) type Cell = Arc<Mutex<Option<Completed>>>;

/// A claim on the result of one operation. Can be redeemed once:
///
/// ```compile_fail,E0382
/// # fn twice(ticket: efa_fabric::Ticket) {
/// let _first = ticket.take();
/// let _second = ticket.take();
/// # }
/// ```
///
/// Dropping it forgoes the result; the operation goes on, and its buffer is freed when it is over.
#[must_use = "without it the buffer does not come back"]
pub struct Ticket {
    cell: Cell,
    context: usize,
}

impl Ticket {
    pub(crate) const fn new(cell: Cell, context: usize) -> Self {
        Self { cell, context }
    }

    /// Names the operation within its port.
    pub(crate) const fn context(&self) -> usize {
        self.context
    }

    pub(crate) const fn cell(&self) -> &Cell {
        &self.cell
    }

    /// Whether the result is there.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.cell
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_some()
    }

    /// The result, if it is there.
    ///
    /// # Errors
    ///
    /// [`Unfinished`]: with the ticket to ask again, or because nothing will come.
    pub fn take(self) -> Result<Completed, Unfinished> {
        let found = self
            .cell
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        match found {
            Some(completed) => Ok(completed),
            None if Arc::strong_count(&self.cell) == 1 => Err(Unfinished::Lost),
            None => Err(Unfinished::Pending(self)),
        }
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket")
            .field("done", &self.is_done())
            .finish_non_exhaustive()
    }
}
