//! How a life ends: both sides close, or ours does in the middle; and what has to be left then: nothing.

use super::{BOUND_MS, REGION, World};
use crate::peer::Peer;

impl World {
    /// Both sides close, in any order, and nothing is left on either.
    pub(super) fn end(&mut self) {
        let mut rng = self.rng.clone();
        self.until("quiet", |world| {
            world.peer.is_idle() && world.provider.flying.is_empty()
        });
        for step in [rng.below(2), rng.below(2)] {
            if step == 0 && self.send.is_some() {
                self.close_send();
            } else if self.recv.is_some() {
                self.close_recv();
            }
        }
        self.peer.close_recv(&mut rng);
        self.close_send();
        self.close_recv();
        for _ in 0..10_000 {
            self.step();
            if self.peer.close_send() && self.engine.live_comms() == 0 {
                break;
            }
        }
        assert!(self.peer.close_send(), "the peer waits for CLOSE");
        let strays: Vec<_> = core::iter::from_fn(|| self.engine.poll_event())
            .filter(|event| matches!(event, ofi_rdma::Event::Stray(_)))
            .collect();
        assert!(strays.is_empty(), "{strays:?}");
        self.settle();
    }

    fn close_send(&mut self) {
        if let Some(comm) = self.send.take() {
            self.engine.close(comm, self.now_ms).expect("close");
        }
    }

    fn close_recv(&mut self) {
        if let Some(comm) = self.recv.take() {
            self.engine.close(comm, self.now_ms).expect("close");
        }
    }

    /// Our side closes with work in flight: nothing more may be posted that this peer cannot bear, and
    /// all is given back. The peer's process ends with it.
    pub(super) fn end_abruptly(&mut self) {
        self.close_send();
        self.close_recv();
        if let Some(listener) = self.listener.take() {
            self.engine.close(listener, self.now_ms).expect("close");
        }
        let closes = |world: &Self| {
            world
                .provider
                .flying
                .iter()
                .any(|f| f.bytes.first().is_some_and(|b| b & 0xF == 4))
        };
        for _ in 0..20_000 {
            let before = self.provider.flying.len();
            self.engine.pump(&mut self.provider);
            let only_close = self.provider.flying.len() == before || closes(self);
            assert!(
                only_close,
                "posted after close: {:?}",
                self.provider.flying.last()
            );
            let mut rng = self.rng.clone();
            self.deliver(&mut rng);
            self.network(&mut rng);
            self.rng = rng;
            while let Some(rx) = self.engine.take_released() {
                assert!(
                    self.bounce.remove(&rx.index).is_some(),
                    "{rx:?} was not held"
                );
            }
            if self.provider.flying.is_empty() && self.peer.out.is_empty() {
                break;
            }
        }
        self.now_ms += 2 * BOUND_MS;
        self.engine.tick(self.now_ms);
        // What came late found nobody: that is what strays are for.
        while self.engine.poll_event().is_some() {}
        self.peer = Peer::new(self.setup);
        self.sends.clear();
        self.recvs.clear();
        self.settle();
    }

    fn settle(&mut self) {
        assert_eq!(self.bounce.len(), 0, "receive buffers held");
        let engine = &self.engine;
        let left = [
            engine.live_comms(),
            engine.live_requests(),
            engine.posts_waiting(),
            engine.early_messages(),
        ];
        assert_eq!(
            left, [0; 4],
            "communicators, requests, posts, messages left"
        );
        assert_eq!(engine.region_refs(REGION), 0);
        assert_eq!(engine.counters().failures, 0);
    }
}
