//! What two engines have in common that behave alike from now on: for explorers that visit each state
//! once.
//!
//! Every structure is taken apart by name here, so that a new field does not compile before somebody
//! decides whether it matters.

use core::hash::{Hash, Hasher};

use ofi_sched::Policy;

use crate::dialect::Dialect;
use crate::engine::Engine;
use crate::port::Lane;
use crate::request::Request;

impl<D: Dialect, S: Policy + Hash> Engine<D, S> {
    /// Feeds `state` all that decides what this engine will answer from now on to the same calls with the
    /// same keys. Left out: counters, settings (the same for all engines that are compared), events and
    /// released buffers that nobody took (drain the outputs first), and numbers that only order the past.
    /// O(communicators + requests).
    pub fn hash_state<H: Hasher>(&self, state: &mut H) {
        let Self {
            config: _,
            data_rails: _,
            control_rails: _,
            policy,
            // Which ids are live is said by the communicators; how others rest decides numbers only.
            ids: _,
            comms,
            requests,
            early,
            ready,
            outbox,
            region_refs,
            released: _,
            events: _,
            counters: _,
            backoff,
            happened,
            retests: _,
            polled,
            calm,
            failed_comms,
            next_look_ms,
        } = self;
        policy.hash(state);
        for id in 0..comms.capacity() {
            let key = comms.key_at(id);
            (key, key.and_then(|key| comms.get(key))).hash(state);
        }
        let epoch = self.epoch();
        for (key, request) in requests.iter() {
            key.hash(state);
            hash_request(request, epoch, state);
        }
        for (key, item) in early.iter() {
            (key, item).hash(state);
        }
        ready.hash(state);
        for rail in 0..crate::limits::MAX_RAILS {
            let rail = u8::try_from(rail).unwrap_or(0);
            for lane in [Lane::data(rail), Lane::control(rail)] {
                (lane, outbox.ring_len(lane)).hash(state);
                outbox.on_lane(lane).for_each(|item| item.hash(state));
                backoff[lane.index()].left(*happened).hash(state);
            }
        }
        let referred = region_refs
            .iter()
            .enumerate()
            .filter(|(_, refs)| **refs > 0);
        referred.for_each(|item| item.hash(state));
        // Epochs only grow: one that is not the present one never will be.
        (*polled == epoch, *calm == epoch, failed_comms, next_look_ms).hash(state);
    }
}

fn hash_request<H: Hasher>(request: &Request, present: u32, state: &mut H) {
    let &Request {
        comm,
        region,
        kind,
        state: req_state,
        seq,
        epoch,
        need,
        have,
        queued,
        flying,
        used,
        segs_have,
        segs_want,
        eager_data,
        ctrl_seen,
        no_imm,
        len_unknown,
        rx,
        addr,
        len,
        bytes,
        wire_addr,
        keys,
    } = request;
    (comm, region, kind, req_state, seq, epoch == present).hash(state);
    (need, have, queued, flying, used, segs_have, segs_want).hash(state);
    (eager_data, ctrl_seen, no_imm, len_unknown, rx).hash(state);
    (addr, len, bytes, wire_addr, keys).hash(state);
}
