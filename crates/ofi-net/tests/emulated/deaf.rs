//! A provider that takes no receive: nobody can reach this side, which says so, and fails where that is asked for.

use super::{STALL, impatient};
use crate::Side;
use crate::common::emulated::under_plan;
use ofi_net::log::Level;
use ofi_net::{Code, Config};
use ofi_trace::stats::{Snapshot, Total};
use std::time::Instant;

/// An accept that nobody can get through to: one warning with these words, then this error.
fn deaf(config: Config, warned: &[&str], code: Code) {
    let limit_ms = u64::try_from(STALL.as_millis()).unwrap();
    let side = Side::new(Config {
        stall_warn_ms: Some(limit_ms / 2),
        stall_fail_ms: Some(limit_ms),
        ..config
    });
    // Not `until`, which asks all listeners of this side, each of which fails.
    let start = Instant::now();
    let error = loop {
        match side.net.accept(side.spare()) {
            Err(error) => break error,
            Ok(accepted) => assert_eq!(accepted, None),
        }
        assert!(start.elapsed() < 20 * STALL, "accept goes on");
        std::thread::yield_now();
    };
    assert_eq!(error.code(), code, "{error}");
    let lines = side.log.at(Level::Warn);
    let about = lines
        .iter()
        .filter(|line| warned.iter().all(|words| line.contains(words)));
    assert_eq!(about.count(), 1, "{lines:?}");
}

#[test]
fn no_receive_of_a_control_message() {
    under_plan(
        "deaf::no_receive_of_a_control_message",
        "eagain on=recv burst=forever at=1",
        || {
            let words = ["OFI-W0611", "rail 0", "no receive could be posted"];
            for endpoint_per_comm in [false, true] {
                let config = Config {
                    endpoint_per_comm,
                    ..impatient()
                };
                deaf(config, &words, Code::Stalled);
            }
        },
    );
}

/// Receives that only fail: each lane says that it is given up, once.
fn given_up() {
    let dir = tempfile::tempdir().unwrap();
    for rail in [
        "control rail 0",
        "control rail 1",
        "data rail 0",
        "data rail 1",
    ] {
        let config = Config {
            stats_dir: Some(dir.path().to_str().unwrap().to_owned()),
            ..impatient()
        };
        deaf(config, &["OFI-W0612", rail], Code::Stalled);
    }
    let files = std::fs::read_dir(dir.path()).unwrap();
    let counted = files.map(|file| {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        Snapshot::read(&bytes).unwrap().total(Total::LanesGivenUp)
    });
    assert_eq!(counted.collect::<Vec<_>>(), [4; 4]);
}

#[test]
fn receives_that_are_refused_for_good() {
    let name = "deaf::receives_that_are_refused_for_good";
    under_plan(name, "refuse on=recv from=1 errno=EIO", given_up);
}

#[test]
fn no_receive_of_a_connect_message() {
    under_plan(
        "deaf::no_receive_of_a_connect_message",
        "eagain on=recv burst=forever at=1",
        || {
            let words = ["OFI-W0609", "listener", "operations wait for the provider"];
            deaf(crate::common::sendrecv(), &words, Code::Stalled);
        },
    );
}

/// As long as a burst lasts nothing comes in, and that is no fault.
#[test]
fn receives_that_are_taken_in_the_end() {
    under_plan(
        "deaf::receives_that_are_taken_in_the_end",
        "eagain on=recv burst=2000 at=1",
        || {
            for config in [impatient(), crate::common::sendrecv()] {
                let (a, b) = (Side::new(config.clone()), Side::new(config));
                let _connected = crate::connect(&a.net, &b.net);
                assert_eq!(a.log.at(Level::Warn), [""; 0]);
                assert_eq!(b.log.at(Level::Warn), [""; 0]);
            }
        },
    );
}
