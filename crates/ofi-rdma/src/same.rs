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

impl<D: Dialect, S: Policy + Hash> Engine<D, S> {
    /// Feeds `state` all that decides what this engine will answer from now on to the same calls with the
    /// same keys. Left out: counters, settings (the same for all engines that are compared), events and
    /// released buffers that nobody took (drain the outputs first), and numbers that only order the past.
    /// O(communicators + requests).
    pub fn hash_state<H: Hasher>(&self, state: &mut H) {
        let Self {
            config: _,
            host: _,
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
            epoch,
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
        for (key, request) in requests.iter() {
            key.hash(state);
            request.hash_state(*epoch, state);
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
                backoff[lane.index()].left(self.happened()).hash(state);
            }
        }
        let referred = region_refs
            .iter()
            .enumerate()
            .filter(|(_, refs)| **refs > 0);
        referred.for_each(|item| item.hash(state));
        // Epochs only grow: one that is not the present one never will be.
        (polled == epoch, calm == epoch, failed_comms, next_look_ms).hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::datapath::Post;
    use crate::dialect::Base;
    use crate::limits::{EP_NAME_BYTES, MAX_RAILS};
    use crate::port::{Cause, EpName, Outcome, PeerAddr, RailPort, RegionId};
    use crate::request::{Kind, NO_WIRE, Request};
    use crate::{KeyWidth, SendBuf, Target};

    /// Takes everything, or is busy.
    struct Takes(Outcome);

    impl RailPort for Takes {
        fn post(&mut self, _: &Post) -> Outcome {
            self.0
        }

        fn resolve(&mut self, lane: Lane, _: &[u8; EP_NAME_BYTES]) -> Result<PeerAddr, Cause> {
            Ok(PeerAddr(u64::from(lane.rail())))
        }
    }

    struct Fold(u64);

    impl Hasher for Fold {
        fn finish(&self) -> u64 {
            self.0
        }

        fn write(&mut self, bytes: &[u8]) {
            for byte in bytes {
                self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
            }
        }
    }

    fn engine() -> Engine<Base> {
        let names = [EpName::EMPTY; MAX_RAILS];
        let config = Config {
            data_rails: 2,
            control_rails: 1,
            control_names: names,
            data_names: names,
            key_width: KeyWidth::Short,
            lengths_told: true,
            cq_data_bytes: 4,
            eager_max: Some(64),
            min_stripe_bytes: 128,
            small_max_bytes: 0,
            connect_timeout_ms: 1_000,
            stall_warn_ms: None,
            stall_fail_ms: None,
            close_messages: false,
            early_completion: false,
        };
        Engine::new(config).unwrap()
    }

    fn digest(engine: &Engine<Base>) -> u64 {
        let mut fold = Fold(0xCBF2_9CE4_8422_2325);
        engine.hash_state(&mut fold);
        fold.finish()
    }

    /// A send communicator, connected, with CONN at the provider or waiting for it.
    fn connecting(outcome: Outcome) -> Engine<Base> {
        let mut engine = engine();
        let target = Target {
            control_name: [0; EP_NAME_BYTES],
            listener_id: 5,
        };
        let mut port = Takes(outcome);
        engine.connect(0, &mut port, &target).unwrap();
        engine.pump(&mut port);
        engine
    }

    #[test]
    fn the_same_calls_lead_to_the_same_state_and_others_do_not() {
        assert_eq!(digest(&engine()), digest(&engine()));
        let (flying, waiting) = (connecting(Outcome::Accepted), connecting(Outcome::Busy));
        assert_eq!(digest(&flying), digest(&connecting(Outcome::Accepted)));
        assert_ne!(digest(&flying), digest(&engine()));
        assert_ne!(
            digest(&flying),
            digest(&waiting),
            "what waits for the provider"
        );
        assert_eq!(
            digest(&flying.clone()),
            digest(&flying),
            "a clone is the same"
        );
    }

    #[test]
    fn what_only_counts_the_past_makes_no_difference() {
        let (plain, mut polled) = (connecting(Outcome::Accepted), connecting(Outcome::Accepted));
        polled.counters.strays += 3;
        polled.news();
        assert_eq!(digest(&plain), digest(&polled));
    }

    #[test]
    fn requests_and_early_messages_count() {
        let mut engine = engine();
        let (listener, _) = engine.listen().unwrap();
        let before = digest(&engine);
        let rx = crate::RxId { rail: 0, index: 1 };
        let item = crate::engine::Early::Eager { rx, len: 9 };
        engine.early.insert(item).unwrap();
        let early = digest(&engine);
        assert_ne!(before, early);
        let region = RegionId(0);
        let request = Request::new(listener.0, Kind::Flush, (region, 1, 2), NO_WIRE, 1);
        let key = engine.new_request(request).unwrap();
        let asked = digest(&engine);
        assert_ne!(early, asked);
        engine.requests.get_mut(key).unwrap().needs(1);
        assert_ne!(asked, digest(&engine), "how far a request is");
        let buf = SendBuf {
            addr: 0,
            len: 1,
            region,
        };
        engine.isend(listener, buf).unwrap_err();
    }
}
