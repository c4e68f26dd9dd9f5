//! From a bounce buffer to its place: a read through the endpoint's own address, on the rail the
//! payload came in on (protocol 2e.3).

use ofi_pools::Key;
use ofi_sched::Policy;

use crate::batch::Batch;
use crate::dialect::Dialect;
use crate::engine::Engine;
use crate::error::{OpKind, Violation, Why};
use crate::port::RxId;

impl<D: Dialect, S: Policy> Engine<D, S> {
    /// Eager data meets its receive: copies what fits. The bounce buffer stays held until the copy
    /// completed.
    pub(super) fn start_copy(&mut self, comm: Key, key: Key, rx: RxId, len: u32) {
        let Some(request) = self.requests.get_mut(key) else {
            return;
        };
        let seq = request.seq;
        if request.eager_data || request.segments() != (0, 0) {
            let why = if request.eager_data {
                request.unexpected(Violation::Duplicate)
            } else {
                Violation::EagerAndSegments
            };
            self.released.push(rx);
            return self.fail(comm, Some(seq), Why::Protocol(why));
        }
        request.expect_no_segments();
        let bytes = len.min(request.len);
        request.bytes = bytes;
        if bytes == 0 {
            self.released.push(rx);
            self.count_one(key);
            return;
        }
        request.rx = Some(rx);
        request.queued += 1;
        if let Some(comm) = self.comms.get_mut(comm) {
            comm.queue(1);
        }
        let copy = Batch::one(OpKind::EagerCopy, key, rx.rail, bytes);
        self.ready.push(copy);
    }
}
