//! What went over the rails of a domain last, as a dump has it.

use serde::{Deserialize, Serialize};

/// The last records of a domain (`OFI_NCCL_TRACE_RING`): `ofi trace` shows them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trace {
    /// From when the times of the records count, nanoseconds since 1970.
    pub started_unix_ns: u64,
    /// Records that made room for these.
    pub lost: u64,
    /// The records, oldest first, each in hexadecimal as `ofi-trace` writes it; before them those of the
    /// endpoints, and of the peers that are meant in the others.
    pub records: Vec<String>,
}

impl Trace {
    /// Of records that stand one after the other.
    pub(crate) fn new(started_unix_ns: u64, lost: u64, records: &[u8]) -> Self {
        let mut rest = records;
        let mut texts = Vec::new();
        while let Some((record, behind)) = first(rest) {
            texts.push(hex(record));
            rest = behind;
        }
        Self {
            started_unix_ns,
            lost,
            records: texts,
        }
    }

    /// The records, one after the other, for [`ofi_trace::Reader::of_records`], which looks at what they say;
    /// `None`: one of them is not hexadecimal, or its length is not what it says.
    #[must_use]
    pub fn to_bytes(&self) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        for text in &self.records {
            let record = unhex(text)?;
            let (_, behind) = first(&record)?;
            if !behind.is_empty() {
                return None;
            }
            bytes.extend_from_slice(&record);
        }
        Some(bytes)
    }
}

/// The first record, by the length that it says, and what is behind it.
fn first(records: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, _) = records.split_first_chunk()?;
    let len = usize::from(u16::from_le_bytes(*len));
    records.split_at_checked(len.max(1))
}

fn hex(bytes: &[u8]) -> String {
    let digit = |four: u8| char::from_digit(u32::from(four), 16).unwrap_or('0');
    let pairs = bytes
        .iter()
        .map(|byte| [digit(byte >> 4), digit(byte & 15)]);
    pairs.flatten().collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| {
        char::from(byte)
            .to_digit(16)
            .and_then(|d| u8::try_from(d).ok())
    };
    let pairs = text.as_bytes().chunks(2);
    pairs
        .map(|pair| match *pair {
            [high, low] => Some(digit(high)? << 4 | digit(low)?),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ofi_trace::{Lane, Reader, Record, Ring, Stamped};

    fn ring() -> Ring {
        let mut ring = Ring::new(10);
        for at_ns in 0..12 {
            ring.keep(&Stamped {
                at_ns,
                domain: 0,
                lane: Lane::control(1),
                record: Record::Done { token: 0xABCD_EF01 },
            });
        }
        ring
    }

    #[test]
    fn records_come_back_as_they_were() {
        let kept = ring().to_bytes();
        let trace = Trace::new(5, 2, &kept);
        assert_eq!((trace.records.len(), trace.lost), (10, 2));
        let json = serde_json::to_string(&trace).unwrap();
        let read: Trace = serde_json::from_str(&json).unwrap();
        assert_eq!(read.to_bytes().as_ref(), Some(&kept));
        let first = Reader::of_records(&kept).next().unwrap().unwrap();
        assert_eq!(
            (first.at_ns, first.record),
            (2, Record::Done { token: 0xABCD_EF01 })
        );
    }

    #[test]
    fn what_is_no_record_is_refused() {
        let good = Trace::new(5, 0, &ring().to_bytes()).records.remove(0);
        let whole = |text: &str| Trace {
            started_unix_ns: 0,
            lost: 0,
            records: vec![text.to_owned()],
        };
        assert!(whole(&good).to_bytes().is_some());
        let long = format!("{good}00");
        let bad = [
            "",
            "0",
            "zz",
            "\u{e9}\u{e9}",
            "ffff",
            "0000",
            &good[1..],
            &good[2..],
            &long,
        ];
        for text in bad {
            assert_eq!(whole(text).to_bytes(), None, "{text:?}");
        }
    }
}
