//! What the port tells the wire trace.

use super::port::{Port, RAIL};
use crate::contexts::Owner;
use crate::peers::Peers;
use crate::trace::{Trace, said};
use efa_fabric::{CompletionFlags, TaggedEntry};
use ofi_rdma::{Cause, Lane, Outcome, Token};
use ofi_sendrecv::limits::FLUSH_BYTES;
use ofi_sendrecv::{Post, Wire};
use ofi_trace::{Op, Record};

const LANE: Lane = Lane::data(RAIL);

impl Port {
    /// Everything from now on, and first which endpoint this is.
    pub(super) fn trace_to(&mut self, mut trace: Box<Trace>) {
        trace.endpoint(LANE, &self.peers);
        trace.flush();
        self.trace = Some(trace);
    }

    /// As that of the other protocol.
    #[inline(always)]
    pub(super) const fn is_traced(&self) -> bool {
        cfg!(not(ofi_without_counters)) && self.trace.is_some()
    }

    /// The endpoint.
    pub(super) fn ends(&self) -> impl Iterator<Item = (Lane, &Peers)> {
        core::iter::once((LANE, &self.peers))
    }

    #[cold]
    pub(super) fn trace_post(&mut self, post: &Post, outcome: Outcome) {
        let own = self.own.as_raw();
        let Some(trace) = &mut self.trace else { return };
        if trace.is_repeated(LANE, post.token(), outcome) {
            return;
        }
        let connect = post.connect_bytes();
        let (op, [peer, len, data]) = match *post.wire() {
            Wire::Connect { peer, tag } => (Op::TaggedSend, [peer.0, connect.len() as u64, tag]),
            Wire::Await { tag } => (Op::TaggedRecv, [0, connect.len() as u64, tag]),
            Wire::Send { peer, tag, buffer } => (Op::TaggedSend, [peer.0, buffer.len, tag]),
            Wire::Recv { tag, buffer } => (Op::TaggedRecv, [0, buffer.len, tag]),
            Wire::FlushRead { .. } => (Op::Flush, [own, FLUSH_BYTES, 0]),
        };
        let message: &[u8] = match post.wire() {
            Wire::Connect { .. } => &connect,
            _ => &[],
        };
        let record = Record::Post {
            op,
            outcome: said(outcome),
            token: post.token().0,
            peer,
            len,
            data,
            remote_addr: 0,
            remote_key: 0,
            message,
        };
        trace.keep(LANE, record);
    }

    /// A good completion, before anything becomes of it.
    #[cold]
    pub(super) fn trace_done(&mut self, tagged: &TaggedEntry) {
        let entry = tagged.entry();
        let owner = self.contexts.owner(entry.context().cast());
        let (Some(trace), Some(Owner::Post(token) | Owner::Control(token, _))) =
            (&mut self.trace, owner)
        else {
            return;
        };
        let record = if entry.flags().contains(CompletionFlags::RECV) {
            Record::Tagged {
                token: token.0,
                tag: tagged.tag(),
                len: entry.len() as u64,
            }
        } else {
            Record::Done { token: token.0 }
        };
        trace.keep(LANE, record);
    }

    /// A completion that is an error.
    pub(super) fn trace_failed(&mut self, owner: Option<Owner>, cause: Cause) {
        let Some(trace) = &mut self.trace else { return };
        let token: Option<Token> = match owner {
            Some(Owner::Post(token) | Owner::Control(token, _)) => Some(token),
            Some(Owner::Receive(..)) | None => None,
        };
        trace.failed(LANE, token, cause);
    }
}
