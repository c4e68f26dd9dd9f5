//! From the engine's operations to libfabric calls: one call for each.
//!
//! ```text
//! Wire::Connect    fi_tsend, from a slot of ours
//! Wire::Await      fi_trecv, into a slot of ours
//! Wire::Send       fi_tsend
//! Wire::Recv       fi_trecv
//! Wire::FlushRead  fi_read into the flush page, own address
//! ```
//!
//! What makes the posts sound is said in `rail.rs`: contexts come from [`Contexts`], connect messages
//! lie in slots that the completion gives back, a caller's buffer is the caller's until `test` says
//! done, and the engine counts the requests that refer to a region.

use crate::contexts::{Contexts, Owner};
use crate::peers::{Peers, Unresolved};
use crate::region::Registrar;
use crate::regions::{FLUSH_REGION, Regions};
use crate::report::Note;
use crate::slab::{CONNECT_SLAB, Slab, SlabSource};
use crate::stats::{SeenRails, of_rail};
use crate::trace::Trace;
use efa_fabric::{
    CompletionError, Context2, Endpoint, FabricError, PeerAddr as FiAddr, Posted, Sink, Source,
    TagMatch, Target,
};
use ofi_pools::{Freelist, Slot};
use ofi_rdma::limits::EP_NAME_BYTES;
use ofi_rdma::{Cause, Event, Lane, Outcome, PeerAddr, RegionId, Token};
use ofi_sendrecv::limits::FLUSH_BYTES;
use ofi_sendrecv::{Buffer, Post, Rest, TagPort, Wire};
use std::sync::Arc;

/// The one rail.
pub(super) const RAIL: u8 = 0;

/// Notes for the log that one pass can leave.
const NOTES_MAX: usize = 256;

/// The region or buffer of an operation is not there any more.
const GONE: Outcome = Outcome::Failed(Cause::errno(libc::EFAULT));

/// Everything of a domain that posts.
#[derive(Debug)]
pub(crate) struct Port {
    /// First field: it closes before the memory that it uses goes away.
    pub(crate) endpoint: Endpoint,
    pub(crate) peers: Peers,
    /// Our own address in our own address vector: for flushes.
    pub(crate) own: FiAddr,
    /// Connect messages, sent and awaited.
    pub(crate) slots: Freelist<Slab>,
    pub(crate) regions: Regions,
    pub(crate) contexts: Contexts,
    pub(crate) flush_page: Slab,
    pub(crate) registrar: Arc<Registrar>,
    /// Regions are bound to the endpoint before they are used (`FI_MR_ENDPOINT`).
    pub(crate) binds_regions: bool,
    /// What the provider makes of truncated messages, where it says nothing.
    pub(crate) drops_rest: Option<bool>,
    /// For the log, once the domain is left.
    pub(crate) notes: Vec<Note>,
    /// Where all of it is written down, if it is.
    pub(crate) trace: Option<Box<Trace>>,
    /// What went over each rail.
    pub(crate) seen: SeenRails,
}

/// A number of the engine as an address of this process.
fn pointer(addr: u64) -> *mut u8 {
    usize::try_from(addr).map_or(
        core::ptr::null_mut(),
        core::ptr::with_exposed_provenance_mut,
    )
}

const fn fi(peer: PeerAddr) -> FiAddr {
    FiAddr::from_raw(peer.0)
}

impl Port {
    /// What went over the rail.
    pub(crate) const fn seen(&self) -> SeenRails {
        self.seen
    }

    /// An event of the engine as a note, with the peer's address where there is one.
    pub(crate) fn event(&self, event: Event) -> Note {
        self.peers.note(event)
    }

    /// Keeps something for the log; the first ones, when there are very many.
    pub(crate) fn note(&mut self, note: Note) {
        if let Some(trace) = &mut self.trace {
            trace.note(&note);
        }
        if self.notes.len() < NOTES_MAX {
            self.notes.push(note);
        }
    }

    /// What regions are bound to before they are used, where the provider needs that.
    pub(crate) fn binds_to(&self) -> Option<&Endpoint> {
        self.binds_regions.then_some(&self.endpoint)
    }

    /// What became of a message that was longer than its receive of `room` bytes. rxm says length and
    /// overflow like EFA, and yet gives the rest of some messages to the next receive.
    pub(crate) fn rest_of(&self, error: &CompletionError) -> Rest {
        let told = error.overflow() > 0 && error.len() > error.overflow();
        match self.drops_rest {
            Some(true) => Rest::Dropped,
            None if told => Rest::Dropped,
            Some(false) | None => Rest::Unknown,
        }
    }

    /// The memory of an operation; a message without bytes uses the flush page.
    fn local(&self, buffer: Buffer) -> Option<Sink> {
        let Buffer { addr, len, region } = buffer;
        let (addr, region) = match len {
            0 => (self.flush_page.pages().addr(), FLUSH_REGION),
            _ => (addr, region),
        };
        let view = self.regions.view(region)?;
        Some(Sink {
            ptr: pointer(addr),
            len: usize::try_from(len).ok()?,
            desc: view.desc(RAIL),
        })
    }

    /// Posts with a context: takes it, and gives it back unless the provider has the operation.
    #[inline]
    fn with_context(
        &mut self,
        owner: Owner,
        post: impl FnOnce(&Endpoint, *mut Context2) -> Result<Posted, FabricError>,
    ) -> Outcome {
        let Some(context) = self.contexts.take(owner) else {
            return Outcome::Busy;
        };
        let outcome = match post(&self.endpoint, context) {
            Ok(Posted::Accepted) => return Outcome::Accepted,
            Ok(Posted::Busy) => Outcome::Busy,
            // shm answers a full receive queue with ENOMEM instead of EAGAIN.
            Err(error) if error.errno().code() == libc::ENOMEM => Outcome::Busy,
            Err(error) => self.refused(error.to_string(), error.errno().code()),
        };
        let taken_back = self.contexts.finish(context.cast());
        debug_assert!(taken_back.is_some(), "the context just taken");
        outcome
    }

    /// The provider refused a post, or memory for one: the engine is told with what number, the log by
    /// which call.
    #[cold]
    fn refused(&mut self, text: String, errno: i32) -> Outcome {
        let lane = Lane::data(RAIL);
        self.note(Note::Refused { lane, text });
        Outcome::Failed(Cause::errno(errno))
    }

    fn send(&mut self, token: Token, peer: PeerAddr, tag: u64, buffer: Buffer) -> Outcome {
        let Some(Sink { ptr, len, desc }) = self.local(buffer) else {
            return GONE;
        };
        let ptr = ptr.cast_const();
        let source = Source { ptr, len, desc };
        let outcome = self.with_context(Owner::Post(token), |endpoint, context| {
            // SAFETY: the caller keeps the buffer until the request is done, its region is counted by
            // the engine; `peer` is of this endpoint's address vector.
            unsafe { endpoint.post_tsend(source, fi(peer), tag, context) }
        });
        if outcome == Outcome::Accepted {
            of_rail(&mut self.seen, RAIL).took(1, len);
        }
        outcome
    }

    fn receive(&mut self, token: Token, tag: u64, buffer: Buffer) -> Outcome {
        let Some(sink) = self.local(buffer) else {
            return GONE;
        };
        self.with_context(Owner::Post(token), |endpoint, context| {
            // SAFETY: as for `send`; nobody looks at the buffer before the request is done.
            unsafe { endpoint.post_trecv(sink, FiAddr::ANY, TagMatch::exactly(tag), context) }
        })
    }

    /// A 4-byte read of the caller's buffer through our own address.
    fn flush(&mut self, token: Token, addr: u64, region: RegionId) -> Outcome {
        let Some(view) = self.regions.view(region) else {
            return GONE;
        };
        let bytes = usize::try_from(FLUSH_BYTES).unwrap_or(0);
        let (addr, len) = view.within(addr, bytes);
        let target = Target {
            peer: self.own,
            addr: view.wire_addr(addr),
            key: view.key(RAIL),
        };
        let sink = Sink {
            ptr: pointer(self.flush_page.pages().addr()),
            len,
            desc: self.flush_page.view().desc(RAIL),
        };
        self.with_context(Owner::Post(token), |endpoint, context| {
            // SAFETY: the sink is the flush page, which outlives the endpoint; the source is the
            // caller's buffer, registered until its requests are done.
            unsafe { endpoint.post_read(sink, target, context) }
        })
    }

    /// A slot for a connect message.
    fn take_slot(&mut self) -> Result<Slot, Outcome> {
        let mut source = SlabSource {
            registrar: &self.registrar,
            access: CONNECT_SLAB,
            binds_to: self.binds_regions.then_some(&self.endpoint),
        };
        match self.slots.take(&mut source) {
            Ok(Some(slot)) => Ok(slot),
            Ok(None) => Err(Outcome::Busy),
            Err(error) => Err(self.refused(error.titled(), -error.errno())),
        }
    }

    /// A connect message is sent, or was taken.
    pub(crate) fn give_slot(&mut self, slot: Slot) {
        let given = self.slots.give(slot);
        debug_assert!(given.is_ok(), "{given:?}");
    }

    /// The slot as the sink of a post.
    fn slot_sink(&self, slot: Slot) -> Option<Sink> {
        let place = self.slots.place(slot).ok()?;
        Some(Sink {
            ptr: place.block.pages().start().wrapping_add(place.offset),
            len: place.bytes,
            desc: place.block.view().desc(RAIL),
        })
    }

    /// Runs `read` over the connect message that arrived in a slot.
    pub(crate) fn with_slot<R>(
        &self,
        slot: Slot,
        len: usize,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Option<R> {
        let place = self.slots.place(slot).ok()?;
        let len = len.min(place.bytes);
        // SAFETY: its receive completed, and it is given back only after this.
        unsafe { place.block.pages().with_bytes(place.offset, len, read) }
    }

    /// Posts a connect message, or the wait for one.
    fn with_slot_posted(
        &mut self,
        token: Token,
        message: Option<&[u8]>,
        post: impl FnOnce(&Endpoint, Sink, *mut Context2) -> Result<Posted, FabricError>,
    ) -> Outcome {
        let slot = match self.take_slot() {
            Ok(slot) => slot,
            Err(outcome) => return outcome,
        };
        let sink = self.slot_sink(slot).and_then(|sink| {
            let Some(message) = message else {
                return Some(sink);
            };
            let place = self.slots.place(slot).ok()?;
            // SAFETY: the slot was just taken: nothing is posted on it.
            let fits = unsafe { place.block.pages().write(place.offset, message) };
            let len = message.len();
            fits.then_some(Sink { len, ..sink })
        });
        let outcome = match sink {
            Some(sink) => self.with_context(Owner::Control(token, slot), |endpoint, context| {
                post(endpoint, sink, context)
            }),
            None => GONE,
        };
        if outcome != Outcome::Accepted {
            self.give_slot(slot);
        }
        outcome
    }
}

impl Port {
    fn offer(&mut self, post: &Post) -> Outcome {
        let token = post.token();
        match *post.wire() {
            Wire::Connect { peer, tag } => {
                let bytes = post.connect_bytes();
                self.with_slot_posted(token, Some(&bytes), |endpoint, sink, context| {
                    let source = Source {
                        ptr: sink.ptr.cast_const(),
                        len: sink.len,
                        desc: sink.desc,
                    };
                    // SAFETY: the slot is ours until the completion of this context gives it back, and
                    // the slab outlives the endpoint; the peer is of this endpoint's address vector.
                    unsafe { endpoint.post_tsend(source, fi(peer), tag, context) }
                })
            }
            Wire::Await { tag } => {
                self.with_slot_posted(token, None, |endpoint, sink, context| {
                    let wanted = TagMatch::exactly(tag);
                    // SAFETY: as above.
                    unsafe { endpoint.post_trecv(sink, FiAddr::ANY, wanted, context) }
                })
            }
            Wire::Send { peer, tag, buffer } => self.send(token, peer, tag, buffer),
            Wire::Recv { tag, buffer } => self.receive(token, tag, buffer),
            Wire::FlushRead { addr, region } => self.flush(token, addr, region),
        }
    }
}

impl TagPort for Port {
    #[inline]
    fn post(&mut self, post: &Post) -> Outcome {
        let outcome = self.offer(post);
        if outcome == Outcome::Busy {
            of_rail(&mut self.seen, RAIL).busy += 1;
        }
        if self.is_traced() {
            self.trace_post(post, outcome);
        }
        outcome
    }

    fn cancel(&mut self, token: Token) {
        if let Some(context) = self.contexts.of_token(token) {
            // A provider that cannot cancel completes the operation in its own time: the engine waits
            // for that either way.
            let _asked = self.endpoint.cancel(context).is_ok();
        }
    }

    fn resolve(&mut self, name: &[u8; EP_NAME_BYTES]) -> Result<PeerAddr, Cause> {
        let resolved = self.peers.resolve(name).map_err(|unresolved| {
            if let Unresolved::Refused(error) = &unresolved {
                let (lane, text) = (Lane::data(RAIL), error.to_string());
                self.note(Note::Peer { lane, text });
            }
            unresolved.cause()
        })?;
        if let Some(trace) = &mut self.trace {
            trace.peer(Lane::data(RAIL), resolved.0, name);
        }
        Ok(resolved)
    }
}
