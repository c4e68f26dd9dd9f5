//! The last records of a run, in memory of a fixed size: for a dump of a process that hangs.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use crate::record::{RECORD_BYTES_MAX, Stamped};

/// Bytes that a ring has for each record: what any record of the data path takes.
const BYTES_EACH: usize = 128;

/// The last records that were kept, of which the oldest make room for the newest.
///
/// It allocates when it is made and never again, but for the text of a note that is longer than a record
/// may be.
#[derive(Clone, Debug)]
pub struct Ring {
    bytes: Box<[u8]>,
    records_max: usize,
    /// Where the oldest record begins.
    first: usize,
    /// Bytes of the records there are.
    used: usize,
    records: usize,
    lost: u64,
    /// A record while it is written.
    whole: Vec<u8>,
}

impl Ring {
    /// Room for `records` records of the data path, of 128 bytes at most; fewer where connection messages
    /// and notes are among them, which are longer. At least one of any kind.
    #[must_use]
    pub fn new(records: usize) -> Self {
        let records_max = records.max(1);
        let len = records_max.saturating_mul(BYTES_EACH);
        Self {
            bytes: vec![0; len.max(RECORD_BYTES_MAX)].into_boxed_slice(),
            records_max,
            first: 0,
            used: 0,
            records: 0,
            lost: 0,
            whole: Vec::with_capacity(RECORD_BYTES_MAX),
        }
    }

    /// Keeps a record, cut as [`Stamped::encode`] says.
    pub fn keep(&mut self, record: &Stamped<'_>) {
        self.whole.clear();
        record.encode(&mut self.whole);
        let len = self.whole.len();
        while self.records >= self.records_max || self.bytes.len() - self.used < len {
            self.drop_oldest();
        }
        let at = self.wrapped(self.first + self.used);
        let (head, tail) = self.whole.split_at(len.min(self.bytes.len() - at));
        for (place, part) in [(at, head), (0, tail)] {
            if let Some(room) = self.bytes.get_mut(place..place + part.len()) {
                room.copy_from_slice(part);
            }
        }
        self.used += len;
        self.records += 1;
    }

    /// Records that are there.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.records
    }

    /// Whether none is there.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Records that made room for others.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// All of them, oldest first, one after the other: what [`crate::Reader::of_records`] reads.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let to_end = self.used.min(self.bytes.len() - self.first);
        let parts = [(self.first, self.first + to_end), (0, self.used - to_end)];
        let parts = parts.map(|(from, to)| self.bytes.get(from..to).unwrap_or(&[]));
        parts.concat()
    }

    fn drop_oldest(&mut self) {
        let byte = |at: usize| self.bytes.get(self.wrapped(at)).copied().unwrap_or(0);
        let len = u16::from_le_bytes([byte(self.first), byte(self.first + 1)]);
        // Never more than there are, whatever stands there: the loop above ends.
        let len = usize::from(len).clamp(1, self.used.max(1));
        self.first = self.wrapped(self.first + len);
        self.used = self.used.saturating_sub(len);
        self.records = self.records.saturating_sub(1);
        self.lost += 1;
    }

    const fn wrapped(&self, at: usize) -> usize {
        if at < self.bytes.len() {
            at
        } else {
            at - self.bytes.len()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Lane, Op, Outcome, Reader, Record};
    use alloc::collections::VecDeque;
    use proptest::prelude::*;

    const fn at(at_ns: u64, record: Record<'_>) -> Stamped<'_> {
        Stamped {
            at_ns,
            domain: 1,
            lane: Lane::control(1),
            record,
        }
    }

    fn times(ring: &Ring) -> Vec<u64> {
        let bytes = ring.to_bytes();
        let read = Reader::of_records(&bytes).map(|record| record.unwrap().at_ns);
        read.collect()
    }

    #[test]
    fn the_newest_push_out_the_oldest() {
        let mut ring = Ring::new(3);
        assert!(ring.is_empty() && times(&ring).is_empty());
        for n in 0..10 {
            ring.keep(&at(n, Record::Done { token: n }));
        }
        assert_eq!((times(&ring), ring.lost()), (vec![7, 8, 9], 7));
    }

    /// A CTRL of four rails is the longest record of the data path.
    #[test]
    fn as_many_records_of_the_data_path_fit_as_were_asked_for() {
        let ctrl = Record::Post {
            op: Op::Control,
            outcome: Outcome::Accepted,
            token: 1,
            peer: 1,
            len: 48,
            data: 0,
            remote_addr: 0,
            remote_key: 0,
            message: &[2; 48],
        };
        let mut ring = Ring::new(100);
        for n in 0..1000 {
            ring.keep(&at(n, ctrl));
        }
        assert_eq!((ring.len(), ring.lost()), (100, 900));
        assert_eq!(times(&ring), (900..1000).collect::<Vec<_>>());
    }

    #[test]
    fn nothing_is_allocated_once_it_is_there() {
        let mut ring = Ring::new(4);
        let before = (ring.bytes.as_ptr(), ring.whole.as_ptr());
        for n in 0..100 {
            ring.keep(&at(n, Record::Control { message: &[1; 528] }));
        }
        assert_eq!((ring.bytes.as_ptr(), ring.whole.as_ptr()), before);
    }

    proptest! {
        /// Whatever is kept, the ring holds the last of it, whole and in order.
        #[test]
        fn it_is_the_end_of_all_that_was_kept(
            sizes in proptest::collection::vec(0..3000_usize, 1..300), room in 0..40_usize,
        ) {
            let mut ring = Ring::new(room);
            let mut all: VecDeque<Vec<u8>> = VecDeque::new();
            for (n, &size) in sizes.iter().enumerate() {
                let text = "x".repeat(size);
                let record = at(n as u64, Record::Note { text: &text });
                ring.keep(&record);
                let mut bytes = Vec::new();
                record.encode(&mut bytes);
                all.push_back(bytes);
            }
            prop_assert_eq!(ring.len() as u64 + ring.lost(), sizes.len() as u64);
            prop_assert!(!ring.is_empty() && ring.len() <= room.max(1));
            while all.len() > ring.len() {
                all.pop_front();
            }
            let wanted: Vec<u8> = all.iter().flatten().copied().collect();
            prop_assert_eq!(ring.to_bytes(), wanted);
        }
    }
}
