//! Layer 2: operations that own what they use. Nothing here is unsafe but the promise that a peer's
//! memory is where it says ([`Peer::region`]).
//!
//! # How it is safe
//!
//! ```text
//!   Buffer --send/recv/write/read--> Port (keeps buffer, region, context) --completion--> Ticket::take -> Buffer
//! ```
//!
//! * A [`Buffer`] is moved into the operation and comes back with its completion: nobody can touch
//!   or free it while the provider may. Dropping the [`Ticket`] does not stop the operation; the
//!   buffer is then freed when it completes.
//! * Dropping a [`Port`] closes its endpoint first; fi_endpoint(3) says that outstanding operations
//!   are discarded by that, so their buffers are freed after, or come back through their tickets.
//!   Two exceptions are *leaked* and counted ([`leak_count`](crate::leak_count)): sinks of reads
//!   in flight, into which a peer on shared memory may still copy, and everything if the endpoint
//!   refuses to close.
//! * Memory that peers may access is [`Exposed`]: it is never borrowed as a slice, only copied in and
//!   out with atomic loads and stores, and it is freed with its *domain*, when no endpoint is left
//!   through which anybody could reach it.
//! * A [`Peer`] belongs to the port that inserted it, a buffer to its domain: mixing them is an error
//!   of the call.
//!
//! What a peer does to memory exposed to it is not limited: that is what exposing means. (And on
//! shared memory a process of the same user may write anywhere in this one, exposed or not.)
//!
//! # Costs
//!
//! One allocation and a hash-table entry an operation. The path without them is [`crate::post`].

mod buffer;
mod exposed;
mod in_flight;
mod port;
mod queue;
mod submit;
mod tagged;
mod ticket;

pub use buffer::Buffer;
pub use exposed::Exposed;
pub use port::{Incoming, Peer, Port, RemoteRegion};
pub use submit::{SubmitError, Submitted};
pub use ticket::{Completed, OperationError, Ticket, Transfer, Unfinished};
