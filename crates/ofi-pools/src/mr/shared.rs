//! The cache for several threads: no lock is held while the provider works.

use crate::mr::answer::{Handle, Lookup, Released, StaleHandle, StaleTicket, Ticket};
use crate::mr::cache::MrCache;
use crate::mr::request::{Request, RequestError};
use crate::sync::{Condvar, Mutex};
use core::fmt;

/// Registers memory with the network: with every rail, or with none.
pub trait Registrar {
    /// A registered region.
    type Region;
    /// Why the network refused.
    type Error;

    /// Registers the range of `request`, which is rounded to pages already.
    ///
    /// # Errors
    ///
    /// The provider's; whatever was registered on some rails is undone before.
    fn register(&self, request: &Request) -> Result<Self::Region, Self::Error>;

    /// Closes a region.
    ///
    /// # Errors
    ///
    /// [`Refused`] with the region when the provider will not.
    fn deregister(&self, region: Self::Region) -> Result<(), Refused<Self::Region, Self::Error>>;
}

/// A region that the provider would not close. It stays registered, and no longer in any cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused<R, E> {
    /// The region: keep it, its memory is still in the reach of the network.
    pub region: R,
    /// What the provider said.
    pub error: E,
}

impl<R, E: fmt::Display> fmt::Display for Refused<R, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the provider did not close a memory region, which stays registered: {} (an operation \
             still under way on it?)",
            self.error
        )
    }
}

impl<R: fmt::Debug, E: fmt::Debug + fmt::Display> core::error::Error for Refused<R, E> {}

/// Why there is no region for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcquireError<E> {
    /// The request itself is wrong.
    Request(RequestError),
    /// The registration failed; nothing of it is left.
    Register(E),
    /// The cache holds as many regions as a handle can tell apart; the new one was closed again.
    Full,
}

impl<E: fmt::Display> fmt::Display for AcquireError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request(error) => error.fmt(f),
            Self::Register(error) => write!(f, "memory registration failed: {error}"),
            Self::Full => f.write_str("registration cache full: deregister memory not in use"),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> core::error::Error for AcquireError<E> {}

/// Why a reference could not be given back cleanly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseError<R, E> {
    /// There was none.
    Stale(StaleHandle),
    /// It was the last, and the provider did not close the region.
    Refused(Refused<R, E>),
}

impl<R, E: fmt::Display> fmt::Display for ReleaseError<R, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stale(error) => error.fmt(f),
            Self::Refused(error) => error.fmt(f),
        }
    }
}

impl<R: fmt::Debug, E: fmt::Debug + fmt::Display> core::error::Error for ReleaseError<R, E> {}

/// An [`MrCache`] behind a lock, with the [`Registrar`] that fills it.
///
/// Of several callers that miss one range at once, one registers and the others wait for it; if it
/// fails, or panics, the next of them tries. Callers for other ranges wait for nobody.
///
/// # Costs
///
/// One uncontended lock above those of [`MrCache`].
pub struct SharedMrCache<G: Registrar> {
    cache: Mutex<MrCache<G::Region>>,
    /// Signalled whenever a registration has ended.
    ended: Condvar,
    registrar: G,
}

impl<G: Registrar> fmt::Debug for SharedMrCache<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedMrCache").finish_non_exhaustive()
    }
}

impl<G: Registrar> SharedMrCache<G> {
    /// An empty cache that rounds ranges to `page` bytes, as [`MrCache::new`].
    ///
    /// # Errors
    ///
    /// [`RequestError::Page`] when it is not a power of two.
    pub fn new(page: u64, registrar: G) -> Result<Self, RequestError> {
        let cache = Mutex::new(MrCache::new(page)?);
        Ok(Self {
            cache,
            ended: Condvar::new(),
            registrar,
        })
    }

    /// A reference to a region that covers `request`: found, or registered now.
    ///
    /// # Errors
    ///
    /// [`AcquireError`]; the cache is then as if nothing had been asked.
    pub fn acquire(&self, request: &Request) -> Result<Handle, AcquireError<G::Error>> {
        let mut cache = self.cache.lock();
        let ticket = loop {
            match cache.lookup(request).map_err(AcquireError::Request)? {
                Lookup::Hit(handle) => return Ok(handle),
                Lookup::Miss(ticket) => break ticket,
                Lookup::Busy => cache = self.ended.wait(cache),
            }
        };
        drop(cache);
        let mut duty = Duty {
            shared: self,
            ticket: Some(ticket),
        };
        let request = duty
            .ticket
            .as_ref()
            .map_or(*request, |ticket| *ticket.request());
        let region = self
            .registrar
            .register(&request)
            .map_err(AcquireError::Register)?;
        match duty.complete(region) {
            Ok(handle) => Ok(handle),
            Err(StaleTicket { region }) => {
                // The error of this call says more than that of the clean-up could.
                drop(self.registrar.deregister(region));
                Err(AcquireError::Full)
            }
        }
    }

    /// Gives a reference back; the last one closes the region. Returns whether it was the last.
    ///
    /// # Errors
    ///
    /// [`ReleaseError`].
    pub fn release(&self, handle: Handle) -> Result<bool, ReleaseError<G::Region, G::Error>> {
        let released = self
            .cache
            .lock()
            .release(handle)
            .map_err(ReleaseError::Stale)?;
        match released {
            Released::Held { .. } => Ok(false),
            Released::Last(region) => {
                self.registrar
                    .deregister(region)
                    .map_err(ReleaseError::Refused)?;
                Ok(true)
            }
        }
    }

    /// Calls `f` with the state machine, under the lock: to read a region, retain a handle, take
    /// statistics or drain. `f` must not come back to this cache.
    pub fn with<T>(&self, f: impl FnOnce(&mut MrCache<G::Region>) -> T) -> T {
        f(&mut self.cache.lock())
    }

    /// What registers.
    pub const fn registrar(&self) -> &G {
        &self.registrar
    }
}

/// The duty to end a registration: by success, or else, also when unwinding, by failure.
struct Duty<'a, G: Registrar> {
    shared: &'a SharedMrCache<G>,
    ticket: Option<Ticket>,
}

impl<G: Registrar> Duty<'_, G> {
    fn complete(&mut self, region: G::Region) -> Result<Handle, StaleTicket<G::Region>> {
        let Some(ticket) = self.ticket.take() else {
            return Err(StaleTicket { region });
        };
        let handle = self.shared.cache.lock().complete(ticket, region);
        self.shared.ended.notify_all();
        handle
    }
}

impl<G: Registrar> Drop for Duty<'_, G> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.shared.cache.lock().fail(ticket);
            self.shared.ended.notify_all();
        }
    }
}
