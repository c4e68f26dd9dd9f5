//! One endpoint with all it needs, and its operations.

use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::VecDeque;

use crate::av::{Av, PeerAddr};
use crate::completion::CompletionError;
use crate::context::Context2;
use crate::cq::CqEntry;
use crate::domain::Domain;
use crate::endpoint::Endpoint;
use crate::error::{Errno, FabricError, Posted};
use crate::fabric::Fabric;
use crate::flags::CompletionFlags;
use crate::info::Info;
use crate::options::SizeOption;
use crate::owned::buffer::Buffer;
use crate::owned::in_flight::{InFlightTable, Use};
use crate::owned::queue::{Found, Queue};
use crate::owned::submit::{SubmitError, Submitted};
use crate::owned::ticket::{OperationError, Ticket, Transfer};
use crate::post::{Sink, Source, Target};

static NEXT_PORT: AtomicU64 = AtomicU64::new(0);

/// A peer of one port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Peer {
    port: u64,
    addr: PeerAddr,
}

impl Peer {
    /// Memory that the peer exposed: address, key and length as it gave them. The one promise that
    /// nobody can check for the caller; operations then stay within the length.
    ///
    /// # Safety
    ///
    /// The peer exposes these bytes with this key ([`Exposed`](crate::Exposed) or its like), for as
    /// long as the region is used. Some providers check neither key nor range (shm up to 1.22), and
    /// the peer may be this process.
    #[must_use]
    pub const unsafe fn region(self, address: u64, key: u64, len: usize) -> RemoteRegion {
        RemoteRegion {
            peer: self,
            address,
            key,
            len,
        }
    }
}

/// Memory of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RemoteRegion {
    peer: Peer,
    address: u64,
    key: u64,
    len: usize,
}

impl RemoteRegion {
    /// The same without its first `offset` bytes; `None` if it is shorter.
    #[must_use]
    pub fn skip(self, offset: usize) -> Option<Self> {
        let len = self.len.checked_sub(offset)?;
        let address = self.address.checked_add(u64::try_from(offset).ok()?)?;
        Some(Self {
            address,
            len,
            ..self
        })
    }

    /// Bytes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Something that happened here without an operation of this side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// A peer wrote into exposed memory, with CQ data.
    Immediate {
        /// The data.
        data: u64,
        /// Bytes written; 0 from TCP before 1.18, whatever came.
        len: usize,
    },
    /// An error that belongs to no operation of this side.
    Error(CompletionError),
}

/// An endpoint with a queue and a vector of its own. Posting needs `&mut`: one thread at a time.
#[derive(Debug)]
pub struct Port {
    id: u64,
    endpoint: Endpoint,
    queue: Queue,
    av: Av,
    in_flight: InFlightTable,
    incoming: VecDeque<Incoming>,
    inject_msg_max: usize,
    inject_rma_max: usize,
}

impl Port {
    /// Opens fabric, domain and endpoint of an entry.
    ///
    /// # Errors
    ///
    /// What the provider says.
    pub fn open(info: &Info) -> Result<Self, FabricError> {
        let fabric = Fabric::open(info)?;
        Self::open_on(&Domain::open(&fabric, info)?, info)
    }

    /// Opens an endpoint in a domain that other ports share.
    ///
    /// # Errors
    ///
    /// What the provider says.
    pub fn open_on(domain: &Domain, info: &Info) -> Result<Self, FabricError> {
        let (queue, av) = (Queue::open(domain, info)?, Av::open(domain)?);
        let mut setup = Endpoint::open(domain, info)?;
        queue.bind(&mut setup)?;
        setup.bind_av(&av)?;
        let endpoint = setup.enable().map_err(|failed| failed.error)?;
        let limit = |option| -> Result<usize, FabricError> {
            let told = endpoint.get_size(option)?.unwrap_or(usize::MAX);
            Ok(told.min(info.inject_size()))
        };
        Ok(Self {
            id: NEXT_PORT.fetch_add(1, Ordering::Relaxed),
            inject_msg_max: limit(SizeOption::InjectMsgSize)?,
            inject_rma_max: limit(SizeOption::InjectRmaSize)?,
            endpoint,
            queue,
            av,
            in_flight: InFlightTable::default(),
            incoming: VecDeque::new(),
        })
    }

    /// The domain, to make buffers and exposed memory with.
    #[must_use]
    pub const fn domain(&self) -> &Domain {
        self.endpoint.domain()
    }

    /// The endpoint below, to look at it; its posts are unsafe, and their completions would be
    /// reported here.
    #[must_use]
    pub const fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// This port's address, to give to peers.
    ///
    /// # Errors
    ///
    /// What the provider says.
    pub fn name(&self) -> Result<Vec<u8>, FabricError> {
        self.endpoint.name()
    }

    /// Makes a peer of an address.
    ///
    /// # Errors
    ///
    /// As [`Av::insert`].
    pub fn insert(&mut self, address: &[u8]) -> Result<Peer, FabricError> {
        Ok(Peer {
            port: self.id,
            addr: self.av.insert(address)?,
        })
    }

    /// Bytes of an injected message, tagged ones too.
    pub(super) const fn inject_tagged_max(&self) -> usize {
        self.inject_msg_max
    }

    /// Operations that are not over.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Sends a part of a buffer; with `data`, as much of it as the provider carries goes along.
    ///
    /// # Errors
    ///
    /// With the buffer: a foreign buffer or peer, a part outside the buffer, or what the provider
    /// says.
    pub fn send(
        &mut self,
        buffer: Buffer,
        part: Range<usize>,
        peer: Peer,
        data: Option<u64>,
    ) -> Result<Submitted, SubmitError> {
        let checked = self
            .peer(peer)
            .and_then(|addr| Ok((addr, part_of(&buffer, part)?)));
        self.submit(
            buffer,
            Use::Local,
            checked,
            |endpoint, (addr, source), context| {
                match data {
                    // SAFETY: the contract of crate::post: the buffer's region is of this domain
                    // (`submit`), buffer and context stay in the table until the completion or the
                    // close of the endpoint, and the peer is one of this vector (never removed).
                    None => unsafe { endpoint.post_send(source, addr, context) },
                    // SAFETY: as above.
                    Some(data) => unsafe { endpoint.post_senddata(source, data, addr, context) },
                }
            },
        )
    }

    /// Posts a buffer for the next message from anybody.
    ///
    /// # Errors
    ///
    /// With the buffer: a foreign buffer, or what the provider says.
    pub fn recv(&mut self, buffer: Buffer) -> Result<Submitted, SubmitError> {
        let checked = sink_of(&buffer);
        self.submit(buffer, Use::Local, checked, |endpoint, sink, context| {
            // SAFETY: the contract of crate::post, as in `send`.
            unsafe { endpoint.post_recv(sink, PeerAddr::ANY, context) }
        })
    }

    /// Writes a part of a buffer into a peer's memory; with `data`, the peer is told.
    ///
    /// # Errors
    ///
    /// As [`Self::send`].
    pub fn write(
        &mut self,
        buffer: Buffer,
        part: Range<usize>,
        region: RemoteRegion,
        data: Option<u64>,
    ) -> Result<Submitted, SubmitError> {
        let checked = self
            .target(region, part.len())
            .and_then(|target| Ok((target, part_of(&buffer, part)?)));
        self.submit(
            buffer,
            Use::Local,
            checked,
            |endpoint, (target, source), context| {
                match data {
                    // SAFETY: the contract of crate::post, as in `send`; the target is what the peer
                    // exposes, by the promise of `Peer::region`, and long enough.
                    None => unsafe { endpoint.post_write(source, target, context) },
                    // SAFETY: as above.
                    Some(data) => unsafe { endpoint.post_writedata(source, data, target, context) },
                }
            },
        )
    }

    /// Fills a buffer from a peer's memory.
    ///
    /// # Errors
    ///
    /// As [`Self::send`].
    pub fn read(&mut self, buffer: Buffer, region: RemoteRegion) -> Result<Submitted, SubmitError> {
        let checked = self
            .target(region, buffer.len())
            .and_then(|target| Ok((target, sink_of(&buffer)?)));
        self.submit(
            buffer,
            Use::ReadSink,
            checked,
            |endpoint, (target, sink), context| {
                // SAFETY: the contract of crate::post, as in `write`.
                unsafe { endpoint.post_read(sink, target, context) }
            },
        )
    }

    /// Sends a few bytes, which are copied during the call.
    ///
    /// # Errors
    ///
    /// FI_EMSGSIZE for more bytes than the provider injects; a foreign peer; what the provider says.
    pub fn inject(
        &mut self,
        bytes: &[u8],
        peer: Peer,
        data: Option<u64>,
    ) -> Result<Posted, FabricError> {
        let addr = self.peer(peer)?;
        check_inject("fi_inject", bytes, self.inject_msg_max)?;
        match data {
            // SAFETY: the contract of crate::post: the bytes are used during the call only, their
            // length was checked, the peer is one of this vector.
            None => unsafe { self.endpoint.post_inject(bytes, addr) },
            // SAFETY: as above.
            Some(data) => unsafe { self.endpoint.post_injectdata(bytes, data, addr) },
        }
    }

    /// Writes a few bytes, which are copied during the call, into a peer's memory.
    ///
    /// # Errors
    ///
    /// As [`Self::inject`].
    pub fn inject_write(
        &mut self,
        bytes: &[u8],
        region: RemoteRegion,
        data: Option<u64>,
    ) -> Result<Posted, FabricError> {
        let target = self.target(region, bytes.len())?;
        check_inject("fi_inject_write", bytes, self.inject_rma_max)?;
        match data {
            // SAFETY: the contract of crate::post, as in `inject` and `write`.
            None => unsafe { self.endpoint.post_inject_write(bytes, target) },
            // SAFETY: as above.
            Some(data) => unsafe { self.endpoint.post_inject_writedata(bytes, data, target) },
        }
    }

    /// Asks to end an operation early. It still ends through its ticket. `false` if it is over or of
    /// another port.
    ///
    /// # Errors
    ///
    /// What the provider says.
    pub fn cancel(&mut self, ticket: &Ticket) -> Result<bool, FabricError> {
        if !self.in_flight.holds(ticket) {
            return Ok(false);
        }
        self.endpoint
            .cancel(core::ptr::without_provenance_mut(ticket.context()))
    }

    /// Makes progress and takes up to a batch of completions; says how many there were.
    ///
    /// # Errors
    ///
    /// A failure of the queue itself.
    pub fn poll(&mut self) -> Result<usize, FabricError> {
        let Self {
            queue,
            in_flight,
            incoming,
            ..
        } = self;
        match queue.take(|entry, tag| completed(in_flight, incoming, entry, tag))? {
            Found::Entries(count) => Ok(count),
            Found::Nothing => Ok(0),
            Found::Failed(error) => {
                self.failed(error);
                Ok(1)
            }
        }
    }

    /// The oldest event that no operation of this side caused. Take them: they pile up.
    pub fn next_incoming(&mut self) -> Option<Incoming> {
        self.incoming.pop_front()
    }

    fn failed(&mut self, error: CompletionError) {
        let outcome = Err(OperationError::Failed(error.clone()));
        if !self.in_flight.complete(error.context(), outcome) {
            self.incoming.push_back(Incoming::Error(error));
        }
    }

    pub(super) fn peer(&self, peer: Peer) -> Result<PeerAddr, FabricError> {
        if peer.port == self.id {
            return Ok(peer.addr);
        }
        Err(FabricError::new("Port", Errno::EINVAL).with("a peer of another port"))
    }

    fn target(&self, region: RemoteRegion, wanted: usize) -> Result<Target, FabricError> {
        let RemoteRegion {
            peer,
            address,
            key,
            len,
        } = region;
        if wanted > len {
            return Err(FabricError::new("Port", Errno::EINVAL)
                .with(format_args!("{wanted} bytes of a region of {len}")));
        }
        Ok(Target {
            peer: self.peer(peer)?,
            addr: address,
            key,
        })
    }

    /// Starts an operation, and keeps what it uses if the provider takes it.
    pub(super) fn submit<T>(
        &mut self,
        buffer: Buffer,
        how: Use,
        checked: Result<T, FabricError>,
        post: impl FnOnce(&Endpoint, T, *mut Context2) -> Result<Posted, FabricError>,
    ) -> Result<Submitted, SubmitError> {
        let foreign =
            || FabricError::new("Port", Errno::EDOMAIN).with("a buffer of another domain");
        let ours = if buffer.is_of(self.domain()) {
            checked
        } else {
            Err(foreign())
        };
        let mut context = Box::new(Context2::new());
        match ours.and_then(|arguments| post(&self.endpoint, arguments, &raw mut *context)) {
            Ok(Posted::Accepted) => Ok(Submitted::Pending(
                self.in_flight.admit(buffer, how, context),
            )),
            Ok(Posted::Busy) => Ok(Submitted::Busy(buffer)),
            Err(error) => Err(SubmitError { error, buffer }),
        }
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        // The endpoint first: then nobody uses the buffers any more (see `crate::owned`).
        if self.endpoint.close_in_place().is_ok() {
            self.in_flight.discard();
        } else {
            self.in_flight.leak_all();
        }
    }
}

fn completed(
    in_flight: &mut InFlightTable,
    incoming: &mut VecDeque<Incoming>,
    entry: &CqEntry,
    tag: Option<u64>,
) {
    let told = entry.flags().contains(CompletionFlags::REMOTE_CQ_DATA);
    let (len, flags, data) = (entry.len(), entry.flags(), told.then(|| entry.data()));
    let transfer = Transfer {
        len,
        data,
        tag,
        flags,
    };
    let known = in_flight.complete(entry.context(), Ok(transfer));
    if let (false, Some(data)) = (known, data) {
        incoming.push_back(Incoming::Immediate { data, len });
    }
}

pub(super) fn part_of(buffer: &Buffer, part: Range<usize>) -> Result<Source, FabricError> {
    let asked = part.clone();
    buffer.source(part).ok_or_else(|| {
        let len = buffer.len();
        FabricError::new("Port", Errno::EINVAL)
            .with(format_args!("bytes {asked:?} of a buffer of {len}"))
    })
}

pub(super) fn sink_of(buffer: &Buffer) -> Result<Sink, FabricError> {
    buffer
        .sink()
        .ok_or_else(|| FabricError::new("Port", Errno::EINVAL).with("no region"))
}

pub(super) fn check_inject(op: &'static str, bytes: &[u8], max: usize) -> Result<(), FabricError> {
    if bytes.len() <= max {
        return Ok(());
    }
    Err(FabricError::new(op, Errno::EMSGSIZE).with(format_args!(
        "{} bytes, of which {max} can be injected",
        bytes.len()
    )))
}
