//! What the last records of both ends (`OFI_NCCL_TRACE_RING`) say of a message, and what they decide.

use super::*;
use ofi_net::dump::Trace;
use ofi_rdma::wire::ctrl::Ctrl;
use ofi_rdma::{Base, Dialect as _, KeyWidth};
use ofi_trace::{Lane, Op, Outcome, Record, Stamped};

/// When dumps are written, milliseconds since 1970.
const DUMPED_MS: u64 = 5000;
const LANE: Lane = Lane::control(0);
const PEER: u64 = 3;
/// The message that is waited for, and the receiver's next number once it has posted it.
const SEQ: u32 = 8;

/// What a rank did, each so many milliseconds before its dump; it knows one peer, `of`.
fn ring(of: u32, did: &[(u64, Record<'_>)]) -> Trace {
    let name = [2, 0, 0, 7, 10, 0, 0, u8::try_from(of).unwrap()];
    let endpoint = Record::Endpoint {
        name: &name,
        format: 2,
    };
    let peer = Record::Peer {
        peer: PEER,
        name: &name,
    };
    let names = [(LANE, endpoint), (Lane::data(0), endpoint), (LANE, peer)];
    let names = names.map(|(lane, record)| (lane, DUMPED_MS, record));
    let did = did
        .iter()
        .map(|&(before_ms, record)| (LANE, before_ms, record));
    let records = names
        .into_iter()
        .chain(did)
        .map(|(lane, before_ms, record)| {
            let mut bytes = Vec::new();
            let stamped = Stamped {
                at_ns: (DUMPED_MS - before_ms) * 1_000_000,
                domain: 0,
                lane,
                record,
            };
            stamped.encode(&mut bytes);
            bytes.iter().map(|byte| format!("{byte:02x}")).collect()
        })
        .collect();
    Trace {
        started_unix_ns: 0,
        lost: 7,
        records,
    }
}

/// The CTRL of a message, for the sender's communicator of that number.
fn ctrl(sender: u32, seq: u32) -> Vec<u8> {
    let ctrl = Ctrl {
        no_completion: false,
        seq: u16::try_from(seq).unwrap(),
        comm_id: sender,
        buff_len: 4096,
        buff_addr: 0xABCD,
        keys: [0x5EC2E7; 4],
    };
    let mut bytes = [0; 48];
    let len = ctrl.encode(1, KeyWidth::Long, &mut bytes);
    bytes[..len].to_vec()
}

fn post(op: Op, data: u64, message: &[u8]) -> Record<'_> {
    Record::Post {
        op,
        outcome: Outcome::Accepted,
        token: 77,
        peer: PEER,
        len: 4096,
        data,
        remote_addr: 0x7000,
        remote_key: 0x5EC2E7,
        message,
    }
}

/// The CQ data of a message for the receiver's communicator.
fn imm(receiver: u32, seq: u32) -> u64 {
    Base::encode_imm(1, receiver, u16::try_from(seq).unwrap()).into()
}

/// The sender waits for a receive that is posted: communicator 1 of rank 1, 2 of rank 2.
fn awaits_ctrl(sender: Trace, receiver: Trace) -> [Dump; 2] {
    let mut dumps = [
        rank(1, vec![stuck(Kind::Send, (1, 2), SEQ + 1)]),
        rank(2, vec![comm(Kind::Recv, (2, 1), SEQ + 1)]),
    ];
    dumps[0].domains[0].trace = Some(sender);
    dumps[1].domains[0].trace = Some(receiver);
    dumps
}

fn page(dumps: &[Dump]) -> String {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), dumps);
    let output = ofi(&[], dir.path());
    String::from_utf8(output.stdout).unwrap()
}

const DONE: Record<'static> = Record::Done { token: 77 };

#[test]
fn where_a_message_is_lost_is_told_by_both_ends() {
    let message = ctrl(1, SEQ);
    let posted = (4000, post(Op::Control, 0, &message));
    let old = ctrl(1, SEQ - 1);
    let before = (4100, Record::Control { message: &old });
    let dumps = awaits_ctrl(ring(2, &[before]), ring(1, &[posted, (3900, DONE)]));
    let (kind, who, ..) = verdict(&dumps);
    assert_eq!(kind, "network");
    assert_eq!(who, ["rank 2", "rank 1"], "from who gave it away");
    let said = page(&dumps);
    let line = "its CTRL was given to the provider of rank 2 4000 ms before its dump, completed, and has \
                not come to rank 1";
    for part in [
        line,
        "rank 1: over its rails, 4100 ms before its dump: ctl0 < CTRL seq=7",
    ] {
        assert!(said.contains(part), "{said}");
    }
    // Neither keys nor addresses of memory are shown.
    assert!(!said.contains("5ec2e7") && !said.contains("7000"), "{said}");
}

/// Who posts just now what was waited for a long time is late, and no fault of the network.
#[test]
fn who_was_late_is_told_from_what_was_lost() {
    let message = ctrl(1, SEQ);
    let late = awaits_ctrl(
        ring(2, &[]),
        ring(1, &[(40, post(Op::Control, 0, &message))]),
    );
    let (kind, _, _, status) = verdict(&late);
    assert_eq!((kind.as_str(), status), ("none", 0), "{}", page(&late));
    // Others that stand still behind it are told whom they wait for.
    let mut behind = late.to_vec();
    behind.push(rank(3, vec![stuck(Kind::Recv, (3, 1), 9)]));
    behind[0].domains[0].comms.push(comm(Kind::Send, (1, 3), 8));
    behind[0].domains[0].comms[1].id = 4;
    behind[2].domains[0].comms[0].peer_id = 4;
    let (kind, who, text, status) = verdict(&behind);
    assert_eq!((kind.as_str(), status), ("process", 1), "{}", page(&behind));
    assert_eq!(who, ["rank 2"]);
    assert!(text.contains("is late"), "{text}");
    // A second is time enough for a network.
    let lost = awaits_ctrl(
        ring(2, &[]),
        ring(1, &[(1100, post(Op::Control, 0, &message))]),
    );
    assert_eq!(verdict(&lost).0, "network");
}

#[test]
fn data_is_followed_to_the_segment_that_is_missing() {
    let (sent, came) = (imm(1, SEQ), imm(1, SEQ - 1));
    let mut dumps = [
        rank(1, vec![stuck(Kind::Recv, (1, 2), SEQ + 1)]),
        rank(2, vec![comm(Kind::Send, (2, 1), SEQ + 1)]),
    ];
    let arrived = Record::RemoteWrite {
        data: came,
        len: Some(4096),
    };
    dumps[0].domains[0].trace = Some(ring(2, &[(4500, arrived)]));
    dumps[1].domains[0].trace = Some(ring(1, &[(4400, post(Op::WriteData, sent, &[]))]));
    let (kind, who, ..) = verdict(&dumps);
    assert_eq!(
        (kind.as_str(), who),
        ("network", vec!["rank 2".to_owned(), "rank 1".to_owned()])
    );
    let said = page(&dumps);
    let line = "its data was given to the provider of rank 2 4400 ms before its dump, not completed, and has \
                not come to rank 1";
    assert!(said.contains(line), "{said}");
    // The peer is silent: what came of it last is all that there is.
    dumps[1].answers_ns = None;
    let said = page(&dumps);
    assert!(
        said.contains("what came of it last, 4500 ms before its dump: ctl0 < segment"),
        "{said}"
    );
}

/// Numbers come again after 1024 messages: an older message of that number is not meant.
#[test]
fn an_earlier_message_of_that_number_is_not_meant() {
    let (this, other) = (ctrl(1, SEQ), ctrl(1, SEQ + 512));
    let then = [
        (4900, post(Op::Control, 0, &this)),
        (4890, DONE),
        (4000, post(Op::Control, 0, &other)),
        (3990, DONE),
    ];
    let said = page(&awaits_ctrl(ring(2, &[]), ring(1, &then)));
    assert!(!said.contains("its CTRL was given"), "{said}");
}

/// A ring of which nothing can be read leaves the verdict as it is.
#[test]
fn damaged_records_are_no_evidence() {
    let damaged = || Trace {
        started_unix_ns: u64::MAX,
        lost: 0,
        records: vec!["zz".to_owned(), "0".repeat(9)],
    };
    let dumps = awaits_ctrl(damaged(), damaged());
    assert_eq!(verdict(&dumps).0, "network");
    let message = ctrl(1, SEQ);
    let mut far = ring(1, &[(4000, post(Op::Control, 0, &message))]);
    far.started_unix_ns = u64::MAX;
    let dumps = awaits_ctrl(ring(2, &[]), far);
    assert!(!page(&dumps).is_empty());
}
