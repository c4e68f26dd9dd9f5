//! Any bytes are a state dump or none; any texts in place of its records are records, damaged ones, or none.

use ofi_net::dump::{Dump, Trace};
use ofi_trace::Reader;

pub(crate) fn check(bytes: &[u8]) {
    if let Ok(dump) = serde_json::from_slice::<Dump>(bytes) {
        let again = serde_json::to_vec(&dump).expect("what was read is written");
        assert_eq!(
            serde_json::from_slice::<Dump>(&again).ok().as_ref(),
            Some(&dump)
        );
        dump.domains
            .iter()
            .filter_map(|d| d.trace.as_ref())
            .for_each(look);
    }
    let lines = String::from_utf8_lossy(bytes);
    let records: Vec<String> = lines.lines().map(str::to_owned).collect();
    look(&Trace {
        started_unix_ns: 0,
        lost: 0,
        records: records.clone(),
    });
    // Each alone, so that one that is none does not hide the others.
    for record in records {
        look(&Trace {
            started_unix_ns: u64::MAX,
            lost: u64::MAX,
            records: vec![record],
        });
    }
}

fn look(trace: &Trace) {
    let Some(bytes) = trace.to_bytes() else {
        return;
    };
    let mut reader = Reader::of_records(&bytes);
    let read = reader.by_ref().count();
    assert!(read + reader.unknown() <= trace.records.len());
    assert!(!reader.is_cut(), "each record is whole");
}
