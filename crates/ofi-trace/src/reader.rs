//! Bytes of a file to records. The bytes are hostile: every length is checked, nothing panics.

use crate::bytes::Fields;
use crate::header::Header;
use crate::record::Stamped;

/// Why bytes are not a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// The file does not begin as a trace does.
    #[error("not a trace: it does not begin with OFITRACE")]
    NotATrace,
    /// Another version of the format.
    #[error("version {version} of the trace format; this reader knows version 1")]
    Version {
        /// As it stands in the file.
        version: u16,
    },
    /// The head is cut off.
    #[error("cut off in its head: {len} bytes")]
    CutHeader {
        /// Bytes of the file.
        len: usize,
    },
    /// A record that says it is shorter than its own head: what follows cannot be found.
    #[error("damaged at byte {at}: a record of {len} bytes")]
    Damaged {
        /// Where in the file, counted from its first record.
        at: usize,
        /// The length that the record says.
        len: usize,
    },
}

/// Gives the records of a trace one after the other.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    records: &'a [u8],
    at: usize,
    unknown: usize,
    cut: bool,
}

impl<'a> Reader<'a> {
    /// Reads the head of a file.
    ///
    /// # Errors
    /// [`TraceError::NotATrace`], [`TraceError::Version`], [`TraceError::CutHeader`].
    pub fn open(bytes: &'a [u8]) -> Result<(Header, Self), TraceError> {
        let (header, records) = Header::decode(bytes)?;
        Ok((header, Self::of_records(records)))
    }

    /// Reads records without the head of a file: those of a [`crate::Ring`].
    #[must_use]
    pub const fn of_records(records: &'a [u8]) -> Self {
        Self {
            records,
            at: 0,
            unknown: 0,
            cut: false,
        }
    }

    /// Records passed so far that this reader does not know.
    #[must_use]
    pub const fn unknown(&self) -> usize {
        self.unknown
    }

    /// Whether the last record was cut off: the process ended in the middle of a write, or is at it.
    #[must_use]
    pub const fn is_cut(&self) -> bool {
        self.cut
    }

    /// The bytes of the next record; `None` at the end.
    fn next_bytes(&mut self) -> Option<Result<&'a [u8], TraceError>> {
        let left = self.records.get(self.at..)?;
        if left.is_empty() {
            return None;
        }
        let len = Fields(left).u16().map(usize::from);
        if let Some(len) = len.filter(|&len| len < Stamped::HEAD_BYTES) {
            let at = self.at;
            self.at = self.records.len();
            return Some(Err(TraceError::Damaged { at, len }));
        }
        let Some(record) = len.and_then(|len| left.get(..len)) else {
            self.cut = true;
            self.at = self.records.len();
            return None;
        };
        self.at += record.len();
        Some(Ok(record))
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = Result<Stamped<'a>, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let bytes = match self.next_bytes()? {
                Ok(bytes) => bytes,
                Err(error) => return Some(Err(error)),
            };
            match Stamped::decode(bytes) {
                Some(record) => return Some(Ok(record)),
                None => self.unknown += 1,
            }
        }
    }
}
