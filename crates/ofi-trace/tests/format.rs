//! The format, held from both sides.
#![expect(clippy::unwrap_used, reason = "test code")]

use ofi_trace::{
    HEADER_BYTES, Header, Lane, Op, Outcome, RECORD_BYTES_MAX, Reader, Record, Stamped, TraceError,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// A record that owns its bytes.
#[derive(Clone, Debug)]
struct Owned {
    shape: u8,
    numbers: [u64; 6],
    bytes: Vec<u8>,
    text: String,
}

impl Owned {
    fn record(&self) -> Record<'_> {
        let [a, b, c, d, e, f] = self.numbers;
        let small = i32::from_le_bytes(a.to_le_bytes()[..4].try_into().unwrap());
        match self.shape {
            0 => Record::Endpoint {
                name: &self.bytes,
                format: 7,
            },
            1 => Record::Peer {
                peer: a,
                name: &self.bytes,
            },
            2 => Record::Post {
                op: Op::Control,
                outcome: Outcome::Failed { errno: small },
                token: a,
                peer: b,
                len: c,
                data: d,
                remote_addr: e,
                remote_key: f,
                message: &self.bytes,
            },
            3 => Record::Post {
                op: Op::TaggedRecv,
                outcome: Outcome::Busy,
                token: f,
                peer: e,
                len: d,
                data: c,
                remote_addr: b,
                remote_key: a,
                message: &[],
            },
            4 => Record::Done { token: a },
            5 => Record::Failed {
                token: even(b).then_some(a),
                errno: small,
                provider_errno: -small.wrapping_abs(),
            },
            6 => Record::RemoteWrite {
                data: a,
                len: even(b).then_some(c >> 1),
            },
            7 => Record::Control {
                message: &self.bytes,
            },
            8 => Record::Eager { data: a, len: b },
            9 => Record::Tagged {
                token: a,
                tag: b,
                len: c,
            },
            10 => Record::Note { text: &self.text },
            _ => Record::Full,
        }
    }
}

const fn even(number: u64) -> bool {
    number & 1 == 0
}

fn owned() -> impl Strategy<Value = Owned> {
    let parts = (
        0..12_u8,
        any::<[u64; 6]>(),
        vec(any::<u8>(), 0..600),
        ".{0,80}",
    );
    parts.prop_map(|(shape, numbers, bytes, text)| Owned {
        shape,
        numbers,
        bytes,
        text,
    })
}

fn stamped(owned: &Owned) -> Stamped<'_> {
    let [a, ..] = owned.numbers;
    Stamped {
        at_ns: a.rotate_left(17),
        domain: 3,
        lane: Lane::control(owned.shape),
        record: owned.record(),
    }
}

fn header() -> Header {
    Header {
        pid: 0x0102_0304,
        started_unix_ns: 0x1112_1314_1516_1718,
        host: "node1".to_owned(),
    }
}

fn file(records: &[Owned]) -> (Vec<u8>, Vec<usize>) {
    let mut bytes = Vec::new();
    header().encode(&mut bytes);
    let mut ends = Vec::new();
    for record in records {
        stamped(record).encode(&mut bytes);
        ends.push(bytes.len());
    }
    (bytes, ends)
}

proptest! {
    #[test]
    fn what_is_written_is_read(records in vec(owned(), 0..20)) {
        let (bytes, _) = file(&records);
        let (read, reader) = Reader::open(&bytes).unwrap();
        prop_assert_eq!(read, header());
        let all: Vec<_> = reader.map(Result::unwrap).collect();
        let wanted: Vec<_> = records.iter().map(stamped).collect();
        prop_assert_eq!(all, wanted);
    }

    #[test]
    fn a_cut_file_gives_what_is_whole(records in vec(owned(), 1..8), cut in any::<prop::sample::Index>()) {
        let (bytes, ends) = file(&records);
        let cut = HEADER_BYTES + cut.index(bytes.len() - HEADER_BYTES);
        let (_, mut reader) = Reader::open(&bytes[..cut]).unwrap();
        let whole = ends.iter().filter(|&&end| end <= cut).count();
        prop_assert_eq!(reader.by_ref().map(Result::unwrap).count(), whole);
        prop_assert_eq!(reader.is_cut(), cut != HEADER_BYTES && !ends.contains(&cut));
    }

    #[test]
    fn any_bytes_end(bytes in vec(any::<u8>(), 0..3000), begins_well in any::<bool>()) {
        let mut file = Vec::new();
        if begins_well {
            header().encode(&mut file);
        }
        file.extend(&bytes);
        if let Ok((_, reader)) = Reader::open(&file) {
            prop_assert!(reader.count() <= bytes.len());
        }
    }

    #[test]
    fn a_long_text_is_cut_to_a_text(text in ".{200,700}") {
        let mut bytes = Vec::new();
        header().encode(&mut bytes);
        let record = Record::Note { text: &text };
        Stamped { at_ns: 0, domain: 0, lane: Lane::data(0), record }.encode(&mut bytes);
        prop_assert!(bytes.len() <= HEADER_BYTES + RECORD_BYTES_MAX);
        let (_, mut reader) = Reader::open(&bytes).unwrap();
        let Some(Ok(Stamped { record: Record::Note { text: read }, .. })) = reader.next() else {
            return Err(TestCaseError::fail("no note"));
        };
        prop_assert!(text.starts_with(read) && (read == text || read.len() > 990));
    }
}

#[test]
fn bytes_of_version_1() {
    let mut bytes = Vec::new();
    header().encode(&mut bytes);
    let mut wanted =
        b"OFITRACE\x01\0\x40\0\x04\x03\x02\x01\x18\x17\x16\x15\x14\x13\x12\x11node1".to_vec();
    wanted.resize(64, 0);
    assert_eq!(bytes, wanted);
    let mut record = Vec::new();
    Stamped {
        at_ns: 0x0807_0605_0403_0201,
        domain: 0x0A09,
        lane: Lane::control(2),
        record: Record::Post {
            op: Op::WriteData,
            outcome: Outcome::Accepted,
            token: 1,
            peer: 2,
            len: 3,
            data: 4,
            remote_addr: 5,
            remote_key: 6,
            message: &[],
        },
    }
    .encode(&mut record);
    let mut wanted = vec![
        70, 0, 3, 0x82, 9, 10, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 2, 0, 0, 0, 0, 0,
    ];
    for number in 1..=6_u64 {
        wanted.extend(number.to_le_bytes());
    }
    assert_eq!(record, wanted);
}

#[test]
fn what_is_no_trace_is_told_apart() {
    let mut bytes = Vec::new();
    header().encode(&mut bytes);
    assert_eq!(Reader::open(b"").unwrap_err(), TraceError::NotATrace);
    let cut = Reader::open(&bytes[..63]).unwrap_err();
    assert_eq!(cut, TraceError::CutHeader { len: 63 });
    let mut later = bytes.clone();
    later[8] = 2;
    let version = Reader::open(&later).unwrap_err();
    assert_eq!(version, TraceError::Version { version: 2 });
    bytes.extend([3, 0, 1]);
    let (_, mut reader) = Reader::open(&bytes).unwrap();
    assert_eq!(
        reader.next(),
        Some(Err(TraceError::Damaged { at: 0, len: 3 }))
    );
    assert_eq!(reader.next(), None);
}

/// A record of data rail 0.
fn at_first(record: Record<'_>) -> Stamped<'_> {
    Stamped {
        at_ns: 1,
        domain: 0,
        lane: Lane::data(0),
        record,
    }
}

#[test]
fn unknown_kinds_are_passed_and_counted() {
    let mut bytes = Vec::new();
    header().encode(&mut bytes);
    let mut unknown = vec![20, 0, 200];
    unknown.resize(20, 0);
    bytes.extend(&unknown);
    bytes.extend(unknown);
    let known = at_first(Record::Done { token: 9 });
    known.encode(&mut bytes);
    let (_, mut reader) = Reader::open(&bytes).unwrap();
    assert_eq!(reader.next(), Some(Ok(known)));
    assert_eq!((reader.next(), reader.unknown()), (None, 2));
}

#[test]
fn every_lane_is_its_rail_and_its_kind() {
    for rail in 0..128 {
        let (data, control) = (Lane::data(rail), Lane::control(rail));
        assert_eq!((data.rail(), data.is_control()), (rail, false));
        assert_eq!((control.rail(), control.is_control()), (rail, true));
        // The top bit is not the rail's.
        assert_eq!(Lane::data(rail | 0x80), data);
        assert_eq!(Lane::control(rail | 0x80), control);
    }
}

#[test]
fn every_outcome_of_a_post_comes_back() {
    let failed = Outcome::Failed { errno: 5 };
    for outcome in [Outcome::Accepted, Outcome::Injected, Outcome::Busy, failed] {
        let record = Record::Post {
            op: Op::Write,
            outcome,
            token: 1,
            peer: 2,
            len: 3,
            data: 4,
            remote_addr: 5,
            remote_key: 6,
            message: &[],
        };
        let mut bytes = Vec::new();
        header().encode(&mut bytes);
        let written = at_first(record);
        written.encode(&mut bytes);
        let (_, mut reader) = Reader::open(&bytes).unwrap();
        assert_eq!(reader.next(), Some(Ok(written)));
    }
}
