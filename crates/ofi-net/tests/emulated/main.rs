//! What goes wrong on EFA, on demand: each fault ends in the right error, on the communicator that it
//! hit, in time; who was not hit goes on, and nothing is left open.
#![expect(clippy::unwrap_used, reason = "test code")]

#[path = "../common/mod.rs"]
mod common;
mod copies;
mod deaf;
mod delays;
mod errors;
mod expected;
mod instances;
mod limits;
mod peers;
mod queries;
mod requests;
mod subsets;

use common::{Buffer, Side, config, connect, finish, irecv, isend, pattern, until_error};
use core::time::Duration;
use ofi_net::{CommWord, Config, NetError};
use std::time::Instant;

/// A stalled transfer fails after so long.
const STALL: Duration = Duration::from_secs(3);
/// And everything has failed after so long, on a machine that is busy with other things.
const BOUND: Duration = Duration::from_secs(20);

/// A size that only the messages have that a plan is about: plans say `size=100000..`, a stripe of it
/// on each of two rails.
const LARGE: usize = 300_000;

/// Devices of two NICs each, a rail on each NIC.
fn impatient() -> Config {
    Config {
        stall_fail_ms: Some(3000),
        connect_timeout_ms: 8000,
        force_num_rails: None,
        nic_groups: Some("rdmap0s4,rdmap0s5;rdmap0s6,rdmap0s7".to_owned()),
        ..config(2)
    }
}

/// Two transports of two rails in this process, and two connections between them.
struct Pair {
    a: Side,
    b: Side,
    /// The one that a fault is about.
    hit: (CommWord, CommWord),
    /// Another one on the same rails.
    spared: (CommWord, CommWord),
}

impl Pair {
    fn new() -> Self {
        assert_eq!(
            STALL.as_millis(),
            u128::from(impatient().stall_fail_ms.unwrap())
        );
        let (a, b) = (Side::new(impatient()), Side::new(impatient()));
        let (hit, spared) = (connect(&a.net, &b.net), connect(&a.net, &b.net));
        let pair = Self { a, b, hit, spared };
        pair.message(pair.hit, 5000);
        pair.message(pair.spared, 5000);
        pair
    }

    /// One message of `len` bytes; every byte is looked at.
    fn message(&self, comms: (CommWord, CommWord), len: usize) {
        let (a, b) = (&self.a.net, &self.b.net);
        let room = len.max(1);
        let mut source = Buffer::new(a, comms.0, pattern(len, room));
        let mut sink = Buffer::new(b, comms.1, vec![0; room]);
        let r = irecv(b, comms.1, &mut sink, 0, len);
        let s = isend(a, comms.0, &mut source, 0, len);
        let size = len as u64;
        assert_eq!(finish(a, s, b, r), (size, size));
        assert!(source.free(a, comms.0)[..len] == sink.free(b, comms.1)[..len]);
    }

    /// A message of [`LARGE`] bytes on the connection that is hit: how sender and receiver end, the
    /// receiver within its bound even if nobody tells it.
    fn struck(&self) -> (NetError, NetError) {
        let (a, b) = (&self.a.net, &self.b.net);
        let mut source = Buffer::new(a, self.hit.0, pattern(1, LARGE));
        let mut sink = Buffer::new(b, self.hit.1, vec![0; LARGE]);
        let start = Instant::now();
        let received = irecv(b, self.hit.1, &mut sink, 0, LARGE);
        let sent = isend(a, self.hit.0, &mut source, 0, LARGE);
        let at_sender = until_error("the send that is struck", || {
            let done = a.test(sent)?;
            assert_eq!(done, None, "it was not struck");
            Ok(())
        });
        let at_receiver = until_error("its receive", || b.test(received));
        assert!(start.elapsed() < BOUND, "{:?}", start.elapsed());
        let (at, mr) = (source.at(0), source.mr);
        // SAFETY: refused; the buffer is kept for good.
        let sticks = unsafe { a.isend(self.hit.0, at, 8, Some(mr)) };
        let sticks = sticks.map_err(|error| error.code());
        assert_eq!(sticks, Err(at_sender.code()), "sticks: {at_sender}");
        a.close_send(self.hit.0).unwrap();
        b.close_recv(self.hit.1).unwrap();
        source.free(a, self.spared.0);
        sink.free(b, self.spared.1);
        (at_sender, at_receiver)
    }

    /// The other connection goes on.
    fn spared_goes_on(&self) {
        for len in [8, 5000, 50_000] {
            self.message(self.spared, len);
        }
    }
}
