//! What two sides have to agree on, or are told of: limits of eager messages, rails, key widths.
#![expect(clippy::unwrap_used, reason = "test code")]

mod common;

use common::{
    Buffer, Side, config, connect, finish, in_one_process, irecv, isend, listen, pattern,
    until_error,
};
use ofi_net::log::Level;
use ofi_net::{Code, Config};

const HIGH: usize = 60_000;
const HIGH_LIMIT: u32 = 60_000;

fn with_eager(eager_max: Option<u32>) -> Side {
    Side::new(Config {
        eager_max,
        ..config(1)
    })
}

/// A message of `len` bytes, the send first: no CTRL is known then, so it would be eager.
fn send_first(a: &Side, b: &Side, len: usize) {
    let (send, recv) = connect(&a.net, &b.net);
    let mut from = Buffer::new(&a.net, send, pattern(len, HIGH));
    let mut to = Buffer::new(&b.net, recv, vec![0; HIGH]);
    let sent = isend(&a.net, send, &mut from, 0, len);
    for _ in 0..20 {
        assert_eq!(a.net.test(sent), Ok(None));
        assert_eq!(b.net.accept(b.spare()), Ok(None));
    }
    let received = irecv(&b.net, recv, &mut to, 0, HIGH);
    let sizes = finish(&a.net, sent, &b.net, received);
    assert_eq!(sizes, (len as u64, len as u64));
    from.free(&a.net, send);
    assert!(to.free(&b.net, recv)[..len] == pattern(len, len), "{len}");
    a.net.close_send(send).unwrap();
    b.net.close_recv(recv).unwrap();
}

/// What the receiver has no buffer for is not sent eagerly, whatever the sender's own limit.
#[test]
fn the_lower_eager_limit_of_two_peers_holds() {
    in_one_process("the_lower_eager_limit_of_two_peers_holds", || {
        for (low, shown, eager) in [(Some(1024), "1024", 3), (None, "-1", 0)] {
            let (high, low) = (with_eager(Some(HIGH_LIMIT)), with_eager(low));
            for len in [0, 512, 1024, 1025, 20_000, HIGH] {
                send_first(&high, &low, len);
            }
            assert_eq!(high.net.counters(0).unwrap().eager_sends, eager);
            let warned = high.log.at(Level::Warn);
            let text = format!("OFI_NCCL_EAGER_MAX_SIZE is {HIGH} here and {shown} at a peer");
            assert!(
                warned.len() == 1 && warned[0].contains(&text),
                "once: {warned:?}"
            );
            // The other way the receiver has room for all, and nobody is told anything.
            send_first(&low, &high, 1024);
            assert!(low.log.at(Level::Warn).is_empty());
        }
    });
}

/// Trap 6: rails and control rails are not negotiated; both sides name both values.
#[test]
fn trap_06_sides_that_differ_in_rails_are_both_told() {
    in_one_process("trap_06_sides_that_differ_in_rails_are_both_told", || {
        let single = Config {
            rr_ctrl_msg: false,
            ..config(4)
        };
        let cases = [
            (config(4), config(2), "4", "2"),
            (config(4), single, "4", "1"),
        ];
        for (ours, theirs, more, fewer) in cases {
            let (a, b) = (Side::new(ours), Side::new(theirs));
            let (listener, mut handle) = listen(&b.net);
            let mut refused = None;
            let told = until_error("connect", || {
                refused = refused.take().or_else(|| b.net.accept(listener).err());
                a.net.connect(0, &mut handle)
            });
            let refused =
                refused.unwrap_or_else(|| until_error("accept", || b.net.accept(listener)));
            for error in [told, refused] {
                assert_eq!(error.code(), Code::Mismatch);
                let text = error.to_string();
                assert!(text.contains(more) && text.contains(fewer), "{text}");
            }
            // Each log says who the other is.
            for side in [&a, &b] {
                let warnings = side.log.at(Level::Warn);
                let named = warnings.iter().filter(|line| line.contains(": peer "));
                assert_eq!(named.count(), 1, "{warnings:?}");
            }
        }
    });
}
