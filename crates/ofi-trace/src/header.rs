//! The head of a file: whose trace it is and when it began.

use alloc::string::String;
use alloc::vec::Vec;

use crate::bytes::{Fields, Writer};
use crate::reader::TraceError;

/// Bytes of the head of a file.
pub const HEADER_BYTES: usize = 64;

const MAGIC: &[u8; 8] = b"OFITRACE";
const VERSION: u16 = 1;
const HOST_BYTES: usize = 40;

/// Whose trace a file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Process that wrote it.
    pub pid: u32,
    /// When it began, nanoseconds since 1970: times of records count from here.
    pub started_unix_ns: u64,
    /// Name of its host; what does not fit into 40 bytes is cut off.
    pub host: String,
}

impl Header {
    /// Appends [`HEADER_BYTES`] bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(MAGIC);
        let mut fields = Writer(out);
        fields.u16(VERSION);
        fields.u16(u16::try_from(HEADER_BYTES).unwrap_or(0));
        fields.u32(self.pid);
        fields.u64(self.started_unix_ns);
        let mut host = [0; HOST_BYTES];
        for (byte, &given) in host.iter_mut().zip(self.host.as_bytes()) {
            *byte = given;
        }
        out.extend_from_slice(&host);
    }

    /// The head, and the bytes behind it.
    pub(crate) fn decode(bytes: &[u8]) -> Result<(Self, &[u8]), TraceError> {
        let mut fields = Fields(bytes.strip_prefix(MAGIC).ok_or(TraceError::NotATrace)?);
        let cut = TraceError::CutHeader { len: bytes.len() };
        let version = fields.u16().ok_or(cut)?;
        if version != VERSION {
            return Err(TraceError::Version { version });
        }
        let own_bytes = usize::from(fields.u16().ok_or(cut)?);
        let pid = fields.u32().ok_or(cut)?;
        let started_unix_ns = fields.u64().ok_or(cut)?;
        let host = fields.rest().get(..HOST_BYTES).ok_or(cut)?;
        let used = host.iter().position(|&b| b == 0).unwrap_or(HOST_BYTES);
        let host = String::from_utf8_lossy(host.get(..used).unwrap_or(&[])).into_owned();
        let header = Self {
            pid,
            started_unix_ns,
            host,
        };
        let records = bytes.get(own_bytes.max(HEADER_BYTES)..).ok_or(cut)?;
        Ok((header, records))
    }
}
