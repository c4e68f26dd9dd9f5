//! What is kept of a run, and its bytes.

use alloc::vec::Vec;

use crate::bytes::{Fields, Writer};

/// Longest record, bytes: a control message with everything around it.
pub const RECORD_BYTES_MAX: usize = 1024;

/// An endpoint of a domain: rail and whether it is the control one. Its byte is the rail, plus 0x80.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lane(u8);

impl Lane {
    /// The data endpoint of a rail below 128.
    #[must_use]
    pub const fn data(rail: u8) -> Self {
        Self(rail & 0x7F)
    }

    /// The control endpoint of a rail below 128.
    #[must_use]
    pub const fn control(rail: u8) -> Self {
        Self(rail | 0x80)
    }

    /// The rail.
    #[must_use]
    pub const fn rail(self) -> u8 {
        self.0 & 0x7F
    }

    /// Whether it is a control endpoint.
    #[must_use]
    pub const fn is_control(self) -> bool {
        self.0 & 0x80 != 0
    }
}

/// What was asked of the provider: one libfabric call each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Op {
    /// `fi_send` of a control message.
    Control = 0,
    /// `fi_senddata` of a whole message.
    Eager = 1,
    /// `fi_writedata` of a segment.
    WriteData = 2,
    /// `fi_write` of a segment.
    Write = 3,
    /// `fi_read` of a held eager message into its place.
    EagerCopy = 4,
    /// `fi_read` that flushes.
    Flush = 5,
    /// One-sided write of the caller.
    OneSidedWrite = 6,
    /// One-sided read of the caller.
    OneSidedRead = 7,
    /// `fi_tsend`; the tag is in `data`.
    TaggedSend = 8,
    /// `fi_trecv`; the tag is in `data`.
    TaggedRecv = 9,
}

const OPS: [Op; 10] = [
    Op::Control,
    Op::Eager,
    Op::WriteData,
    Op::Write,
    Op::EagerCopy,
    Op::Flush,
    Op::OneSidedWrite,
    Op::OneSidedRead,
    Op::TaggedSend,
    Op::TaggedRecv,
];

/// What the provider said to an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It has it; a completion follows.
    Accepted,
    /// It has it and says no more (inject).
    Injected,
    /// EAGAIN.
    Busy,
    /// It refused.
    Failed {
        /// Positive error number.
        errno: i32,
    },
}

/// One thing that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// An endpoint was opened; all of a domain come before its first operation.
    Endpoint {
        /// Its address, as `fi_getname(3)` gives it.
        name: &'a [u8],
        /// libfabric's number of the form of its addresses (`FI_SOCKADDR_IN` and so on).
        format: u32,
    },
    /// A peer's endpoint became reachable on this lane.
    Peer {
        /// Its number in the address vector.
        peer: u64,
        /// Its address.
        name: &'a [u8],
    },
    /// An operation was given to the provider.
    Post {
        /// Which.
        op: Op,
        /// What the provider said.
        outcome: Outcome,
        /// Names the operation until it completes.
        token: u64,
        /// To whom: a number of [`Record::Peer`]; for reads of our own memory our own.
        peer: u64,
        /// Bytes.
        len: u64,
        /// CQ data; of tagged operations the tag; 0 without.
        data: u64,
        /// Remote address, 0 without.
        remote_addr: u64,
        /// Remote key, 0 without.
        remote_key: u64,
        /// A control message, whole; empty for everything else.
        message: &'a [u8],
    },
    /// An operation completed.
    Done {
        /// The operation's.
        token: u64,
    },
    /// An operation failed.
    Failed {
        /// The operation's; `None` for a receive.
        token: Option<u64>,
        /// Positive error number of the completion.
        errno: i32,
        /// The provider's own number.
        provider_errno: i32,
    },
    /// A segment arrived.
    RemoteWrite {
        /// CQ data.
        data: u64,
        /// Bytes, if the provider says.
        len: Option<u64>,
    },
    /// A control message arrived.
    Control {
        /// The message.
        message: &'a [u8],
    },
    /// An eager message arrived.
    Eager {
        /// CQ data.
        data: u64,
        /// Bytes.
        len: u64,
    },
    /// A tagged receive completed.
    Tagged {
        /// The operation's.
        token: u64,
        /// Tag of the message.
        tag: u64,
        /// Bytes.
        len: u64,
    },
    /// Something worth a line: connected, closed, stalled, an error. UTF-8.
    Note {
        /// The line.
        text: &'a str,
    },
    /// The file has reached its limit; nothing more is kept.
    Full,
}

/// A record with where and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamped<'a> {
    /// Nanoseconds since the beginning of the trace.
    pub at_ns: u64,
    /// The domain, counted from 0 as they were opened.
    pub domain: u16,
    /// Which endpoint; without meaning for notes.
    pub lane: Lane,
    /// What.
    pub record: Record<'a>,
}

const NO_LEN: u64 = u64::MAX;

impl<'a> Stamped<'a> {
    /// Bytes before what a kind has of its own.
    pub(crate) const HEAD_BYTES: usize = 16;

    /// Appends the record. Messages, names and texts are cut to what [`RECORD_BYTES_MAX`] leaves.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let mut fields = Writer(out);
        fields.u16(0);
        fields.u8(self.record.kind());
        fields.u8(self.lane.0);
        fields.u16(self.domain);
        fields.u16(0);
        fields.u64(self.at_ns);
        self.record.encode(&mut fields);
        let mut len = out.len() - start;
        if len > RECORD_BYTES_MAX {
            len = floor_char_boundary(out, start + RECORD_BYTES_MAX, self.record) - start;
            out.truncate(start + len);
        }
        let bytes = u16::try_from(len).unwrap_or(0).to_le_bytes();
        if let Some(place) = out.get_mut(start..start + 2) {
            place.copy_from_slice(&bytes);
        }
    }

    /// A whole record; `None` for one that this version does not know.
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        let _len = fields.u16()?;
        let kind = fields.u8()?;
        let lane = Lane(fields.u8()?);
        let domain = fields.u16()?;
        let _zero = fields.u16()?;
        let at_ns = fields.u64()?;
        let record = Record::decode(kind, fields)?;
        Some(Self {
            at_ns,
            domain,
            lane,
            record,
        })
    }
}

/// `end`, or where the character before it begins, so that a text stays one.
fn floor_char_boundary(out: &[u8], end: usize, record: Record<'_>) -> usize {
    let continues = |at: usize| out.get(at).is_some_and(|byte| byte & 0xC0 == 0x80);
    let mut end = end;
    while matches!(record, Record::Note { .. }) && continues(end) {
        end -= 1;
    }
    end
}

impl<'a> Record<'a> {
    const fn kind(&self) -> u8 {
        match self {
            Self::Endpoint { .. } => 1,
            Self::Peer { .. } => 2,
            Self::Post { .. } => 3,
            Self::Done { .. } => 4,
            Self::Failed { .. } => 5,
            Self::RemoteWrite { .. } => 6,
            Self::Control { .. } => 7,
            Self::Eager { .. } => 8,
            Self::Tagged { .. } => 9,
            Self::Note { .. } => 10,
            Self::Full => 11,
        }
    }

    fn encode(&self, fields: &mut Writer<'_>) {
        match *self {
            Self::Endpoint { name, format } => {
                fields.u32(format);
                fields.0.extend_from_slice(name);
            }
            Self::Peer { peer, name } => {
                fields.u64(peer);
                fields.0.extend_from_slice(name);
            }
            Self::Post { .. } => self.encode_post(fields),
            Self::Done { token } => fields.u64(token),
            Self::Failed {
                token,
                errno,
                provider_errno,
            } => {
                fields.u8(u8::from(token.is_some()));
                fields.u64(token.unwrap_or(0));
                fields.i32(errno);
                fields.i32(provider_errno);
            }
            Self::RemoteWrite { data, len } => {
                fields.u64(data);
                fields.u64(len.unwrap_or(NO_LEN));
            }
            Self::Control { message } => fields.0.extend_from_slice(message),
            Self::Eager { data, len } => {
                fields.u64(data);
                fields.u64(len);
            }
            Self::Tagged { token, tag, len } => {
                fields.u64(token);
                fields.u64(tag);
                fields.u64(len);
            }
            Self::Note { text } => fields.0.extend_from_slice(text.as_bytes()),
            Self::Full => {}
        }
    }

    fn encode_post(&self, fields: &mut Writer<'_>) {
        let Self::Post {
            op,
            outcome,
            token,
            peer,
            len,
            data,
            remote_addr,
            remote_key,
            message,
        } = *self
        else {
            return;
        };
        let (said, errno) = match outcome {
            Outcome::Accepted => (0, 0),
            Outcome::Injected => (1, 0),
            Outcome::Busy => (2, 0),
            Outcome::Failed { errno } => (3, errno),
        };
        fields.u8(op as u8);
        fields.u8(said);
        fields.i32(errno);
        for number in [token, peer, len, data, remote_addr, remote_key] {
            fields.u64(number);
        }
        fields.0.extend_from_slice(message);
    }

    fn decode(kind: u8, mut fields: Fields<'a>) -> Option<Self> {
        Some(match kind {
            1 => Self::Endpoint {
                format: fields.u32()?,
                name: fields.rest(),
            },
            2 => Self::Peer {
                peer: fields.u64()?,
                name: fields.rest(),
            },
            3 => Self::decode_post(fields)?,
            4 => Self::Done {
                token: fields.u64()?,
            },
            5 => {
                let (some, token) = (fields.u8()?, fields.u64()?);
                Self::Failed {
                    token: (some != 0).then_some(token),
                    errno: fields.i32()?,
                    provider_errno: fields.i32()?,
                }
            }
            6 => Self::RemoteWrite {
                data: fields.u64()?,
                len: Some(fields.u64()?).filter(|&len| len != NO_LEN),
            },
            7 => Self::Control {
                message: fields.rest(),
            },
            8 => Self::Eager {
                data: fields.u64()?,
                len: fields.u64()?,
            },
            9 => Self::Tagged {
                token: fields.u64()?,
                tag: fields.u64()?,
                len: fields.u64()?,
            },
            10 => Self::Note {
                text: core::str::from_utf8(fields.rest()).ok()?,
            },
            11 => Self::Full,
            _ => return None,
        })
    }

    fn decode_post(mut fields: Fields<'a>) -> Option<Self> {
        let op = *OPS.get(usize::from(fields.u8()?))?;
        let (said, errno) = (fields.u8()?, fields.i32()?);
        let outcome = match said {
            0 => Outcome::Accepted,
            1 => Outcome::Injected,
            2 => Outcome::Busy,
            3 => Outcome::Failed { errno },
            _ => return None,
        };
        Some(Self::Post {
            op,
            outcome,
            token: fields.u64()?,
            peer: fields.u64()?,
            len: fields.u64()?,
            data: fields.u64()?,
            remote_addr: fields.u64()?,
            remote_key: fields.u64()?,
            message: fields.rest(),
        })
    }
}
