//! What only delays: nothing fails, and every byte is right.

use super::Pair;
use crate::common::emulated::under_plan;
use crate::common::{Lcg, sendrecv};
use crate::{Buffer, Side, connect, finish, irecv, isend, pattern};

/// Messages of all kinds on two connections.
fn traffic() {
    let pair = Pair::new();
    let mut lcg = Lcg(7);
    for _ in 0..60 {
        let len = [0, 1, 100, 8000, 40_000, 400_000][lcg.below(6)];
        pair.message([pair.hit, pair.spared][lcg.below(2)], len);
    }
}

/// Many receives posted before their sends, on one connection.
fn deep() {
    let pair = Pair::new();
    let (a, b) = (&pair.a.net, &pair.b.net);
    // Written, not sent: the fabric `efa` keeps the order of messages.
    let (len, each) = (400_000, 20_000);
    let mut source = Buffer::new(a, pair.hit.0, pattern(9, len));
    let mut sink = Buffer::new(b, pair.hit.1, vec![0; len]);
    for _ in 0..5 {
        sink.bytes.fill(0);
        let pieces = 0..20;
        let receives: Vec<_> = pieces
            .clone()
            .map(|i| irecv(b, pair.hit.1, &mut sink, i * each, each))
            .collect();
        let sends: Vec<_> = pieces
            .map(|i| isend(a, pair.hit.0, &mut source, i * each, each))
            .collect();
        for (s, r) in sends.into_iter().zip(receives) {
            assert_eq!(finish(a, s, b, r), (each as u64, each as u64));
        }
        assert!(*source.bytes == *sink.bytes);
    }
    source.free(a, pair.hit.0);
    sink.free(b, pair.hit.1);
}

/// The other protocol.
fn sendrecv_traffic() {
    let (a, b) = (Side::new(sendrecv()), Side::new(sendrecv()));
    let comms = connect(&a.net, &b.net);
    for len in [0, 1, 5000, 8928, 8929, 300_000]
        .into_iter()
        .cycle()
        .take(30)
    {
        let room = len.max(1);
        let mut source = Buffer::new(&a.net, comms.0, pattern(len, room));
        let mut sink = Buffer::new(&b.net, comms.1, vec![0; room]);
        let r = irecv(&b.net, comms.1, &mut sink, 0, len);
        let s = isend(&a.net, comms.0, &mut source, 0, len);
        assert_eq!(finish(&a.net, s, &b.net, r), (len as u64, len as u64));
        assert!(source.free(&a.net, comms.0)[..len] == sink.free(&b.net, comms.1)[..len]);
    }
}

macro_rules! delays {
    ($($name:ident: $plan:literal, $scenario:ident, $shows:expr;)*) => { $(
        #[test]
        fn $name() {
            let name = concat!("delays::", stringify!($name));
            let shows: fn(&efa_emu::stats::NicCounts) -> u64 = $shows;
            for process in under_plan(name, $plan, $scenario) {
                assert!(shows(&process.total()) > 0, "the plan did nothing: {process}");
                let total = process.total();
                // Receives that are posted when an endpoint is closed.
                let flushed = total.statuses[1];
                assert_eq!(total.errors, flushed, "{process}");
            }
        }
    )* };
}

delays! {
    operations_that_overtake: "reorder window=64; delay uniform=0us..200us", deep, |n| n.reordered;
    busy_posts: "eagain chance=20% burst=20; eagain on=recv chance=5% burst=5", traffic, |n| n.again;
    late_local_completions: "late chance=50% by=1ms", traffic, |n| n.writes_data;
    late_remote_completions: "late side=remote chance=50% by=1ms", traffic, |n| n.writes_data;
    a_slow_nic: "speed nic=1 rate=200Mbps; delay nic=1 exp=100us", traffic, |n| n.writes_data;
    queues_that_seem_empty: "empty chance=60%", traffic, |n| n.writes_data;
    receivers_that_are_not_ready: "rnr chance=30% tries=5", traffic, |n| n.rnr;
    everything_with_sendrecv: "reorder window=16; eagain chance=30% burst=5; rnr chance=20% tries=3; late chance=20% by=200us", sendrecv_traffic, |n| n.again;
}
