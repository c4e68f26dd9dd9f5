//! Traps of buffers and queues.

use crate::bench::{Bench, config, ctrl};
use ofi_rdma::{Outcome, Wire};

/// A receiver runs 128 ahead on each communicator: its CTRLs are kept, none of the buffers they came in.
#[test]
fn trap_19_early_ctrls_hold_no_receive_buffer() {
    let mut a = Bench::new(config(1, 1));
    let comm = a.sender(1, 1);
    for seq in 0..128 {
        a.engine
            .on_control(&ctrl(2, seq, 0, 64, 0x9000 + u64::from(seq), &[seq]));
    }
    assert_eq!(
        (a.engine.early_messages(), a.engine.take_released()),
        (128, None)
    );
    for seq in 0..128 {
        let req = a.isend(comm, 0x1000, 64);
        let write = a.post();
        let Wire::Write {
            remote_addr,
            remote_key,
            ..
        } = write.wire
        else {
            panic!("{write:?}")
        };
        assert_eq!((remote_addr, remote_key), (0x9000 + seq, seq));
        a.engine.on_local(write.token);
        a.done(req, 64);
    }
    assert_eq!(a.engine.early_messages(), 0);
}

/// Whoever makes progress posts what waits, of whichever communicator: nothing depends on calls on the
/// one it belongs to.
#[test]
fn trap_25_what_waits_is_posted_by_any_progress() {
    let mut a = Bench::new(config(2, 2));
    let comm = a.sender(2, 2);
    a.port.answers.push_back(Outcome::Busy);
    let req = a.isend(comm, 0x1000, 64);
    assert_eq!((a.port.posts.len(), a.engine.posts_waiting()), (0, 1));
    // Another communicator begins, and its pump takes the first one's eager message along.
    let target = ofi_rdma::Target {
        control_name: crate::bench::name(b'P', ofi_rdma::Lane::control(0)),
        listener_id: 0,
    };
    a.engine.connect(0, &mut a.port, &target).expect("connect");
    let posts = a.posts();
    assert!(
        posts
            .iter()
            .any(|post| matches!(post.wire, Wire::Eager { .. })),
        "the eager message was left: {posts:?}"
    );
    assert_eq!((posts.len(), a.engine.posts_waiting()), (2, 0));
    a.pending(req);
}
