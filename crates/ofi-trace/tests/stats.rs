//! The file of counters: its bytes stay what they are, and any bytes are read.

use ofi_trace::stats::{
    COMM_WORDS, CommAt, FILE_WORDS, HEAD_WORDS, HW_WORDS, HeadAt, MAGIC, RAIL_WORDS, RailAt, Side,
    Snapshot, State, StatsError, Total, comm_word, hw_word, rail_word, text_words, total_word,
};
use proptest::prelude::*;

/// A file with one rail and one communicator, as words.
fn words() -> Vec<u64> {
    let mut words = vec![0; FILE_WORDS];
    let mut set = |at: usize, value: u64| words[at] = value;
    for (at, value) in [
        (HeadAt::Magic, MAGIC),
        (HeadAt::Version, 1),
        (HeadAt::Words, FILE_WORDS as u64),
        (HeadAt::Rails, 64),
        (HeadAt::Comms, 512),
        (HeadAt::Pid, 4321),
        (HeadAt::State, State::Live as u64),
        (HeadAt::CommsOpen, 1),
    ] {
        set(at as usize, value);
    }
    for (number, (total, ..)) in (100..).zip(Total::ALL) {
        set(total_word(total), number);
    }
    set(rail_word(3, RailAt::Used), 1);
    set(rail_word(3, RailAt::Rail), 2);
    set(rail_word(3, RailAt::BytesSent), 77);
    set(hw_word(3, 1) + 4, 5);
    set(hw_word(3, 1) + 5, 9);
    for (at, word) in (hw_word(3, 1)..).zip(text_words::<4>("retrans_bytes")) {
        set(at, word);
    }
    for (at, word) in (rail_word(3, RailAt::Nic)..).zip(text_words::<6>("rdmap0s6")) {
        set(at, word);
    }
    for (at, value) in [
        (CommAt::First, 8),
        (CommAt::Last, 8),
        (CommAt::Side, 1),
        (CommAt::Id, 6),
        (CommAt::Bytes, 1 << 40),
    ] {
        set(comm_word(511, at), value);
    }
    for (at, word) in (comm_word(511, CommAt::Peer)..).zip(text_words::<8>("a\x1b[31mb")) {
        set(at, word);
    }
    words
}

fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn what_stands_there_is_read() {
    let read = Snapshot::read(&bytes(&words())).unwrap();
    assert_eq!(
        (read.pid, read.ended, read.comms_open, read.torn),
        (4321, false, 1, 0)
    );
    assert_eq!(read.total(Total::Sends), 100);
    assert_eq!(read.total(Total::RegFailures), 119);
    let [rail] = read.rails.as_slice() else {
        panic!("{:?}", read.rails);
    };
    assert_eq!(
        (rail.rail, rail.bytes_sent, rail.nic.as_str()),
        (2, 77, "rdmap0s6")
    );
    let [hw] = rail.hw.as_slice() else {
        panic!("{:?}", rail.hw);
    };
    assert_eq!(
        (hw.name.as_str(), hw.base, hw.last),
        ("retrans_bytes", 5, 9)
    );
    let [comm] = read.comms.as_slice() else {
        panic!("{:?}", read.comms);
    };
    assert_eq!((comm.side, comm.id, comm.bytes), (Side::Recv, 6, 1 << 40));
    assert_eq!(comm.peer, "a?[31mb", "nothing that a terminal acts on");
}

/// Readers of this version read files of it for ever.
#[test]
fn places_of_version_1() {
    assert_eq!(
        (HEAD_WORDS, RAIL_WORDS, COMM_WORDS, HW_WORDS),
        (64, 208, 24, 6)
    );
    assert_eq!(FILE_WORDS * 8, 205_312);
    assert_eq!(MAGIC.to_le_bytes(), *b"OFISTATS");
    assert_eq!(
        (total_word(Total::Sends), total_word(Total::RegFailures)),
        (32, 51)
    );
    assert_eq!(rail_word(0, RailAt::Used), 64);
    assert_eq!(rail_word(1, RailAt::Errors), 64 + 208 + 14);
    assert_eq!(hw_word(0, 31) + HW_WORDS, 64 + 208);
    assert_eq!(comm_word(0, CommAt::First), 64 + 64 * 208);
    assert_eq!(comm_word(511, CommAt::Last) + 1, FILE_WORDS);
    for (at, (total, ..)) in Total::ALL.iter().enumerate() {
        assert_eq!(*total as usize, at);
    }
    assert_eq!(
        text_words::<1>("longer than a word"),
        [u64::from_le_bytes(*b"longer t")]
    );
}

#[test]
fn what_is_none_is_refused() {
    let whole = bytes(&words());
    for cut in [0, 7, 8, 100, 511, 512, whole.len() - 1] {
        let error = Snapshot::read(&whole[..cut]).unwrap_err();
        let is_named = match cut {
            0..8 => error == StatsError::NotStats,
            8 => error == StatsError::Version { version: 0 },
            _ => matches!(error, StatsError::Damaged { len, .. } if len == cut),
        };
        assert!(is_named, "{cut}: {error}");
    }
    let with = |at: HeadAt, value: u64| {
        let mut words = words();
        words[at as usize] = value;
        Snapshot::read(&bytes(&words))
    };
    assert_eq!(
        with(HeadAt::Version, 2),
        Err(StatsError::Version { version: 2 })
    );
    assert_eq!(with(HeadAt::Magic, 1), Err(StatsError::NotStats));
    for (at, value) in [
        (HeadAt::Words, 1),
        (HeadAt::Words, u64::MAX),
        (HeadAt::Rails, 65),
        (HeadAt::Rails, u64::MAX),
        (HeadAt::Comms, 511),
        (HeadAt::Comms, u64::MAX),
    ] {
        assert!(
            matches!(with(at, value), Err(StatsError::Damaged { .. })),
            "{at:?} {value}"
        );
    }
}

/// A slot that is given to another communicator while it is read.
#[test]
fn a_slot_that_changes_is_left_out() {
    for at in [CommAt::First, CommAt::Last] {
        let mut words = words();
        words[comm_word(511, at)] = 9;
        let read = Snapshot::read(&bytes(&words)).unwrap();
        assert_eq!((read.comms.len(), read.torn), (0, 1), "{at:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_damage_ends(damage in proptest::collection::vec((0..FILE_WORDS, any::<u64>()), 0..40), cut in 0..3_usize) {
        let mut words = words();
        for (at, value) in damage {
            words[at] = value;
        }
        let bytes = bytes(&words);
        if let Ok(read) = Snapshot::read(&bytes[..bytes.len() - cut]) {
            let texts = read.rails.iter().map(|rail| &rail.nic).chain(read.comms.iter().map(|c| &c.peer));
            for text in texts {
                prop_assert!(!text.chars().any(char::is_control));
            }
        }
    }
}
