//! Any bytes are counters of a process, or an error; its texts can be printed.

use ofi_trace::stats::{
    COMM_WORDS, HEAD_WORDS, HeadAt, MAGIC, RAIL_WORDS, Snapshot, State, StatsError, VERSION,
};

pub(crate) fn check(bytes: &[u8]) {
    // Any bytes are mostly none.
    let _any = look(bytes).is_ok();
    // With a good head for as much as there is, so that the rest is looked at.
    let words = bytes.len() / 8;
    let rails = words.saturating_sub(HEAD_WORDS) / RAIL_WORDS;
    let comms = words.saturating_sub(HEAD_WORDS + rails * RAIL_WORDS) / COMM_WORDS;
    let all = HEAD_WORDS + rails * RAIL_WORDS + comms * COMM_WORDS;
    let mut file = bytes.to_vec();
    file.resize(all * 8, 0);
    file[..HEAD_WORDS * 8].fill(0);
    for (at, value) in [
        (HeadAt::Magic, MAGIC),
        (HeadAt::Version, VERSION),
        (HeadAt::Words, all as u64),
        (HeadAt::Rails, rails as u64),
        (HeadAt::Comms, comms as u64),
        (HeadAt::Pid, 1),
        (HeadAt::State, State::Live as u64),
    ] {
        let place = at as usize * 8..at as usize * 8 + 8;
        file[place].copy_from_slice(&value.to_le_bytes());
    }
    match look(&file) {
        Ok(()) => {}
        Err(StatsError::Impossible { at, .. }) if at >= HEAD_WORDS => {}
        Err(error) => panic!("the head is good: {error}"),
    }
}

fn look(bytes: &[u8]) -> Result<(), StatsError> {
    let read = Snapshot::read(bytes)?;
    assert_eq!(Snapshot::read(bytes).as_ref(), Ok(&read));
    let hw = read
        .rails
        .iter()
        .flat_map(|rail| rail.hw.iter().map(|hw| &hw.name));
    let nics = read.rails.iter().map(|rail| &rail.nic);
    let peers = read.comms.iter().map(|comm| &comm.peer);
    for text in hw.chain(nics).chain(peers).chain([&read.host]) {
        assert!(!text.chars().any(char::is_control), "{text:?}");
    }
    Ok(())
}
