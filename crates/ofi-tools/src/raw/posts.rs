//! Memory, contexts and posts of `ofi raw`: layer 1 of efa-fabric, one call each.
//!
//! What makes the posts sound: every block is registered, mapped for the life of the process and
//! never borrowed; contexts live in boxed slices that are never freed while an endpoint is open, since
//! the rail that owns both closes its endpoints first; a context is taken from a free list and comes
//! back with its completion.

use efa_fabric::{
    Access, Context2, Desc, Domain, Endpoint, FabricError, Mr, MrRequest, PeerAddr, Posted, Sink,
    Source, Target,
};

use crate::abi::Region;
use crate::bench::Fail;

/// Registered memory.
#[derive(Debug)]
pub(crate) struct Block {
    mr: Mr,
    region: Region,
}

impl Block {
    /// Maps and registers `bytes`.
    ///
    /// # Errors
    /// No memory, or the registration failed.
    pub(crate) fn new(domain: &Domain, bytes: usize, access: Access) -> Result<Self, Fail> {
        let region = Region::map(bytes).map_err(|error| Fail::Memory { bytes, error })?;
        Self::over(domain, region, access)
    }

    /// Registers a region.
    ///
    /// # Errors
    /// The registration failed.
    pub(crate) fn over(domain: &Domain, region: Region, access: Access) -> Result<Self, Fail> {
        let mut request = MrRequest::host(region.address(0, region.len()), region.len(), access);
        if !domain.info().provider_chooses_keys() {
            request.requested_key = domain.fresh_key();
        }
        // SAFETY: the region is mapped for the life of the process, and no reference into it exists.
        let mr = unsafe { Mr::register(domain, &request) }?;
        Ok(Self { mr, region })
    }

    pub(crate) fn key(&self) -> u64 {
        self.mr.key()
    }

    pub(crate) fn address(&self) -> u64 {
        self.region.address(0, 0) as u64
    }

    fn desc(&self) -> Desc {
        self.mr.desc()
    }

    fn source(&self, at: usize, len: usize) -> Source {
        Source {
            ptr: self.region.address(at, len),
            len,
            desc: self.desc(),
        }
    }

    /// Copies `len` bytes of a receive buffer to byte `at`.
    pub(crate) fn take_from(&self, at: usize, rx: &Rx, index: usize, len: usize) {
        let len = len.min(rx.bytes);
        let (from, to) = (rx.place(index, len), self.region.address(at, len));
        // SAFETY: `address` checks both ranges; they are of different mappings, which live as long as
        // the process; nothing is posted on the buffer before the caller posts it again.
        unsafe { core::ptr::copy_nonoverlapping(from, to, len) };
    }
}

/// Receive buffers of one endpoint, each with its context.
#[derive(Debug)]
pub(crate) struct Rx {
    block: Option<Block>,
    bytes: usize,
    contexts: Box<[Context2]>,
}

impl Rx {
    /// `count` buffers of `bytes` each, not posted yet.
    ///
    /// # Errors
    /// No memory, or the registration failed.
    pub(crate) fn new(domain: &Domain, count: usize, bytes: usize) -> Result<Self, Fail> {
        let block = match count {
            0 => None,
            _ => Some(Block::new(domain, count * bytes, Access::RECV)?),
        };
        Ok(Self {
            block,
            bytes,
            contexts: contexts(count),
        })
    }

    pub(crate) const fn count(&self) -> usize {
        self.contexts.len()
    }

    fn place(&self, index: usize, len: usize) -> *mut u8 {
        self.block.as_ref().map_or(core::ptr::null_mut(), |block| {
            block.region.address(index * self.bytes, len)
        })
    }

    /// Which buffer a completion is of, if it is of one of these.
    #[inline]
    pub(crate) fn find(&self, context: *const Context2) -> Option<usize> {
        position(&self.contexts, context)
    }

    /// Posts buffer `index`, which is not posted.
    ///
    /// # Errors
    /// What the provider says.
    #[inline]
    pub(crate) fn post(&self, endpoint: &Endpoint, index: usize) -> Result<Posted, FabricError> {
        let Some(block) = &self.block else {
            return Ok(Posted::Accepted);
        };
        let sink = Sink {
            ptr: self.place(index, self.bytes),
            len: self.bytes,
            desc: block.desc(),
        };
        // SAFETY: buffer and context are of index `index`, which is not posted; both outlive the
        // endpoint (see the module's text).
        unsafe { endpoint.post_recv(sink, PeerAddr::ANY, context_at(&self.contexts, index)) }
    }
}

/// Contexts of what is sent, and which of them are free.
#[derive(Debug)]
pub(crate) struct Contexts {
    all: Box<[Context2]>,
    free: Vec<usize>,
}

impl Contexts {
    pub(crate) fn new(count: usize) -> Self {
        Self {
            all: contexts(count),
            free: (0..count).collect(),
        }
    }

    /// Whether `context` was one of these; it is free again then.
    #[inline]
    pub(crate) fn give_back(&mut self, context: *const Context2) -> bool {
        let index = position(&self.all, context);
        index.inspect(|&index| self.free.push(index)).is_some()
    }

    /// Posts with a free context, which is used up if the provider takes the post.
    #[inline]
    fn with(
        &mut self,
        post: impl FnOnce(*mut Context2) -> Result<Posted, FabricError>,
    ) -> Result<Posted, FabricError> {
        let Some(&index) = self.free.last() else {
            return Ok(Posted::Busy);
        };
        let posted = post(context_at(&self.all, index))?;
        if posted == Posted::Accepted {
            self.free.pop();
        }
        Ok(posted)
    }
}

/// A part of a block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part<'b> {
    pub(crate) block: &'b Block,
    pub(crate) at: usize,
    pub(crate) len: usize,
}

impl Part<'_> {
    fn source(&self) -> Source {
        self.block.source(self.at, self.len)
    }
}

/// `fi_writedata`.
///
/// # Errors
/// What the provider says.
#[inline]
pub(crate) fn write(
    (endpoint, contexts): (&Endpoint, &mut Contexts),
    part: Part<'_>,
    imm: u32,
    target: Target,
) -> Result<Posted, FabricError> {
    let source = part.source();
    // SAFETY: source and context as in the module's text; the target was given out by the peer for
    // memory as large as ours, which it never unmaps.
    contexts
        .with(|context| unsafe { endpoint.post_writedata(source, u64::from(imm), target, context) })
}

/// `fi_senddata`.
///
/// # Errors
/// What the provider says.
#[inline]
pub(crate) fn send_data(
    (endpoint, contexts): (&Endpoint, &mut Contexts),
    part: Part<'_>,
    imm: u32,
    peer: PeerAddr,
) -> Result<Posted, FabricError> {
    let source = part.source();
    // SAFETY: see the module's text; the peer is of this endpoint's vector.
    contexts
        .with(|context| unsafe { endpoint.post_senddata(source, u64::from(imm), peer, context) })
}

/// `fi_send`.
///
/// # Errors
/// What the provider says.
#[inline]
pub(crate) fn send(
    (endpoint, contexts): (&Endpoint, &mut Contexts),
    part: Part<'_>,
    peer: PeerAddr,
) -> Result<Posted, FabricError> {
    let source = part.source();
    // SAFETY: as for `send_data`.
    contexts.with(|context| unsafe { endpoint.post_send(source, peer, context) })
}

fn contexts(count: usize) -> Box<[Context2]> {
    (0..count).map(|_| Context2::new()).collect()
}

fn context_at(all: &[Context2], index: usize) -> *mut Context2 {
    core::ptr::from_ref(&all[index]).cast_mut()
}

#[inline]
fn position(all: &[Context2], context: *const Context2) -> Option<usize> {
    let offset = context.addr().checked_sub(all.as_ptr().addr())?;
    let index = offset / size_of::<Context2>();
    (index < all.len()).then_some(index)
}
