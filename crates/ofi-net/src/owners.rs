//! Whose the domains of a device are: the process's, or each a thread's.
//!
//! One domain for the process, or one for each thread that listens or connects
//! (`OFI_NCCL_DOMAIN_PER_THREAD`, protocol 2d.1). A thread's domain outlives the thread as long as it
//! has communicators, which any thread may use; then it is handed to the next thread that needs
//! one. So there are never more than the most threads that had communicators at one time.

use crate::config::Config;
use crate::error::NetError;
use crate::registry::{Registry, Seat, Seated};
use crate::thread::ThreadId;
use std::sync::{Mutex, PoisonError};

/// Who finds a domain at listen and connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// Every thread.
    Process,
    /// One thread.
    Thread(ThreadId),
}

impl Owner {
    /// Whoever calls.
    pub(crate) fn of_call(config: &Config) -> Self {
        if config.is_domain_per_thread() {
            Self::Thread(ThreadId::current())
        } else {
            Self::Process
        }
    }
}

/// A domain, and whose it is.
#[derive(Debug)]
struct Owned {
    owner: Owner,
    /// Number of the domain in the registry.
    number: usize,
}

/// The domains of one device.
#[derive(Debug)]
pub(crate) struct Owners {
    device: usize,
    /// Held while one is opened, so that one thread opens and the others wait for it.
    owned: Mutex<Vec<Owned>>,
}

impl Owners {
    /// None yet, of the device with that index.
    pub(crate) const fn new(device: usize) -> Self {
        Self {
            device,
            owned: Mutex::new(Vec::new()),
        }
    }

    /// The domain of `owner`: its own, one that nobody owns any more, or what `open` makes, which is
    /// told how many there are beside it.
    ///
    /// # Errors
    /// What `open` says, or the transport has no room for more domains; the next call tries again.
    pub(crate) fn domain<'a, D: Seated>(
        &self,
        owner: Owner,
        registry: &'a Registry<D>,
        open: impl FnOnce(usize) -> Result<D, NetError>,
    ) -> Result<&'a Seat<D>, NetError> {
        // Nothing is left half done by a panic inside: an entry is made at the end.
        let mut owned = self.owned.lock().unwrap_or_else(PoisonError::into_inner);
        let number = match owned.iter().find(|owned| owned.owner == owner) {
            Some(owned) => Some(owned.number),
            None => inherit(&mut owned, owner, registry),
        };
        if let Some(seat) = number.and_then(|number| registry.get(number)) {
            return Ok(seat);
        }
        let seat = registry.add(self.device, || open(owned.len()))?;
        let number = seat.number();
        owned.push(Owned { owner, number });
        Ok(seat)
    }
}

/// Gives `owner` a domain whose thread has ended and that has no communicators left.
fn inherit<D: Seated>(owned: &mut [Owned], owner: Owner, registry: &Registry<D>) -> Option<usize> {
    let left = owned.iter_mut().find(|owned| match owned.owner {
        Owner::Thread(thread) => {
            let seat = registry.get(owned.number);
            thread.is_gone() && seat.is_some_and(|seat| seat.domain.is_unused())
        }
        Owner::Process => false,
    })?;
    left.owner = owner;
    Some(left.number)
}
