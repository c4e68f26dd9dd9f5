//! iwrite, iwriteInline, iread (protocol 2c.8, 2e.8): memory of the peer that the caller names, by an
//! address and a key that the peer's [`Transport::mr_key`] gave out.

use super::Transport;
use super::data::Buffer;
use crate::domain::Seat;
use crate::error::{Code, NetError};
use crate::handle_words::{CommWord, MrWord, ReqWord};
use crate::progress::Core;
use crate::regions::FLUSH_REGION;
use core::ffi::c_void;
use ofi_pools::Key;
use ofi_rdma::OneSided;

/// Memory of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteMemory {
    /// Virtual address in the peer's process.
    pub addr: u64,
    /// What the peer's [`Transport::mr_key`] said of its region.
    pub key: u64,
}

/// A stretch of the caller's memory in one of its regions; none is needed for no bytes.
#[derive(Clone, Copy, Debug)]
pub struct LocalMemory {
    /// Where it starts.
    pub addr: *mut c_void,
    /// Its bytes.
    pub len: usize,
    /// The region that holds it.
    pub mr: Option<MrWord>,
}

impl Transport {
    /// Writes `from` into the memory of the peer of a send communicator; the peer is not told. `None`:
    /// not now, call again with the same arguments.
    ///
    /// # Errors
    /// As [`Transport::isend`]; [`Code::OneSided`] where
    /// [`rma_supported`](crate::Properties::rma_supported) is false.
    ///
    /// # Safety
    /// The contract of [`Transport::isend`] for `from`. `to` is memory that the peer opened to this:
    /// some providers (shm before libfabric 2) check neither key nor range.
    pub unsafe fn iwrite(
        &self,
        comm: CommWord,
        from: LocalMemory,
        to: RemoteMemory,
    ) -> Result<Option<ReqWord>, NetError> {
        self.refuse_one_sided()?;
        let (seat, domain, key) = self.comm(comm)?;
        self.inline_max(seat)?;
        let region = self.optional_region(seat, from.mr, from.len)?;
        let request = domain.attempt(|core| {
            let what = core.one_sided(&from, region, to)?;
            let admission = core.engine.iwrite(key, &what);
            core.admitted(key, admission)
        });
        let request = self.registry.told(request)?;
        request
            .map(|request| seat.request_word(request))
            .transpose()
    }

    /// As [`Transport::iwrite`], of bytes that need no region and are the caller's again when this
    /// returns; also when the answer is `None`, which means that nothing was taken.
    ///
    /// # Errors
    /// As [`Transport::iwrite`]; [`Code::InlineTooLong`] above
    /// [`max_write_inline_bytes`](crate::Properties::max_write_inline_bytes).
    ///
    /// # Safety
    /// `to` as for [`Transport::iwrite`].
    pub unsafe fn iwrite_inline(
        &self,
        comm: CommWord,
        from: &[u8],
        to: RemoteMemory,
    ) -> Result<Option<ReqWord>, NetError> {
        self.refuse_one_sided()?;
        let (seat, domain, key) = self.comm(comm)?;
        let (len, max) = (from.len(), self.inline_max(seat)?);
        if len > max {
            let what = format!("{len} bytes, and an inline write here has at most {max}");
            return Err(NetError::new(Code::InlineTooLong, what));
        }
        let request = domain.attempt(|core| {
            let what = OneSided {
                addr: from.as_ptr().expose_provenance() as u64,
                len: len as u64,
                region: FLUSH_REGION,
                remote_addr: to.addr,
                remote_key: to.key,
            };
            let Core { engine, port, .. } = core;
            let admission = engine.iwrite_inline(key, &what, port);
            core.admitted(key, admission)
        });
        let request = self.registry.told(request)?;
        request
            .map(|request| seat.request_word(request))
            .transpose()
    }

    /// Reads memory of the peer of a *receive* communicator (protocol 2a.2) into `to`. `None`: not now,
    /// call again with the same arguments.
    ///
    /// # Errors
    /// As [`Transport::iwrite`].
    ///
    /// # Safety
    /// The contract of [`Transport::irecv`] for `to`; `from` is memory that the peer opened to this.
    pub unsafe fn iread(
        &self,
        comm: CommWord,
        to: LocalMemory,
        from: RemoteMemory,
    ) -> Result<Option<ReqWord>, NetError> {
        self.refuse_one_sided()?;
        let (seat, domain, key) = self.comm(comm)?;
        self.inline_max(seat)?;
        let region = self.optional_region(seat, to.mr, to.len)?;
        let request = domain.attempt(|core| {
            let what = core.one_sided(&to, region, from)?;
            let admission = core.engine.iread(key, &what);
            core.admitted(key, admission)
        });
        let request = self.registry.told(request)?;
        request
            .map(|request| seat.request_word(request))
            .transpose()
    }

    /// Most bytes of an inline write.
    ///
    /// # Errors
    /// The caller names virtual addresses: a provider that wants offsets cannot be told (decision 15).
    fn inline_max(&self, seat: &Seat) -> Result<usize, NetError> {
        let properties = self.device(seat.device)?.found();
        if properties.rma_supported {
            return Ok(properties.max_write_inline_bytes);
        }
        let what =
            "this provider addresses memory by offsets (no FI_MR_VIRT_ADDR), so rma_supported is 0";
        Err(NetError::new(Code::OneSided, what))
    }
}

impl Core {
    fn one_sided(
        &self,
        here: &LocalMemory,
        region: Option<Key>,
        there: RemoteMemory,
    ) -> Result<OneSided, NetError> {
        let Buffer { addr, len, region } = self.buffer(here.addr, here.len, region)?;
        Ok(OneSided {
            addr,
            len,
            region,
            remote_addr: there.addr,
            remote_key: there.key,
        })
    }
}
