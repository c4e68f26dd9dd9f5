//! Any bytes are a trace, or a prefix of one, or an error; what was read is written as it was.

use ofi_trace::{Header, Reader, Stamped};

pub(crate) fn check(bytes: &[u8]) {
    let mut file = Vec::new();
    let header = Header {
        pid: 1,
        started_unix_ns: 2,
        host: String::new(),
    };
    header.encode(&mut file);
    file.extend_from_slice(bytes);
    let Ok((_, reader)) = Reader::open(&file) else {
        unreachable!("the head is good");
    };
    let read: Vec<Stamped<'_>> = reader.map_while(Result::ok).collect();
    let mut again = Vec::new();
    header.encode(&mut again);
    for record in &read {
        record.encode(&mut again);
    }
    let Ok((_, reader)) = Reader::open(&again) else {
        unreachable!("the head is good");
    };
    // A record that is longer than we write is cut; all others come back.
    assert_eq!(reader.count(), read.len());
}
