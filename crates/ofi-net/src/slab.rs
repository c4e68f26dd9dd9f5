//! Slabs: pages of ours, registered once with every rail of a domain, from which control and eager
//! buffers are carved (decision 23). Each kind of slab has the access bits of its use (decision 24).

use crate::error::{Code, NetError};
use crate::pages::Pages;
use crate::region::{RegionView, Registrar, Registration};
use crate::stretch::Stretch;
use efa_fabric::{Access, Endpoint};
use ofi_pools::freelist::NotCovered;
use ofi_pools::{Block, BlockSource};

/// Control messages are only sent from here.
pub(crate) const SEND_SLAB: Access = Access::SEND;

/// Control messages are only received here.
pub(crate) const CONTROL_SLAB: Access = Access::RECV;

/// SENDRECV: connect messages are sent and received here.
pub(crate) const CONNECT_SLAB: Access = Access::SEND.union(Access::RECV);

/// Eager payloads are received here, and copied out by a read through our own address.
pub(crate) const EAGER_SLAB: Access = Access::RECV.union(Access::REMOTE_READ);

/// The flush page: where flushes read to, and the buffer of messages without bytes.
pub(crate) const FLUSH_PAGE: Access = Access::SEND
    .union(Access::READ)
    .union(Access::WRITE)
    .union(Access::REMOTE_WRITE);

/// Registered pages. The registration is closed before the pages are unmapped: fields drop in order.
#[derive(Debug)]
pub(crate) struct Slab {
    registration: Registration,
    pages: Pages,
}

impl Slab {
    /// Maps and registers at least `bytes`.
    ///
    /// # Errors
    /// No memory, or a rail refused.
    pub(crate) fn new(
        registrar: &Registrar,
        bytes: usize,
        access: Access,
    ) -> Result<Self, NetError> {
        let pages = Pages::map(bytes).map_err(|errno| {
            let what = format!("{bytes} bytes for buffers could not be mapped");
            NetError::new(Code::Register, what).with_errno(errno)
        })?;
        // A kernel that cannot do it copies pinned pages at fork, or is older than any EFA driver.
        let _advised: bool = pages.not_in_children();
        let stretch = Stretch::host(pages.start(), pages.len());
        // SAFETY: the pages live as long as the registration (they are dropped after it), and only
        // buffers handed to the network lie on them.
        let registration = unsafe { registrar.register(stretch, access) }?;
        Ok(Self {
            registration,
            pages,
        })
    }

    /// What the data path needs.
    pub(crate) const fn view(&self) -> &RegionView {
        self.registration.view()
    }

    /// Binds the pages to an endpoint, once and before they are used, where the provider needs that. No
    /// peer names them by key, so there is nothing to learn from it.
    ///
    /// # Errors
    /// The provider's.
    pub(crate) fn bind(&self, endpoint: &Endpoint) -> Result<(), NetError> {
        self.registration.bind(endpoint).map(drop)
    }

    /// The memory.
    pub(crate) const fn pages(&self) -> &Pages {
        &self.pages
    }
}

impl Block for Slab {
    fn address(&self) -> usize {
        self.pages.start().addr()
    }

    fn bytes(&self) -> usize {
        self.pages.len()
    }
}

/// Makes slabs of one kind.
#[derive(Debug)]
pub(crate) struct SlabSource<'a> {
    pub(crate) registrar: &'a Registrar,
    pub(crate) access: Access,
    /// What they are bound to, where the provider needs that (`FI_MR_ENDPOINT`).
    pub(crate) binds_to: Option<&'a Endpoint>,
}

impl BlockSource for SlabSource<'_> {
    type Block = Slab;
    type Error = NetError;

    fn block(&mut self, bytes: usize, _align: usize) -> Result<Slab, NetError> {
        // Pages are as aligned as anything asked for here: the freelists ask for the page size.
        let slab = Slab::new(self.registrar, bytes, self.access)?;
        if let Some(endpoint) = self.binds_to {
            slab.bind(endpoint)?;
        }
        Ok(slab)
    }
}

impl From<NotCovered> for NetError {
    fn from(error: NotCovered) -> Self {
        Self::new(Code::Internal, error.to_string())
    }
}
