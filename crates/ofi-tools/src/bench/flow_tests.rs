//! Flows over a network in the process, healthy and faulty.

use super::*;
use crate::abi::Region;
use crate::bench::test_net::{Fault, TestNet};
use crate::coord::Board;

const SOURCE: Source = Source {
    seed: 1,
    epoch: 1,
    from: 0,
    to: 0,
    comm: 0,
};

fn spec(size: usize) -> Spec {
    Spec {
        size,
        window: 4,
        check: true,
        random: false,
        flush: false,
        lax_sizes: false,
        source: SOURCE,
    }
}

fn both_ways(net: &TestNet, spec: Spec, total: u64) -> Result<(u64, u64), Fail> {
    let board = Board::new();
    let (sc, rc) = (SendComm::dangling(), RecvComm::dangling());
    let place = |sending| Place {
        sending,
        peer: 0,
        comm: 0,
        device: 0,
    };
    let room = Spec::stride(spec.size) * spec.window;
    let buffers = [room, room].map(|n| Buffer::unregistered(Region::map(n).unwrap()));
    let mut flows = [
        Flow::new(
            (End::Send(&sc), place(true)),
            &buffers[0],
            spec,
            total,
            board.gauge(String::new(), total),
        ),
        Flow::new(
            (End::Recv(&rc), place(false)),
            &buffers[1],
            spec,
            total,
            board.gauge(String::new(), total),
        ),
    ];
    run(net, &mut flows, || {})?;
    Ok((flows[1].bytes, flows[0].retries + flows[1].retries))
}

#[test]
fn messages_arrive_whole_through_refusals() {
    let (bytes, retries) = both_ways(&TestNet::new(Fault::None), spec(100), 50).unwrap();
    assert_eq!(bytes, 5000);
    assert!(retries > 0, "the network refuses every third post");
}

#[test]
fn random_sizes_are_known_to_both_sides() {
    let spec = Spec {
        random: true,
        ..spec(5000)
    };
    let (bytes, _) = both_ways(&TestNet::new(Fault::None), spec, 200).unwrap();
    assert!(bytes > 0 && bytes < 200 * 5000);
}

#[test]
fn empty_messages_are_messages() {
    assert_eq!(
        both_ways(&TestNet::new(Fault::None), spec(0), 9).unwrap().0,
        0
    );
}

#[test]
fn every_receive_is_flushed_when_asked_for() {
    let net = TestNet::new(Fault::None);
    both_ways(
        &net,
        Spec {
            flush: true,
            ..spec(10)
        },
        20,
    )
    .unwrap();
    assert_eq!(net.flushes.get(), 20);
}

#[test]
fn a_flipped_bit_is_found_at_its_byte() {
    let e = both_ways(&TestNet::new(Fault::Flip), spec(100), 20).unwrap_err();
    assert!(
        matches!(
            e,
            Fail::WrongByte {
                message: 5,
                at: 3,
                len: 100,
                ..
            }
        ),
        "{e}"
    );
}

#[test]
fn writes_beside_the_message_are_found() {
    let e = both_ways(&TestNet::new(Fault::Overrun), spec(100), 20).unwrap_err();
    assert!(
        matches!(
            e,
            Fail::Guard {
                message: 5,
                at: 100,
                ..
            }
        ),
        "{e}"
    );
    let e = both_ways(&TestNet::new(Fault::Underrun), spec(100), 20).unwrap_err();
    assert!(
        matches!(
            e,
            Fail::Guard {
                message: 5,
                at: -1,
                ..
            }
        ),
        "{e}"
    );
}

#[test]
fn a_wrong_size_is_found_and_lax_sizes_bound_it_by_the_room() {
    let net = || TestNet::new(Fault::Size);
    let e = both_ways(&net(), spec(100), 20).unwrap_err();
    assert!(
        matches!(
            e,
            Fail::Size {
                message: 5,
                reported: 101,
                sent: 100,
                ..
            }
        ),
        "{e}"
    );
    let lax = Spec {
        lax_sizes: true,
        ..spec(100)
    };
    assert!(
        matches!(both_ways(&net(), lax, 20), Err(Fail::Size { .. })),
        "beyond the room"
    );
}

#[test]
fn a_send_buffer_that_changes_is_found() {
    let e = both_ways(&TestNet::new(Fault::Scribble), spec(100), 20).unwrap_err();
    assert!(
        matches!(
            e,
            Fail::SendChanged {
                message: 5,
                at: 0,
                ..
            }
        ),
        "{e}"
    );
}

#[test]
fn a_failed_call_names_the_message() {
    let e = both_ways(&TestNet::new(Fault::Code), spec(100), 20).unwrap_err();
    assert!(
        matches!(
            e,
            Fail::Call {
                error: CallError {
                    call: "isend",
                    code: 2
                },
                ..
            }
        ),
        "{e}"
    );
}
