//! A domain: what regions, queues, vectors and endpoints belong to.

use core::sync::atomic::{AtomicUsize, Ordering};

use super::nic::Nic;
use super::process::Process;
use crate::attrs::{CQS, ENDPOINTS, Flavor};
use crate::mem::regions::Spec;

/// A domain.
#[derive(Debug)]
pub(crate) struct Domain {
    pub(crate) process: &'static Process,
    pub(crate) nic: &'static Nic,
    pub(crate) flavor: Flavor,
    /// Names it in the segment: keys are good for endpoints of the same domain only.
    pub(crate) number: u32,
    /// Objects that must be closed before.
    pub(crate) users: AtomicUsize,
    /// Of those, endpoints and completion queues, of which there can be so many.
    pub(super) endpoints: Places<ENDPOINTS>,
    pub(super) cqs: Places<CQS>,
}

/// Objects that are open, of which there are at most so many.
#[derive(Debug, Default)]
pub(super) struct Places<const MOST: usize>(AtomicUsize);

impl<const MOST: usize> Places<MOST> {
    /// Counts one in; `None` if there are no more.
    pub(super) fn take(&self) -> Option<()> {
        let more = |open: usize| (open < MOST).then_some(open + 1);
        let counted = (self.0).fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        counted.ok().map(drop)
    }

    /// Counts one out.
    pub(super) fn give_back(&self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A registered region.
#[derive(Debug)]
pub(crate) struct Region {
    pub(crate) key: u32,
    /// As it was named: address and length.
    memory: (u64, u64),
}

impl Domain {
    pub(crate) fn new(process: &'static Process, nic: &'static Nic, flavor: Flavor) -> Self {
        nic.stats(process).domains.fetch_add(1, Ordering::Relaxed);
        Self {
            process,
            nic,
            flavor,
            number: process.number(),
            users: AtomicUsize::new(0),
            endpoints: Places::default(),
            cqs: Places::default(),
        }
    }

    /// Registers memory that is named by addresses from `base` on, and is for NICs `shift` bytes further
    /// (wrapping).
    ///
    /// # Errors
    /// A positive errno: the plan refuses, or there are too many regions.
    pub(crate) fn register(
        &self,
        (base, len): (u64, u64),
        access: u64,
        shift: u64,
    ) -> Result<Region, i32> {
        let revoke_after = self.nic.register(self.process, (base, len))?;
        let spec = Spec {
            base: base.wrapping_add(shift),
            len,
            shift,
            access,
            domain: self.number,
            revoke_after,
        };
        let key = self.process.keys().register(self.process.segment(), &spec);
        let Some(key) = key else {
            self.nic.deregister(self.process, (base, len));
            return Err(libc::ENOMEM);
        };
        Ok(Region {
            key,
            memory: (base, len),
        })
    }

    /// Takes a region back; waits for operations that are using it now.
    pub(crate) fn deregister(&self, region: &Region) {
        self.process
            .keys()
            .close(self.process.segment(), region.key);
        // Nobody uses it any more: what was moved has its place in the statistics when this returns.
        self.nic.count_traffic(self.process);
        self.nic.deregister(self.process, region.memory);
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        self.nic
            .stats(self.process)
            .domains
            .fetch_sub(1, Ordering::Relaxed);
    }
}
