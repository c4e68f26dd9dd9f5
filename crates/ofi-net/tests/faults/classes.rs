//! A traffic class that the provider refuses: one warning, and bytes that go without it.

use super::{assert_left, meddling, message, state};
use crate::common::{Side, config, in_one_process, sendrecv, until};
use ofi_net::log::Level;
use ofi_net::{Config, TrafficClass};
use state::with;

/// Expedited forwarding.
const NUMBER: u32 = 184;

/// Refused for good it is not asked for again; where descriptors are short it is, and is had then.
fn refused(base: Config, errno: i32) {
    let side = Side::new(base);
    let class = Some(TrafficClass::new(NUMBER).unwrap());
    let mut handle = [0; 128];
    let listener = side.net.listen(0, &mut handle).unwrap();
    with(|state| state.arm(1, errno, Some("fi_endpoint")));
    let (mut send, mut recv) = (None, None);
    let comms = until("connect with a class, and accept", || {
        send = send.or_else(|| side.net.connect_classed(0, class, &mut handle).unwrap());
        recv = recv.or_else(|| side.net.accept(listener).unwrap());
        send.zip(recv)
    });
    side.net.close_listen(listener).unwrap();
    assert_eq!(with(|state| state.failed), Some("fi_endpoint"));
    with(|state| state.strike(None));
    message(&side, &side, comms, 5000);
    let is_short = errno == libc::EMFILE;
    let again = side.net.listen_classed(0, class, &mut handle).unwrap();
    side.net.close_listen(again).unwrap();
    assert_eq!(side.net.domains(0), Ok(1 + usize::from(is_short)));
    let warnings = side.log.at(Level::Warn);
    let [line] = &warnings[..] else {
        panic!("{} warnings: {warnings:?}", warnings.len());
    };
    let name = efa_fabric::Errno::from_code(errno).to_string();
    for part in [
        "OFI-W0207 a traffic class cannot be had: device 0 (",
        "): class 0x12e: ",
        &name,
        "; likely: the provider of these NICs has no traffic classes; do: ask for none",
    ] {
        assert!(line.contains(part), "{part}: {line}");
    }
    side.net.close_send(comms.0).unwrap();
    side.net.close_recv(comms.1).unwrap();
    drop(side);
    assert_left(&[], "a class that was refused");
}

#[test]
fn a_class_that_is_refused_is_one_warning_and_bytes_go_without() {
    const NAME: &str = "classes::a_class_that_is_refused_is_one_warning_and_bytes_go_without";
    in_one_process(NAME, || {
        meddling::install();
        for base in [config(2), sendrecv()] {
            for errno in [libc::EOPNOTSUPP, libc::EMFILE] {
                refused(base.clone(), errno);
            }
        }
    });
}
