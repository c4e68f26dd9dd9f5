//! What the port tells the trace.

use crate::rail::Port;
use ofi_rdma::limits::{EP_NAME_BYTES, MAX_RAILS};
use ofi_rdma::{Lane, Outcome, Post};
use ofi_trace::Record;

impl Port {
    /// Writes down which endpoints there are.
    pub(crate) fn trace_endpoints(&mut self, format: u32) {
        let Some(trace) = &mut self.trace else { return };
        let rails = 0..u8::try_from(MAX_RAILS).unwrap_or(0);
        let lanes = rails
            .clone()
            .map(Lane::data)
            .chain(rails.map(Lane::control));
        for lane in lanes {
            let Some(Some(end)) = self.lanes.get(lane.index()) else {
                continue;
            };
            let own = end.peers.own();
            let name = own.bytes.get(..usize::from(own.len)).unwrap_or(&[]);
            trace.keep(lane, Record::Endpoint { name, format });
        }
        trace.flush();
    }

    #[cold]
    pub(crate) fn trace_post(&mut self, post: &Post, outcome: Outcome) {
        let own = self.lane(post.lane()).map_or(0, |end| end.own.as_raw());
        if let Some(trace) = &mut self.trace {
            trace.post(post, outcome, own);
        }
    }
}

impl super::Trace {
    /// A peer became reachable.
    #[cold]
    pub(crate) fn peer(&mut self, lane: Lane, peer: u64, name: &[u8; EP_NAME_BYTES]) {
        self.keep(lane, Record::Peer { peer, name });
    }
}
