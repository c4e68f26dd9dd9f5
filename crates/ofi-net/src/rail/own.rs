//! What a domain does with its own memory: eager payloads go to their place, and flushes.
//!
//! A payload for ordinary memory is copied by the processor, in the call: a read through our own address, which
//! the protocol describes (2e.3), costs two turns of a socket on TCP and a round trip through the NIC on EFA, and no
//! peer can tell the difference. Memory of a device is read through our own address: only the network reaches it.

use super::{GONE, Local, NO_LANE, Port, pointer};
use crate::contexts::Owner;
use crate::region::RegionView;
use efa_fabric::{Sink, Target};
use ofi_rdma::limits::FLUSH_BYTES;
use ofi_rdma::{Outcome, Post, RegionId, RxId};

/// Each rail reads its flushes into its own cache line of the flush page (protocol 2e.7).
const FLUSH_LINE_BYTES: u64 = 64;

impl Port {
    /// An eager payload goes from the receive buffer that holds it to the caller's.
    pub(super) fn eager_copy(&mut self, post: &Post, rx: RxId, to: Local) -> Outcome {
        if to.host {
            return self.copy_here(rx, to.sink);
        }
        match self.held_payload(rx) {
            Some(from) => self.read_self(post, to.sink, from),
            None => GONE,
        }
    }

    fn copy_here(&self, rx: RxId, to: Sink) -> Outcome {
        let place = self.receives.held(rx.rail, rx.index).and_then(|held| {
            let place = self.receives.pool(held.lane()).place(held.slot()).ok()?;
            (to.len <= place.bytes).then_some(place)
        });
        let copy = |from: &[u8]| {
            // SAFETY: the sink lies within a region that the caller registered as host memory, and is
            // the transport's until the request is done; it is another mapping than ours.
            unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), to.ptr, from.len()) };
        };
        let copied = place.and_then(|place| {
            // SAFETY: the engine holds this buffer, which is not posted before it gives it back, so
            // that nobody writes there (fi_msg(3): its receive has completed).
            unsafe { place.block.pages().with_bytes(place.offset, to.len, copy) }
        });
        copied.map_or(GONE, |()| Outcome::Completed)
    }

    /// Where a held eager payload lies, as a read through our own address names it.
    fn held_payload(&self, rx: RxId) -> Option<(u64, u64)> {
        let held = self.receives.held(rx.rail, rx.index)?;
        let place = self.receives.pool(held.lane()).place(held.slot()).ok()?;
        let view: &RegionView = place.block.view();
        Some((view.wire_addr(place.address as u64), view.key(rx.rail)))
    }

    /// A few bytes of what was received are read through our own address: once that is done, all that came
    /// before it is visible.
    pub(super) fn flush_read(&mut self, post: &Post, addr: u64, region: RegionId) -> Outcome {
        let rail = post.lane().rail();
        let Some(view) = self.regions.view(region) else {
            return GONE;
        };
        let (addr, len) = view.within(addr, FLUSH_BYTES as usize);
        let from = (view.wire_addr(addr), view.key(rail));
        let line = self.flush_page.pages().addr() + FLUSH_LINE_BYTES * u64::from(rail);
        let desc = self.flush_page.view().desc(rail);
        let ptr = pointer(line);
        self.read_self(post, Sink { ptr, len, desc }, from)
    }

    /// A read through our own address: `from` is address and key of our memory.
    fn read_self(&mut self, post: &Post, sink: Sink, from: (u64, u64)) -> Outcome {
        let lane = post.lane();
        let Some(peer) = self.lane(lane).map(|end| end.own) else {
            return NO_LANE;
        };
        let target = Target {
            peer,
            addr: from.0,
            key: from.1,
        };
        self.with_context(lane, Owner::Post(post.token()), |endpoint, context, _| {
            // SAFETY: the sink is the flush page, or a caller's buffer that is the network's until
            // the request is done; the source is a receive buffer of ours that the engine holds, or
            // the caller's buffer that is flushed.
            unsafe { endpoint.post_read(sink, target, context) }
        })
    }
}
