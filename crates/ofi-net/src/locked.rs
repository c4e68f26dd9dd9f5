//! What the domains of both protocols are: a core behind a lock, with the caller's memory and the log
//! beside it.
//!
//! Lines are kept while the lock is held and written after it was left, so that a slow logger holds up
//! nobody.

use crate::domain_memory::Memory;
use crate::dump;
use crate::error::{Code, NetError};
use crate::log::{self, Log, Subsys};
use crate::report::{Note, Reporter};
use crate::sync::{DomainLock, MutexGuard, Poisoned};
use core::mem;
use ofi_rdma::Counters;
use std::sync::Arc;

/// What the lock protects.
pub(crate) trait Guarded {
    /// What is to be written once the lock is left.
    fn notes(&mut self) -> &mut Vec<Note>;

    /// What makes the domain unusable.
    fn poison(&mut self) -> &mut Option<NetError>;

    /// Nobody holds a communicator of it.
    fn is_unused(&self) -> bool;
}

/// One domain.
#[derive(Debug)]
pub(crate) struct Locked<C> {
    lock: DomainLock<C>,
    /// What the caller's memory is registered with.
    pub(crate) memory: Memory,
    says: Says,
}

/// Where its lines go.
#[derive(Debug)]
pub(crate) struct Says {
    log: Arc<dyn Log>,
    reporter: Reporter,
    label: Box<str>,
}

impl<C: Guarded> Locked<C> {
    /// A domain called `label` in the log.
    pub(crate) fn new(core: C, memory: Memory, label: &str, log: Arc<dyn Log>) -> Self {
        let says = Says {
            log,
            reporter: Reporter::default(),
            label: label.into(),
        };
        Self {
            lock: DomainLock::new(core),
            memory,
            says,
        }
    }

    /// Runs `f` inside unless the domain is busy (decision 25).
    ///
    /// # Errors
    /// What `f` says; a domain that is out of order.
    #[inline]
    pub(crate) fn attempt<R>(
        &self,
        f: impl FnOnce(&mut C) -> Result<Option<R>, NetError>,
    ) -> Result<Option<R>, NetError> {
        match self.lock.try_enter() {
            Ok(Some(core)) => self.inside(core, f),
            Ok(None) => Ok(None),
            Err(Poisoned) => Err(panicked()),
        }
    }

    /// Runs `f` inside, waiting for whoever is there: everybody leaves after a bounded pass.
    ///
    /// # Errors
    /// As [`Locked::attempt`].
    pub(crate) fn enter<R>(
        &self,
        f: impl FnOnce(&mut C) -> Result<R, NetError>,
    ) -> Result<R, NetError> {
        let core = self.lock.enter().map_err(|Poisoned| panicked())?;
        self.inside(core, f)
    }

    /// Runs `f` inside if the domain is neither busy nor out of order.
    pub(crate) fn glance<R>(&self, f: impl FnOnce(&mut C) -> R) -> Option<R> {
        let core = self.lock.glance()?;
        self.inside(core, |core| Ok(f(core))).ok()
    }

    #[inline]
    fn inside<R>(
        &self,
        mut core: MutexGuard<'_, C>,
        f: impl FnOnce(&mut C) -> Result<R, NetError>,
    ) -> Result<R, NetError> {
        if let Some(poison) = core.poison() {
            return Err(poison.clone().mark_reported());
        }
        let result = f(&mut core);
        if core.notes().is_empty() && core.poison().is_none() {
            return result;
        }
        let notes = mem::take(core.notes());
        let poison = core.poison().clone();
        drop(core);
        self.says.notes(&notes);
        if let Some(error) = poison {
            self.says.warn(error);
        }
        result
    }

    /// What `f` says of it for a dump; that it is busy, or out of order, where that is so.
    pub(crate) fn state(&self, f: impl FnOnce(&mut C) -> dump::Domain) -> dump::Domain {
        let mut domain = match self.lock.glance() {
            Some(mut core) => f(&mut core),
            None => dump::Domain {
                busy: true,
                ..dump::Domain::default()
            },
        };
        domain.label = self.says.label.to_string();
        domain
    }

    /// Makes every later call fail with `error`.
    pub(crate) fn poison(&self, error: NetError) {
        if let Ok(mut core) = self.lock.enter() {
            core.poison().get_or_insert(error);
        }
    }

    /// Whether nobody holds a communicator of it; a busy or broken one is in use.
    pub(crate) fn is_unused(&self) -> bool {
        let unused = self.attempt(|core| Ok(Some(core.is_unused())));
        matches!(unused, Ok(Some(true)))
    }

    /// The end: what was behind the lock, the memory, and where the last lines go.
    pub(crate) fn into_parts(self) -> (C, Memory, Says) {
        (self.lock.into_inner(), self.memory, self.says)
    }
}

impl Says {
    /// Writes what was kept.
    #[cold]
    pub(crate) fn notes(&self, notes: &[Note]) {
        self.reporter.write(&*self.log, &self.label, notes);
    }

    /// One line that somebody has to do something about.
    #[cold]
    pub(crate) fn warn(&self, error: NetError) {
        log::warn(&*self.log, Subsys::Net, || error.context(&self.label));
    }

    /// The end of the domain: what was counted and not written.
    #[cold]
    pub(crate) fn close(&self, counters: &Counters) {
        self.reporter.close(&*self.log, &self.label, counters);
    }
}

#[cold]
fn panicked() -> NetError {
    NetError::new(Code::Poisoned, "a call on this device panicked").mark_reported()
}
