//! What the provider is using now.

use core::mem;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::context::Context2;
use crate::fid::count_leak;
use crate::owned::buffer::Buffer;
use crate::owned::ticket::{Cell, Completed, OperationError, Ticket, Transfer};

/// What an operation does with its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Send, receive or write: only this process touches the buffer.
    Local,
    /// Sink of a read: on shared memory the peer copies into it, at any time until it completes.
    ReadSink,
}

/// One operation: all that must outlive it.
#[derive(Debug)]
struct InFlight {
    buffer: Buffer,
    cell: Cell,
    how: Use,
    context: Box<Context2>,
}

/// Operations by the address of their context.
#[derive(Debug, Default)]
pub(crate) struct InFlightTable(HashMap<usize, InFlight>);

impl InFlightTable {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Keeps everything that an accepted operation uses.
    pub(crate) fn admit(&mut self, buffer: Buffer, how: Use, context: Box<Context2>) -> Ticket {
        let address = core::ptr::from_ref(&*context).addr();
        let cell = Arc::new(Mutex::new(None));
        let ticket = Ticket::new(Arc::clone(&cell), address);
        self.0.insert(
            address,
            InFlight {
                buffer,
                cell,
                how,
                context,
            },
        );
        ticket
    }

    /// Whether the ticket's operation is one of these and not over.
    pub(crate) fn holds(&self, ticket: &Ticket) -> bool {
        self.0
            .get(&ticket.context())
            .is_some_and(|found| Arc::ptr_eq(&found.cell, ticket.cell()))
    }

    /// Ends one: the buffer goes to the ticket, or is freed if nobody holds that any more. `false`
    /// for a context that is not known.
    pub(crate) fn complete(
        &mut self,
        context: *mut Context2,
        outcome: Result<Transfer, OperationError>,
    ) -> bool {
        let Some(InFlight { buffer, cell, .. }) = self.0.remove(&context.addr()) else {
            return false;
        };
        fill(&cell, Completed { buffer, outcome });
        true
    }

    /// Ends all after their endpoint was closed.
    pub(crate) fn discard(&mut self) {
        for (
            _,
            InFlight {
                buffer,
                cell,
                how,
                context,
            },
        ) in mem::take(&mut self.0)
        {
            match how {
                Use::Local => {
                    let outcome = Err(OperationError::PortClosed);
                    fill(&cell, Completed { buffer, outcome });
                }
                Use::ReadSink => leak(buffer, context),
            }
        }
    }

    /// Leaves all to the provider for ever, since their endpoint could not be closed.
    pub(crate) fn leak_all(&mut self) {
        for (
            _,
            InFlight {
                buffer, context, ..
            },
        ) in mem::take(&mut self.0)
        {
            leak(buffer, context);
        }
    }
}

#[expect(
    clippy::mem_forget,
    reason = "the provider may still use it: freeing would be unsound"
)]
fn leak(buffer: Buffer, context: Box<Context2>) {
    mem::forget(buffer);
    mem::forget(context);
    count_leak();
}

fn fill(cell: &Cell, completed: Completed) {
    *cell.lock().unwrap_or_else(PoisonError::into_inner) = Some(completed);
}
