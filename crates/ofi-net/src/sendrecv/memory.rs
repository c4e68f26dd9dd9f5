//! Registering the caller's memory: one region with the one `fi_domain`, bound to the endpoint where the
//! provider needs that (protocol 2g.1), found in the cache if that is on (2g.4).

use super::domain::Domain;
use super::progress::Core;
use super::{SendRecv, stale};
use crate::clock::Deadline;
use crate::domain_memory::{self, Memory, MemoryCore, MemoryDomain};
use crate::error::{Code, NetError};
use crate::handle_words::{CommWord, MrWord};
use crate::progress::Role;
use crate::region::{RegionView, Registration};
use crate::regions::Regions;
use crate::stretch::Stretch;
use ofi_rdma::RegionId;

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
        // SAFETY: the caller's promise; the units that the range touches are mapped as long as it is.
        let region = unsafe { domain_memory::register(domain, stretch) }?;
        seat.region_word(region)
    }

    pub(crate) fn dereg_mr(&self, comm: CommWord, mr: MrWord) -> Result<(), NetError> {
        let (seat, domain, _) = self.comm(comm)?;
        let region = self.registry.region_key(seat, mr)?;
        domain_memory::deregister(domain, (region, mr), || self.registry.nudge()).map(drop)
    }
}

impl MemoryDomain for Domain {
    type Core = Core;

    fn with_core<R>(
        &self,
        f: impl FnOnce(&mut Core) -> Result<R, NetError>,
    ) -> Result<R, NetError> {
        self.enter(f)
    }

    fn poison(&self, error: NetError) {
        Self::poison(self, error);
    }

    fn memory(&self) -> &Memory {
        &self.memory
    }
}

impl MemoryCore for Core {
    fn regions(&mut self) -> &mut Regions {
        &mut self.port.regions
    }

    fn ready(&self, new: &Registration) -> Result<RegionView, NetError> {
        match self.port.binds_to() {
            Some(endpoint) => new.bind(endpoint),
            None => Ok(*new.view()),
        }
    }

    fn references(&self, region: RegionId) -> u32 {
        self.engine.region_refs(region)
    }

    fn wait_for(&mut self, region: RegionId, bound_ms: u64) -> Option<Deadline> {
        let Self { engine, port, .. } = self;
        if !engine.region_awaited(region) {
            return None;
        }
        let (awaited, present) = (engine.awaited_requests(region), engine.requests());
        Some(port.regions.waits.deadline(awaited, present, bound_ms))
    }

    fn sweep_regions(&mut self) {
        let Self { engine, port, .. } = self;
        port.regions.sweep(|region| engine.region_refs(region));
    }

    fn pass(&mut self) {
        self.progress();
    }
}
