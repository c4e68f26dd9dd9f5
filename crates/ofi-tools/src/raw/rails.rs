//! Rails as the engine opens them, with nothing between: data and control endpoint on one queue.

use efa_fabric::{
    Access, Av, BoolOption, Cq, CqBind, Domain, Endpoint, Fabric, FabricError, Info, PeerAddr,
    Posted,
};
use serde::{Deserialize, Serialize};

use super::posts::{Block, Rx};
use crate::abi::Region;
use crate::bench::Fail;

/// Receives posted on the control endpoints of all rails: as many as the engine posts for one send
/// communicator.
const CONTROL_RECEIVES: usize = 64 + 128;
/// The same, of the data endpoints, with eager messages.
const DATA_RECEIVES: usize = 128;
/// Bytes of a control receive: it must hold any control message (protocol 2c.3).
const CONTROL_BYTES: usize = 528;

/// What memory of messages is for.
const ALL: Access = Access::SEND
    .union(Access::RECV)
    .union(Access::WRITE)
    .union(Access::REMOTE_WRITE);

/// An endpoint with its peer.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) endpoint: Endpoint,
    av: Av,
    pub(crate) peer: PeerAddr,
    pub(crate) rx: Rx,
    /// Buffers that the provider had no room for.
    waiting: Vec<usize>,
}

impl End {
    /// Posts buffer `index`, or keeps it for [`End::retry`].
    ///
    /// # Errors
    /// What the provider says.
    #[inline]
    pub(crate) fn post_receive(&mut self, index: usize) -> Result<(), FabricError> {
        if self.rx.post(&self.endpoint, index)? != Posted::Accepted {
            self.waiting.push(index);
        }
        Ok(())
    }

    /// Posts what could not be posted before.
    ///
    /// # Errors
    /// What the provider says.
    #[inline]
    pub(crate) fn retry(&mut self) -> Result<(), FabricError> {
        while let Some(&index) = self.waiting.last() {
            if self.rx.post(&self.endpoint, index)? != Posted::Accepted {
                return Ok(());
            }
            self.waiting.pop();
        }
        Ok(())
    }
}

/// One rail. Endpoints close before the memory that they use is deregistered.
#[derive(Debug)]
pub(crate) struct Rail {
    pub(crate) data: End,
    pub(crate) control: End,
    pub(crate) cq: Cq,
    /// What is sent from, and what is received into.
    pub(crate) out: Block,
    pub(crate) into: Block,
    /// Control messages, of which the bytes do not matter.
    pub(crate) notes: Block,
    domain: Domain,
}

/// What a peer needs to know of a rail.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Card {
    data: Vec<u8>,
    control: Vec<u8>,
}

/// Where it may write: address and key.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Place {
    pub(crate) address: u64,
    pub(crate) key: u64,
}

/// How a rail is opened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    /// Entries of the completion queue.
    pub(crate) queue: usize,
    /// Of how many rails it is one.
    pub(crate) rails: usize,
    /// Bytes of a data receive; 0: none are posted.
    pub(crate) data_receive: usize,
}

impl Rail {
    /// Opens a rail and posts its receives.
    ///
    /// # Errors
    /// The call of libfabric that failed.
    pub(crate) fn open(info: &Info, sizes: Sizes) -> Result<Self, Fail> {
        let fabric = Fabric::open(info)?;
        let domain = Domain::open(&fabric, info)?;
        let cq = Cq::open(&domain, sizes.queue)?;
        let (out, into) = (Block::new(&domain, 1, ALL)?, Block::new(&domain, 1, ALL)?);
        let notes = Block::new(&domain, CONTROL_BYTES, Access::SEND)?;
        let count = CONTROL_RECEIVES.div_ceil(sizes.rails).min(info.rx_size());
        let control = Self::end(info, (&domain, &cq), (count, CONTROL_BYTES))?;
        let count = match sizes.data_receive {
            0 => 0,
            _ => DATA_RECEIVES.div_ceil(sizes.rails).min(info.rx_size()),
        };
        let data = Self::end(info, (&domain, &cq), (count, sizes.data_receive))?;
        Ok(Self {
            data,
            control,
            cq,
            out,
            into,
            notes,
            domain,
        })
    }

    fn end(
        info: &Info,
        (domain, cq): (&Domain, &Cq),
        (receives, bytes): (usize, usize),
    ) -> Result<End, Fail> {
        let mut setup = Endpoint::open(domain, info)?;
        let av = Av::open(domain)?;
        setup.bind_cq(cq, CqBind::TRANSMIT | CqBind::RECV)?;
        setup.bind_av(&av)?;
        if info.provider_name() == "efa" {
            // The engine does without the path through shared memory, too (trap 27).
            let _known: Option<()> = setup.set_bool(BoolOption::SharedMemoryPermitted, false)?;
        }
        let endpoint = setup.enable().map_err(|failed| failed.error)?;
        let rx = Rx::new(domain, receives, bytes)?;
        Ok(End {
            endpoint,
            av,
            peer: PeerAddr::ANY,
            rx,
            waiting: Vec::new(),
        })
    }

    /// What the peer needs to know.
    ///
    /// # Errors
    /// The name of an endpoint cannot be had.
    pub(crate) fn card(&self) -> Result<Card, FabricError> {
        Ok(Card {
            data: self.data.endpoint.name()?,
            control: self.control.endpoint.name()?,
        })
    }

    /// Knows its peer from now on.
    ///
    /// # Errors
    /// The provider does not take the names.
    pub(crate) fn meet(&mut self, card: &Card) -> Result<(), FabricError> {
        self.data.peer = self.data.av.insert(&card.data)?;
        self.control.peer = self.control.av.insert(&card.control)?;
        Ok(())
    }

    /// Registers memory for messages, in place of what there was; where the peer may write.
    ///
    /// # Errors
    /// The registration failed.
    pub(crate) fn lay(&mut self, out: Region, into: Region) -> Result<Place, Fail> {
        self.out = Block::over(&self.domain, out, ALL)?;
        self.into = Block::over(&self.domain, into, ALL)?;
        let is_virtual = self.domain.info().uses_virtual_addresses();
        Ok(Place {
            address: if is_virtual { self.into.address() } else { 0 },
            key: self.into.key(),
        })
    }
}
