//! The end of a domain: bounded, in dependency order, never a panic.
//!
//! Communicators still open are closed, and their operations get a moment to complete. Then endpoints
//! close first, so that the provider lets go of contexts and buffers; memory, regions, queues and
//! `fi_domain`s follow. If a provider refuses to close an endpoint, the memory that it may still write
//! is kept for the life of the process instead of being unmapped under it.

use crate::clock::{self, Deadline};
use crate::error::{Code, NetError};
use crate::progress::Core;
use crate::rail::{LaneEnd, Port};
use core::mem::ManuallyDrop;
use efa_fabric::FabricError;
use ofi_rdma::CommKey;

/// Passes without a completion before endpoints are closed: what peers did last is noticed, so that a
/// provider finds its connections in order.
const SETTLING_PASSES: u32 = 64;

impl Core {
    /// Closes all communicators and makes progress until their operations have completed, at most
    /// for `bound_ms`.
    pub(crate) fn drain_all(&mut self, bound_ms: u64) {
        let open: Vec<CommKey> = self.open.drain().map(|(comm, _)| comm).collect();
        let now_ms = clock::now_ms();
        for comm in open {
            // An error says that it is closed already.
            let _closed = self.close_in_engine(comm, now_ms).is_ok();
        }
        self.drain();
        let deadline = Deadline::after(bound_ms);
        let mut quiet = 0;
        while quiet < SETTLING_PASSES && !deadline.is_over() {
            quiet = if self.progress() == 0 { quiet + 1 } else { 0 };
        }
        while self.engine.live_comms() > 0 && !deadline.is_over() {
            if self.progress() == 0 {
                std::thread::yield_now();
            }
        }
        self.publish();
    }

    /// Closes everything in order.
    ///
    /// # Errors
    /// An endpoint that would not close; its memory is kept.
    pub(crate) fn shut_down(self) -> Result<(), NetError> {
        let Self { port, cqs, .. } = self;
        let Port {
            lanes,
            receives,
            sends,
            regions,
            contexts,
            flush_page,
            registrar,
            ..
        } = port;
        let mut refused = None;
        for end in lanes.into_iter().flatten() {
            if let Err(error) = close_end(end) {
                refused.get_or_insert(error);
            }
        }
        let memory = (receives, sends, contexts, flush_page);
        let Some(error) = refused else {
            drop((memory, regions, cqs, registrar));
            return Ok(());
        };
        let _kept = ManuallyDrop::new((memory, regions, cqs, registrar));
        Err(NetError::fabric(Code::EndpointOpen, &error))
    }
}

fn close_end(end: LaneEnd) -> Result<(), FabricError> {
    let LaneEnd {
        endpoint, peers, ..
    } = end;
    let closed = endpoint.close();
    match closed {
        Ok(()) => {
            drop(peers);
            Ok(())
        }
        Err(failed) => {
            let _kept = ManuallyDrop::new((failed.object, peers));
            Err(failed.error)
        }
    }
}
