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
        [Total::Sends, Total::RegFailures, Total::LanesGivenUp].map(total_word),
        [32, 51, 52]
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

/// What stands for a body that was lost: a file of such is damaged, and no process that counted much.
#[test]
fn a_lost_body_is_no_counters() {
    let mut seed = 1_u64;
    let mut random = move || {
        seed = seed
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        seed ^ seed >> 29
    };
    // Behind what a reader needs to find its way, behind the head, and rails or communicators alone.
    let rails = HEAD_WORDS..comm_word(0, CommAt::First);
    let comms = comm_word(0, CommAt::First)..FILE_WORDS;
    for range in [
        5..FILE_WORDS,
        HEAD_WORDS..FILE_WORDS,
        5..HEAD_WORDS,
        rails,
        comms,
    ] {
        let filled = |mut with: &mut dyn FnMut() -> u64| {
            let mut words = words();
            words[range.clone()].fill_with(&mut with);
            Snapshot::read(&bytes(&words))
        };
        let is_damaged = |read: &Result<Snapshot, StatsError>| {
            matches!(read, Err(error @ StatsError::Impossible { at, .. })
                if range.contains(at) && error.to_string().starts_with("damaged"))
        };
        let ones = filled(&mut || u64::MAX);
        assert!(is_damaged(&ones), "{range:?}: {ones:?}");
        let random = filled(&mut random);
        // Two words of a slot of random ones are not the same: it is being changed.
        let is_torn = matches!(&random, Ok(read) if read.torn == 512 && read.comms.is_empty());
        assert!(
            is_damaged(&random) || is_torn && range.start > HEAD_WORDS + 1,
            "{range:?}: {random:?}"
        );
    }
}

/// What can be read of a file, each with the words that it is from.
fn fields(read: &Snapshot) -> Vec<(core::ops::Range<usize>, String)> {
    let slots = HEAD_WORDS..comm_word(0, CommAt::First);
    let comms = comm_word(0, CommAt::First)..FILE_WORDS;
    let one = |at: HeadAt, value: u64| (at as usize..at as usize + 1, value.to_string());
    let mut fields = vec![
        (slots, format!("{:?}", read.rails)),
        (comms, format!("{:?} {}", read.comms, read.torn)),
        (
            HeadAt::Host as usize..HeadAt::Host as usize + 8,
            read.host.clone(),
        ),
        one(HeadAt::Pid, read.pid.into()),
        one(HeadAt::StartTicks, read.start_ticks),
        one(HeadAt::Boot, read.boot),
        one(HeadAt::PidNamespace, read.pid_namespace),
        one(HeadAt::Opened, read.opened_ms),
        one(HeadAt::Updated, read.updated_ms),
        one(HeadAt::State, read.ended.into()),
        one(HeadAt::Flavour, read.flavour),
        one(HeadAt::Protocol, read.protocol),
        one(HeadAt::CommsOpen, read.comms_open),
        one(HeadAt::CommsUnseen, read.comms_unseen),
        one(HeadAt::CommsEver, read.comms_ever),
        one(HeadAt::RailsUnseen, read.rails_unseen),
    ];
    fields.extend(Total::ALL.iter().map(|&(total, ..)| {
        let at = total_word(total);
        (at..at + 1, read.total(total).to_string())
    }));
    fields
}

/// Bits of each size of the head, and of the words that lay out a rail and a communicator.
#[test]
fn a_flipped_bit_is_damage_or_changes_what_it_is_of() {
    let whole = words();
    let before = fields(&Snapshot::read(&bytes(&whole)).unwrap());
    let rail = rail_word(3, RailAt::Used)..rail_word(3, RailAt::Hw);
    let comm = comm_word(511, CommAt::First)..FILE_WORDS;
    let mut damaged = 0;
    for at in (0..HEAD_WORDS).chain(rail).chain(comm) {
        for bit in [0, 1, 2, 22, 31, 32, 48, 56, 62, 63] {
            let mut words = whole.clone();
            words[at] ^= 1 << bit;
            let Ok(read) = Snapshot::read(&bytes(&words)) else {
                damaged += 1;
                continue;
            };
            for ((of, before), (_, now)) in before.iter().zip(fields(&read)) {
                assert!(
                    of.contains(&at) || *before == now,
                    "bit {bit} of word {at}: {before}, {now}"
                );
            }
        }
    }
    assert!(damaged > 10 * 5 + 80, "{damaged}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_damage_of_the_head_is_told_or_stays_where_it_is(
        damage in proptest::collection::vec((0..HEAD_WORDS, any::<u64>()), 1..8),
    ) {
        let whole = words();
        let before = fields(&Snapshot::read(&bytes(&whole)).unwrap());
        let mut words = whole;
        for &(at, value) in &damage {
            words[at] ^= value;
        }
        if let Ok(read) = Snapshot::read(&bytes(&words)) {
            for ((of, before), (_, now)) in before.iter().zip(fields(&read)) {
                let is_touched = damage.iter().any(|(at, _)| of.contains(at));
                prop_assert!(is_touched || *before == now, "{damage:?}: {before}, {now}");
            }
        }
    }

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
