//! Registering the caller's memory: one region with the one `fi_domain`, bound to the endpoint where the
//! provider needs that (protocol 2g.1).

use super::domain::Domain;
use super::progress::Core;
use super::{SendRecv, stale};
use crate::clock::Deadline;
use crate::error::{Code, NetError};
use crate::handle_words::{CommWord, MrWord};
use crate::progress::Role;
use crate::region::Stretch;
use crate::transport::DEREG_BOUND_MS;
use core::mem::ManuallyDrop;
use efa_fabric::Access;
use ofi_pools::Key;
use ofi_rdma::RegionId;

/// Sent from and received into.
const MESSAGE_ACCESS: Access = Access::SEND.union(Access::RECV);

impl SendRecv {
    /// # Safety
    /// That of [`crate::Transport::reg_mr`].
    pub(crate) unsafe fn reg_mr(
        &self,
        comm: CommWord,
        stretch: Stretch,
    ) -> Result<MrWord, NetError> {
        let (seat, domain, key) = self.comm(comm)?;
        domain.enter(|core| match core.open.get(&key) {
            Some(Role::Listener) => {
                let what = "memory is registered with a send or receive communicator";
                Err(NetError::new(Code::WrongKind, what))
            }
            Some(_) => Ok(()),
            None => Err(stale(Code::StaleComm, "communicator", comm.to_bits())),
        })?;
        // Flushes read it through our own address.
        let access = match domain.reads {
            true => MESSAGE_ACCESS | Access::REMOTE_READ,
            false => MESSAGE_ACCESS,
        };
        let registration = domain.registering(|| {
            // SAFETY: the caller's promise.
            unsafe { domain.registrar.register(stretch, access) }
        })?;
        let region = domain.enter(|core| {
            if domain.binds_regions {
                registration.bind(&core.port.endpoint)?;
            }
            core.port.regions.insert(registration).ok_or_else(|| {
                let what = "more than 4194304 memory registrations on a device";
                NetError::new(Code::OutOfIds, what)
            })
        })?;
        seat.region_word(region)
    }

    pub(crate) fn dereg_mr(&self, comm: CommWord, mr: MrWord) -> Result<(), NetError> {
        let (seat, domain, _) = self.comm(comm)?;
        let region = self.registry.region_key(seat, mr)?;
        wait_quiet(domain, region)?;
        let registration = domain.enter(|core| {
            let referenced = core.engine.region_refs(RegionId(region.index()));
            let taken = core.port.regions.take(region, referenced);
            taken.ok_or_else(|| stale(Code::StaleRegion, "memory handle", mr.to_bits()))
        })?;
        let closed = domain.registering(|| {
            registration.close().map_err(|refused| {
                let (kept, error) = *refused;
                // For good: the provider may still reach the memory.
                let _kept = ManuallyDrop::new(kept);
                error
            })
        });
        if let Err(error) = &closed {
            domain.poison(error.clone());
        }
        closed
    }
}

/// Makes progress until nothing is to be waited for on the region, within a bound.
fn wait_quiet(domain: &Domain, region: Key) -> Result<(), NetError> {
    let deadline = Deadline::after(DEREG_BOUND_MS);
    loop {
        let quiet = domain.enter(|core| {
            let Core { engine, port, .. } = &mut *core;
            port.regions.sweep(|id| engine.region_refs(id));
            // Requests that are over, or whose communicator failed, wait for nothing but their `test`.
            if !engine.region_awaited(RegionId(region.index())) {
                return Ok(true);
            }
            core.progress();
            Ok(false)
        })?;
        if quiet || deadline.is_over() {
            return Ok(());
        }
        std::thread::yield_now();
    }
}
