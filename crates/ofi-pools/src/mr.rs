//! The registration cache: is there a region that covers this range, and who still holds it?
//!
//! ```text
//! lookup(request) -> Hit(handle)    a registered region truly covers it; one reference taken
//!                 -> Busy           someone registers a region that will cover it: ask again
//!                 -> Miss(ticket)   register ticket.request(), with no lock held, and then
//!                                     complete(ticket, region) -> handle, one reference
//!                                     fail(ticket)             -> as if it had never been asked
//! retain(handle), release(handle) -> Held | Last(region): close it, again with no lock held
//! ```
//!
//! [`MrCache`] is that state machine and calls nobody. [`SharedMrCache`] drives it for several
//! threads over a [`Registrar`].

mod answer;
mod cache;
mod interval;
mod last;
mod recent;
mod request;
#[cfg(feature = "std")]
mod shared;

pub use crate::mr::answer::{Handle, Lookup, Released, StaleHandle, StaleTicket, Ticket};
pub use crate::mr::cache::{CacheStats, MrCache};
pub use crate::mr::request::{Attr, DmaBuf, Request, RequestError};
#[cfg(feature = "std")]
pub use crate::mr::shared::{AcquireError, Refused, Registrar, ReleaseError, SharedMrCache};
