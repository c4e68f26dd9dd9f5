//! What the port tells the trace.

use super::Trace;
use crate::peers::Peers;
use crate::rail::Port;
use ofi_rdma::limits::MAX_RAILS;
use ofi_rdma::{Lane, Outcome, Post};

impl Port {
    /// Everything from now on, and first which endpoints there are.
    pub(crate) fn trace_to(&mut self, trace: Option<Box<Trace>>) {
        self.trace = trace.map(|mut trace| {
            self.ends()
                .for_each(|(lane, peers)| trace.endpoint(lane, peers));
            trace.flush();
            trace
        });
    }

    /// Whether what happens is written down. A build with `--cfg ofi_without_counters` never does: what the
    /// question costs is measured against it.
    #[inline(always)]
    pub(crate) const fn is_traced(&self) -> bool {
        cfg!(not(ofi_without_counters)) && self.trace.is_some()
    }

    /// The endpoints, data first.
    pub(crate) fn ends(&self) -> impl Iterator<Item = (Lane, &Peers)> {
        let rails = 0..u8::try_from(MAX_RAILS).unwrap_or(0);
        let data = rails.clone().map(Lane::data);
        let lanes = data.chain(rails.map(Lane::control));
        lanes.filter_map(|lane| Some((lane, &self.lane(lane)?.peers)))
    }

    #[cold]
    pub(crate) fn trace_post(&mut self, post: &Post, outcome: Outcome) {
        let own = self.lane(post.lane()).map_or(0, |end| end.own.as_raw());
        if let Some(trace) = &mut self.trace {
            trace.post(post, outcome, own);
        }
    }
}
