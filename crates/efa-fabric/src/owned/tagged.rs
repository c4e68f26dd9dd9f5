//! Tagged messages of a port. Its entry has to have [`Caps::TAGGED`].

use core::ops::Range;

use crate::av::PeerAddr;
use crate::error::{Errno, FabricError, Posted};
use crate::flags::Caps;
use crate::owned::buffer::Buffer;
use crate::owned::in_flight::Use;
use crate::owned::port::{Peer, Port, check_inject, part_of, sink_of};
use crate::owned::submit::{SubmitError, Submitted};
use crate::post::TagMatch;

impl Port {
    /// Sends a part of a buffer under a tag.
    ///
    /// # Errors
    ///
    /// With the buffer: a port without tags, a foreign buffer or peer, a part outside the buffer, or
    /// what the provider says.
    pub fn tsend(
        &mut self,
        buffer: Buffer,
        part: Range<usize>,
        peer: Peer,
        tag: u64,
    ) -> Result<Submitted, SubmitError> {
        let checked = self
            .tags()
            .and_then(|()| Ok((self.peer(peer)?, part_of(&buffer, part)?)));
        self.submit(
            buffer,
            Use::Local,
            checked,
            |endpoint, (addr, source), context| {
                // SAFETY: the contract of crate::post: the buffer's region is of this domain
                // (`submit`), buffer and context stay in the table until the completion or the
                // close of the endpoint, and the peer is one of this vector (never removed).
                unsafe { endpoint.post_tsend(source, addr, tag, context) }
            },
        )
    }

    /// Posts a buffer for the next message from anybody with a fitting tag, which comes back as
    /// [`Transfer::tag`](crate::Transfer::tag).
    ///
    /// # Errors
    ///
    /// With the buffer: a port without tags, a foreign buffer, or what the provider says.
    pub fn trecv(&mut self, buffer: Buffer, wanted: TagMatch) -> Result<Submitted, SubmitError> {
        let checked = self.tags().and_then(|()| sink_of(&buffer));
        self.submit(buffer, Use::Local, checked, |endpoint, sink, context| {
            // SAFETY: the contract of crate::post, as in `tsend`.
            unsafe { endpoint.post_trecv(sink, PeerAddr::ANY, wanted, context) }
        })
    }

    /// Sends a few bytes under a tag, which are copied during the call.
    ///
    /// # Errors
    ///
    /// FI_EMSGSIZE for more bytes than the provider injects; a port without tags; a foreign peer; what
    /// the provider says.
    pub fn tinject(&mut self, bytes: &[u8], peer: Peer, tag: u64) -> Result<Posted, FabricError> {
        self.tags()?;
        let addr = self.peer(peer)?;
        check_inject("fi_tinject", bytes, self.inject_tagged_max())?;
        // SAFETY: the contract of crate::post: the bytes are used during the call only, their length
        // was checked, the peer is one of this vector.
        unsafe { self.endpoint().post_tinject(bytes, addr, tag) }
    }

    /// Tagged posts on an endpoint without the capability are undefined: fi_tagged(3) has nothing on
    /// them.
    fn tags(&self) -> Result<(), FabricError> {
        if self.endpoint().info().caps().contains(Caps::TAGGED) {
            return Ok(());
        }
        Err(FabricError::new("Port", Errno::EOPNOTSUPP).with("an endpoint without FI_TAGGED"))
    }
}
