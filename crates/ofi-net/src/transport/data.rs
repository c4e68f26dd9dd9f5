//! isend, irecv, iflush, test (protocol 2e).

use super::Transport;
use crate::connecting::Connecting;
use crate::domain::Seat;
use crate::error::{Code, NetError};
use crate::handle_words::{CommWord, MrWord, ReqWord};
use crate::progress::{Core, Role};
use crate::regions::FLUSH_REGION;
use crate::sendrecv::Message;
use core::ffi::c_void;
use ofi_pools::Key;
use ofi_rdma::{Admission, CommKey, Done, NotNow, RecvBuf, RegionId, ReqKey, SendBuf, Test};

/// A caller's buffer, checked.
pub(super) struct Buffer {
    pub(super) addr: u64,
    pub(super) len: u64,
    pub(super) region: RegionId,
}

impl Transport {
    /// Starts a send of `len` bytes at `addr`, which lie in the region `mr`; none is needed for no
    /// bytes. `None`: not now, call again with the same arguments.
    ///
    /// # Errors
    /// The failure that sticks to the communicator; a stale word; a buffer outside its region or too
    /// long.
    ///
    /// # Safety
    /// The bytes stay readable and unchanged until [`Transport::test`] reports the request done or in
    /// error *and*, in the latter case or after closing the communicator, until
    /// [`Transport::dereg_mr`] of the region.
    pub unsafe fn isend(
        &self,
        comm: CommWord,
        addr: *mut c_void,
        len: usize,
        mr: Option<MrWord>,
    ) -> Result<Option<ReqWord>, NetError> {
        if let Some(other) = &*self.sendrecv {
            self.alive()?;
            return other.isend(comm, Message { addr, len, mr });
        }
        let (seat, domain, key) = self.comm(comm)?;
        let region = self.optional_region(seat, mr, len)?;
        let request = domain.attempt(|core| {
            let Buffer { addr, len, region } = core.buffer(addr, len, region)?;
            if !core.engine.ctrl_known(key) {
                core.harvest();
            }
            let Core { engine, port, .. } = &mut *core;
            let admission = engine.isend_to(key, SendBuf { addr, len, region }, port);
            core.admitted(key, admission)
        });
        let request = self.registry.told(request)?;
        request
            .map(|request| seat.request_word(request))
            .transpose()
    }

    /// Starts a receive of up to `len` bytes at `addr`, which lie in the region `mr`. `None`: not
    /// now, call again with the same arguments.
    ///
    /// `optional`: the caller sees for itself that the data is there. Where early completion is on
    /// (`OFI_NCCL_EARLY_COMPLETION`) the request is then done, with 0 bytes, when the peer was told
    /// where to write (protocol 2e.10); elsewhere it changes nothing. Such a caller starts no more than
    /// 128 receives beyond the first whose data it has not seen.
    ///
    /// # Errors
    /// As [`Transport::isend`].
    ///
    /// # Safety
    /// The bytes stay writable, and nobody looks at them, until [`Transport::test`] reports the
    /// request done; in error or after closing the communicator, until [`Transport::dereg_mr`].
    pub unsafe fn irecv(
        &self,
        comm: CommWord,
        addr: *mut c_void,
        len: usize,
        mr: Option<MrWord>,
        optional: bool,
    ) -> Result<Option<ReqWord>, NetError> {
        if let Some(other) = &*self.sendrecv {
            self.alive()?;
            return other.irecv(comm, Message { addr, len, mr });
        }
        let (seat, domain, key) = self.comm(comm)?;
        let region = self.optional_region(seat, mr, len)?;
        let request = domain.attempt(|core| {
            let buffer = core.buffer(addr, len, region)?;
            let Some(view) = core.port.regions.view(buffer.region) else {
                return Err(no_region());
            };
            let Buffer { addr, len, region } = buffer;
            let (wire_addr, keys) = (view.wire_addr(addr), view.keys);
            let buffer = RecvBuf {
                addr,
                len,
                region,
                wire_addr,
                keys,
                optional,
            };
            let Core { engine, port, .. } = &mut *core;
            let admission = engine.irecv_to(key, &buffer, port);
            core.admitted(key, admission)
        });
        let request = self.registry.told(request)?;
        request
            .map(|request| seat.request_word(request))
            .transpose()
    }

    /// Starts a flush: once the request is done, everything received into the buffer before is
    /// visible to whoever reads its memory. `None`: nothing to wait for (no bytes, or flushes are
    /// off). Never "not now": a call that finds the domain busy waits for it.
    ///
    /// # Errors
    /// As [`Transport::isend`]; too many flushes at once.
    ///
    /// # Safety
    /// As [`Transport::irecv`].
    pub unsafe fn iflush(
        &self,
        comm: CommWord,
        addr: *mut c_void,
        len: usize,
        mr: MrWord,
    ) -> Result<Option<ReqWord>, NetError> {
        if let Some(other) = &*self.sendrecv {
            self.alive()?;
            let (len, mr) = (if self.config.flush { len } else { 0 }, Some(mr));
            return other.iflush(comm, Message { addr, len, mr });
        }
        let (seat, domain, key) = self.comm(comm)?;
        if len == 0 || !self.config.flush {
            return Ok(None);
        }
        let region = self.region_key(seat, mr)?;
        let request = domain.enter(|core| {
            let Buffer { addr, region, .. } = core.buffer(addr, len, Some(region))?;
            let request = core.engine.flush(key, addr, region)?;
            core.drain();
            Ok(request)
        });
        let request = self.registry.told(request)?;
        seat.request_word(request).map(Some)
    }

    /// Whether a request is done, and how many bytes it moved: what both sides had room for; 0 for a
    /// flush. A request reported done, or in error, is gone.
    ///
    /// # Errors
    /// The failure that sticks to its communicator; a word of no request.
    #[inline]
    pub fn test(&self, request: ReqWord) -> Result<Option<u64>, NetError> {
        Ok(self.test_done(request)?.map(|done| done.bytes))
    }

    /// As [`Transport::test`], with the rails that carried the bytes.
    ///
    /// # Errors
    /// As [`Transport::test`].
    #[inline]
    pub fn test_done(&self, request: ReqWord) -> Result<Option<Done>, NetError> {
        if let Some(other) = &*self.sendrecv {
            self.alive()?;
            return other.test(request);
        }
        let (domain, key) = self.request(request)?;
        let tested = domain.attempt(|core| match core.engine.test(key)? {
            Test::Done(done) => Ok(Some(done)),
            Test::Pending { poll: false } => Ok(None),
            Test::Pending { poll: true } => {
                core.progress();
                Ok(core.engine.recheck(key)?)
            }
        });
        if !matches!(tested, Ok(Some(_))) {
            self.registry.nudge();
        }
        tested
    }

    /// A region is needed for bytes, and not for none.
    pub(super) fn optional_region(
        &self,
        seat: &Seat,
        mr: Option<MrWord>,
        len: usize,
    ) -> Result<Option<Key>, NetError> {
        match mr {
            // NCCL before 2.24 passes a handle of something else with no bytes (protocol 2e.2).
            _ if len == 0 => Ok(None),
            Some(word) => self.region_key(seat, word).map(Some),
            None => {
                let what = format!("{len} bytes without a memory handle");
                Err(NetError::new(Code::NullArgument, what))
            }
        }
    }
}

impl Core {
    /// The caller's buffer, or the flush page for no bytes (protocol 2e.2, 2e.3).
    pub(super) fn buffer(
        &self,
        addr: *mut c_void,
        len: usize,
        region: Option<Key>,
    ) -> Result<Buffer, NetError> {
        let Some(region) = region else {
            let addr = self.port.flush_page.pages().addr();
            return Ok(Buffer {
                addr,
                len: 0,
                region: FLUSH_REGION,
            });
        };
        let (addr, len) = (addr.expose_provenance() as u64, len as u64);
        let (id, view) = self.port.regions.get(region).ok_or_else(no_region)?;
        if view.covers(addr, len) {
            Ok(Buffer {
                addr,
                len,
                region: id,
            })
        } else {
            Err(outside(addr, len, view.base, view.bytes))
        }
    }

    /// What every isend, irecv and one-sided call ends with.
    #[inline]
    pub(super) fn admitted(
        &mut self,
        comm: CommKey,
        admission: Result<Admission, ofi_rdma::Error>,
    ) -> Result<Option<ReqKey>, NetError> {
        match admission {
            Ok(Admission::Admitted(request)) => {
                self.drain();
                Ok(Some(request))
            }
            Ok(Admission::NotNow(why)) => self.not_now(comm, why),
            Err(error) => {
                self.drain();
                Err(error.into())
            }
        }
    }

    #[cold]
    fn not_now(&mut self, comm: CommKey, why: NotNow) -> Result<Option<ReqKey>, NetError> {
        self.progress();
        if why == NotNow::Connecting && self.open.get(&comm) == Some(&Role::Send) {
            // v4: nobody calls connect again, the connection completes here.
            self.poll_connect(comm)?;
        }
        Ok(None)
    }
}

#[cold]
fn no_region() -> NetError {
    NetError::new(
        Code::StaleRegion,
        "a buffer with a memory handle that is gone",
    )
}

#[cold]
fn outside(addr: u64, len: u64, base: u64, bytes: u64) -> NetError {
    let what = format!("{len} bytes at {addr:#x}, registered are {bytes} at {base:#x}");
    NetError::new(Code::OutsideRegion, what)
}
