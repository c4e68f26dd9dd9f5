//! From the engine's operations to libfabric calls: one call for each (protocol 2c.9).
//!
//! ```text
//! Wire::Control     fi_send                            control endpoint, never with CQ data
//! Wire::Eager       fi_senddata                        data endpoint
//! Wire::Write       fi_writedata, fi_write             data endpoint
//! Wire::EagerCopy   nothing: copied in the call        memory of a device: fi_read on the data endpoint, own address
//! Wire::FlushRead   fi_read into the flush page        data endpoint, own address
//! Wire::Put         fi_writemsg                        data endpoint of rail 0
//! Wire::Get         fi_read of a peer's memory         data endpoint of rail 0
//! ```
//!
//! Nothing is injected: an injected message has no context, so that nobody learns whose it was when it fails
//! (`fi_msg(3)`), and its peer waits for ever. EFA's provider writes short messages into the queue entry by itself.
//!
//! # What makes the posts sound
//!
//! `fi_msg(3)` and `fi_rma(3)`: buffer, descriptor and context of a posted operation stay valid and
//! untouched until its completion. Contexts come from [`Contexts`], control messages from slots that
//! are given back by the completion, receive buffers from slabs that outlive the endpoints. A caller's
//! buffer is the caller's until `test` says done: that is the contract of the unsafe calls of
//! [`crate::Transport`], and the engine counts the requests that refer to a region until their
//! operations have completed.

use crate::contexts::{Contexts, Owner};
use crate::peers::Peers;
use crate::region::Registrar;
use crate::regions::{FLUSH_REGION, Regions};
use crate::report::Note;
use crate::rx::{Arrived, Receives};
use crate::slab::{SEND_SLAB, Slab, SlabSource};
use crate::stats::{SeenRails, of_rail};
use crate::stretch::MemoryKind;
use crate::trace::Trace;
use efa_fabric::{
    Context2, Endpoint, FabricError, PeerAddr as FiAddr, Posted, Sink, Source, Target,
};
use ofi_pools::{Freelist, Slot};
use ofi_rdma::limits::{CONTROL_BUFFER_BYTES, CTRL_BYTES_MAX, EP_NAME_BYTES};
use ofi_rdma::{Cause, HostName, Lane, Outcome, PeerAddr, Post, RailPort, Token, Wire};
use std::sync::Arc;

mod names;
mod one_sided;
mod own;
mod refused;

use refused::RECEIVES_FULL;

/// Notes for the log that one pass can leave.
const NOTES_MAX: usize = 256;

/// One endpoint with its address vector.
#[derive(Debug)]
pub(crate) struct LaneEnd {
    pub(crate) endpoint: Endpoint,
    pub(crate) peers: Peers,
    /// Our own address in our own address vector: for flushes, and eager copies to memory of a device.
    pub(crate) own: FiAddr,
    pub(crate) sent: Sent,
}

/// What the provider took of what the engine sends. Beside the endpoint: found with it, before the call.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sent {
    pub(crate) segments: u64,
    pub(crate) bytes: u64,
}

impl Sent {
    /// Counts an operation if the provider took it. Wrapping, so that no overflow check is left in the hot path;
    /// a build with `--cfg ofi_without_counters` is what it is measured against.
    #[inline(always)]
    const fn count(
        &mut self,
        posted: Result<Posted, FabricError>,
        (segments, bytes): (u64, usize),
    ) -> Result<Posted, FabricError> {
        if cfg!(not(ofi_without_counters)) && matches!(posted, Ok(Posted::Accepted)) {
            self.segments = self.segments.wrapping_add(segments);
            self.bytes = self.bytes.wrapping_add(bytes as u64);
        }
        posted
    }
}

/// Everything of a domain that posts.
#[derive(Debug)]
pub(crate) struct Port {
    /// By [`Lane::index`]. First field: endpoints close before the memory that they use goes away.
    pub(crate) lanes: [Option<LaneEnd>; Lane::COUNT_MAX],
    pub(crate) receives: Receives,
    pub(crate) sends: Freelist<Slab>,
    pub(crate) regions: Regions,
    pub(crate) contexts: Contexts,
    pub(crate) flush_page: Slab,
    pub(crate) registrar: Arc<Registrar>,
    /// For the log, once the domain is left.
    pub(crate) notes: Vec<Note>,
    /// Where all of it is written down, if it is.
    pub(crate) trace: Option<Box<Trace>>,
    /// What went over each rail, but for what was sent.
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

/// The local side of an operation.
#[derive(Clone, Copy)]
struct Local {
    sink: Sink,
    /// Ordinary memory, which can be copied from.
    host: bool,
}

impl Local {
    const fn source(self) -> Source {
        let Sink { ptr, len, desc } = self.sink;
        Source { ptr, len, desc }
    }
}

/// The region or buffer of an operation is not there any more.
const GONE: Outcome = Outcome::Failed(Cause::errno(libc::EFAULT));

const NO_LANE: Outcome = Outcome::Failed(Cause::errno(libc::ENODEV));

impl Port {
    pub(crate) fn lane(&self, lane: Lane) -> Option<&LaneEnd> {
        self.lanes.get(lane.index())?.as_ref()
    }

    /// The memory of an operation; a message without bytes uses the flush page.
    fn local(&self, addr: u64, len: u64, region: ofi_rdma::RegionId, rail: u8) -> Option<Local> {
        let (addr, region) = if len == 0 {
            (self.flush_page.pages().addr(), FLUSH_REGION)
        } else {
            (addr, region)
        };
        let view = self.regions.view(region)?;
        let len = usize::try_from(len).ok()?;
        let sink = Sink {
            ptr: pointer(addr),
            len,
            desc: view.desc(rail),
        };
        Some(Local {
            sink,
            host: view.kind == MemoryKind::Host,
        })
    }

    /// Posts with a context: takes it, and gives it back unless the provider has the operation.
    #[inline]
    fn with_context(
        &mut self,
        lane: Lane,
        owner: Owner,
        post: impl FnOnce(&Endpoint, *mut Context2, &mut Sent) -> Result<Posted, FabricError>,
    ) -> Outcome {
        let Some(context) = self.contexts.take(owner) else {
            return Outcome::Busy;
        };
        let end = self.lanes.get_mut(lane.index()).and_then(Option::as_mut);
        let outcome = match end.map(|end| post(&end.endpoint, context, &mut end.sent)) {
            Some(Ok(Posted::Accepted)) => return Outcome::Accepted,
            Some(Ok(Posted::Busy)) => Outcome::Busy,
            Some(Err(error)) => self.refused(lane, owner, &error),
            None => NO_LANE,
        };
        let taken_back = self.contexts.finish(context.cast());
        debug_assert!(taken_back.is_some(), "the context just taken");
        outcome
    }

    fn control(&mut self, post: &Post, peer: FiAddr, len: usize) -> Outcome {
        // CTRL goes with every message; the buffer of a CONN need not be cleared for it.
        if len <= CTRL_BYTES_MAX {
            self.control_of(post, peer, &mut [0; CTRL_BYTES_MAX])
        } else {
            self.control_of(post, peer, &mut [0; CONTROL_BUFFER_BYTES])
        }
    }

    fn control_of(&mut self, post: &Post, peer: FiAddr, message: &mut [u8]) -> Outcome {
        let lane = post.lane();
        let written = post.encode(message);
        let Some(message) = message.get(..written) else {
            return Outcome::Failed(Cause::errno(libc::EMSGSIZE));
        };
        self.send_from_slot(post.token(), lane, peer, message)
    }

    fn send_from_slot(
        &mut self,
        token: Token,
        lane: Lane,
        peer: FiAddr,
        message: &[u8],
    ) -> Outcome {
        let mut source = SlabSource {
            registrar: &self.registrar,
            access: SEND_SLAB,
            binds_to: None,
        };
        let slot = match self.sends.take(&mut source) {
            Ok(Some(slot)) => slot,
            Ok(None) => return Outcome::Busy,
            Err(error) => return self.no_slot(lane, &error),
        };
        let Some(source) = self.fill_slot(slot, lane.rail(), message) else {
            self.give_send(slot);
            return Outcome::Failed(Cause::errno(libc::EMSGSIZE));
        };
        let owner = Owner::Control(token, slot);
        let outcome = self.with_context(lane, owner, |endpoint, context, _| {
            // SAFETY: the slot is ours until the completion of this context gives it back, and the
            // slab outlives the endpoint; see the module's text.
            unsafe { endpoint.post_send(source, peer, context) }
        });
        if outcome != Outcome::Accepted {
            self.give_send(slot);
        }
        outcome
    }

    fn fill_slot(&self, slot: Slot, rail: u8, message: &[u8]) -> Option<Source> {
        let place = self.sends.place(slot).ok()?;
        let (pages, view) = (place.block.pages(), place.block.view());
        // SAFETY: the slot was just taken: nothing is posted on it.
        let fits = unsafe { pages.write(place.offset, message) };
        let ptr = pages.start().wrapping_add(place.offset).cast_const();
        fits.then(|| Source {
            ptr,
            len: message.len(),
            desc: view.desc(rail),
        })
    }

    /// A control message has left its slot.
    pub(crate) fn give_send(&mut self, slot: Slot) {
        let given = self.sends.give(slot);
        debug_assert!(given.is_ok(), "{given:?}");
    }

    fn eager(&mut self, post: &Post, peer: FiAddr, local: Local, imm: u32) -> Outcome {
        let (lane, imm, source) = (post.lane(), u64::from(imm), local.source());
        self.with_context(
            lane,
            Owner::Post(post.token()),
            |endpoint, context, sent| {
                // SAFETY: the caller keeps the buffer until the request is done, its region is counted by
                // the engine; see the module's text.
                let posted = unsafe { endpoint.post_senddata(source, imm, peer, context) };
                sent.count(posted, (0, source.len))
            },
        )
    }

    fn write(&mut self, post: &Post, source: Source, target: Target, data: Option<u64>) -> Outcome {
        let owner = Owner::Post(post.token());
        self.with_context(post.lane(), owner, |endpoint, context, sent| {
            let posted = match data {
                // SAFETY: as for `eager`; the target is what the peer's CTRL gave out for this message.
                Some(data) => unsafe { endpoint.post_writedata(source, data, target, context) },
                // SAFETY: as above.
                None => unsafe { endpoint.post_write(source, target, context) },
            };
            sent.count(posted, (1, source.len))
        })
    }

    /// What went over each rail.
    pub(crate) fn seen(&self) -> SeenRails {
        let mut seen = self.seen;
        for (rail, seen) in (0_u8..).zip(&mut seen) {
            if let Some(end) = self.lane(Lane::data(rail)) {
                (seen.segments, seen.sent) = (end.sent.segments, end.sent.bytes);
            }
        }
        seen
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

    /// Posts receives on `lane` up to its target.
    pub(crate) fn refill(&mut self, lane: Lane) {
        while self.receives.wants(lane) {
            match self.receives.fresh(lane, &self.registrar) {
                Ok(Some(buffer)) => {
                    if !self.post_receive(buffer) {
                        return;
                    }
                }
                Ok(None) => return,
                Err(error) => {
                    if self.receives.starve(lane, &error) {
                        let text = error.titled();
                        self.note(Note::Receive { lane, text });
                    }
                    return;
                }
            }
        }
    }

    /// A buffer whose message was taken: posted again, or given back.
    pub(crate) fn recycle(&mut self, buffer: Arrived) {
        if self.receives.wants(buffer.lane()) {
            self.post_receive(buffer);
        } else {
            self.receives.give(buffer);
            self.receives.feed();
        }
    }

    /// Posts one receive; a buffer that cannot be posted now goes back to its pool, and the lane is
    /// filled up by a later pass.
    fn post_receive(&mut self, buffer: Arrived) -> bool {
        let (lane, slot) = (buffer.lane(), buffer.slot());
        let Ok(place) = self.receives.pool(lane).place(slot) else {
            return false;
        };
        let first = place.block.pages().start().wrapping_add(place.offset);
        let sink = Sink {
            ptr: first,
            len: place.bytes,
            desc: place.block.view().desc(lane.rail()),
        };
        let outcome =
            self.with_context(lane, Owner::Receive(lane, slot), |endpoint, context, _| {
                // SAFETY: the slot is the provider's until the completion of this context, and the slab
                // outlives the endpoint.
                unsafe { endpoint.post_recv(sink, FiAddr::ANY, context) }
            });
        if outcome == Outcome::Accepted {
            self.receives.posted(lane);
            return true;
        }
        self.receives.give(buffer);
        if matches!(outcome, Outcome::Failed(cause) if cause.errno != RECEIVES_FULL) {
            self.receives.unpostable(lane);
        }
        false
    }
}

impl Port {
    fn offer(&mut self, post: &Post) -> Outcome {
        let rail = post.lane().rail();
        match *post.wire() {
            Wire::Control { peer, len } => self.control(post, fi(peer), usize::from(len)),
            Wire::Eager {
                peer,
                addr,
                len,
                region,
                imm,
            } => match self.local(addr, u64::from(len), region, rail) {
                Some(local) => self.eager(post, fi(peer), local, imm),
                None => GONE,
            },
            Wire::Write {
                peer,
                addr,
                len,
                region,
                remote_addr,
                remote_key,
                data,
            } => {
                let target = Target {
                    peer: fi(peer),
                    addr: remote_addr,
                    key: remote_key,
                };
                match self.local(addr, len, region, rail) {
                    Some(local) => self.write(post, local.source(), target, data),
                    None => GONE,
                }
            }
            Wire::EagerCopy {
                rx,
                len,
                addr,
                region,
            } => match self.local(addr, u64::from(len), region, rail) {
                Some(local) => self.eager_copy(post, rx, local),
                None => GONE,
            },
            Wire::FlushRead { addr, region } => self.flush_read(post, addr, region),
            Wire::Put {
                target,
                addr,
                len,
                source,
            } => self.put(post, target, source, (addr, len)),
            Wire::Get {
                target,
                addr,
                len,
                region,
            } => self.get(post, target, region, (addr, len)),
        }
    }
}

impl RailPort for Port {
    #[inline]
    fn post(&mut self, post: &Post) -> Outcome {
        let outcome = self.offer(post);
        if outcome == Outcome::Busy {
            of_rail(&mut self.seen, post.lane().rail()).busy += 1;
        }
        if self.is_traced() {
            self.trace_post(post, outcome);
        }
        outcome
    }

    fn resolve(&mut self, lane: Lane, name: &[u8; EP_NAME_BYTES]) -> Result<PeerAddr, Cause> {
        self.address(lane, name)
    }

    fn on_host(&mut self, peer: PeerAddr, host: &HostName) {
        self.name_host(peer, host);
    }
}
