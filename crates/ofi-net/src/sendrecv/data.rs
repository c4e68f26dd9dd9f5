//! isend, irecv, iflush, test (protocol 2e.12). The contracts of memory are those of
//! [`crate::Transport`]'s calls of the same name.

use super::SendRecv;
use super::domain::Seat;
use super::progress::Core;
use crate::connecting::Connecting;
use crate::error::{Code, NetError};
use crate::handle_words::{CommWord, MrWord, ReqWord};
use crate::progress::Role;
use crate::regions::FLUSH_REGION;
use core::ffi::c_void;
use ofi_pools::Key;
use ofi_rdma::{Admission, CommKey, Done, NotNow, Rails, ReqKey, Test};
use ofi_sendrecv::{Buffer, Error};

/// A caller's buffer, unchecked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    pub(crate) addr: *mut c_void,
    pub(crate) len: usize,
    pub(crate) mr: Option<MrWord>,
}

impl SendRecv {
    #[inline]
    pub(crate) fn isend(
        &self,
        comm: CommWord,
        message: Message,
    ) -> Result<Option<ReqWord>, NetError> {
        let (seat, domain, key) = self.comm(comm)?;
        let region = self.optional_region(seat, &message)?;
        let request = domain.attempt(|core| {
            let buffer = core.buffer(message, region)?;
            let admission = core.engine.isend(key, buffer);
            core.admitted(key, admission)
        });
        let request = self.registry.told(request)?;
        request
            .map(|request| seat.request_word(request))
            .transpose()
    }

    #[inline]
    pub(crate) fn irecv(
        &self,
        comm: CommWord,
        message: Message,
    ) -> Result<Option<ReqWord>, NetError> {
        let (seat, domain, key) = self.comm(comm)?;
        let region = self.optional_region(seat, &message)?;
        let request = domain.attempt(|core| {
            let buffer = core.buffer(message, region)?;
            let admission = core.engine.irecv(key, buffer);
            core.admitted(key, admission)
        });
        let request = self.registry.told(request)?;
        request
            .map(|request| seat.request_word(request))
            .transpose()
    }

    /// `None` too where the provider cannot read: then there is no device memory to flush.
    pub(crate) fn iflush(
        &self,
        comm: CommWord,
        message: Message,
    ) -> Result<Option<ReqWord>, NetError> {
        let (seat, domain, key) = self.comm(comm)?;
        if message.len == 0 {
            return Ok(None);
        }
        let region = self.optional_region(seat, &message)?;
        let request = domain.enter(|core| {
            if !core.reads {
                return Ok(None);
            }
            let Buffer { addr, region, .. } = core.buffer(message, region)?;
            let request = core.engine.flush(key, addr, region)?;
            core.drain();
            Ok(Some(request))
        });
        let request = self.registry.told(request)?;
        request
            .map(|request| seat.request_word(request))
            .transpose()
    }

    #[inline]
    pub(crate) fn test(&self, request: ReqWord) -> Result<Option<Done>, NetError> {
        let (domain, key) = self.request(request)?;
        let tested = domain.attempt(|core| match core.engine.test(key)? {
            Test::Done(done) => Ok(Some(done)),
            Test::Pending { poll: false } => Ok(None),
            Test::Pending { poll: true } => {
                core.progress();
                let bytes = core.engine.recheck(key)?;
                let rails = Rails::FIRST;
                Ok(bytes.map(|bytes| Done { bytes, rails }))
            }
        });
        if !matches!(tested, Ok(Some(_))) {
            self.registry.nudge();
        }
        tested
    }

    /// A region is needed for bytes, and not for none.
    fn optional_region(&self, seat: &Seat, message: &Message) -> Result<Option<Key>, NetError> {
        match message.mr {
            // NCCL before 2.24 passes a handle of something else with no bytes (protocol 2e.2).
            _ if message.len == 0 => Ok(None),
            Some(word) => self.registry.region_key(seat, word).map(Some),
            None => {
                let what = format!("{} bytes without a memory handle", message.len);
                Err(NetError::new(Code::NullArgument, what))
            }
        }
    }
}

impl Core {
    /// The caller's buffer, or the flush page for no bytes.
    #[inline]
    fn buffer(&self, message: Message, region: Option<Key>) -> Result<Buffer, NetError> {
        let Some(region) = region else {
            return Ok(Buffer {
                addr: self.port.flush_page.pages().addr(),
                len: 0,
                region: FLUSH_REGION,
            });
        };
        let (addr, len) = (message.addr.expose_provenance() as u64, message.len as u64);
        let Some((id, view)) = self.port.regions.get(region) else {
            let what = "a buffer with a memory handle that is gone";
            return Err(NetError::new(Code::StaleRegion, what));
        };
        if view.covers(addr, len) {
            let region = id;
            return Ok(Buffer { addr, len, region });
        }
        let (bytes, base) = (view.bytes, view.base);
        let what = format!("{len} bytes at {addr:#x}, registered are {bytes} at {base:#x}");
        Err(NetError::new(Code::OutsideRegion, what))
    }

    /// What every isend and irecv ends with.
    #[inline]
    fn admitted(
        &mut self,
        comm: CommKey,
        admission: Result<Admission, Error>,
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
