//! What rank and hub say to each other, and its bytes: `u32 length (little endian) | u8 kind |
//! payload`. Kind `J` is a JSON value, kind `G` the bytes of an all-gather (which may be large and
//! mean nothing to the hub).

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};

use crate::bench::plan::Plan;
use crate::report::row::{Row, Summary};

/// First word of a hello.
pub(crate) const MAGIC: &str = "ofi-perf";
/// Ranks of one run.
pub(crate) const MAX_WORLD: usize = 256;
/// The longest hello: it comes from strangers.
pub(crate) const MAX_HELLO: usize = 1024;
/// The longest frame of a rank.
pub(crate) const MAX_UP: usize = 4 << 20;
/// The longest frame of the hub: the contributions of all ranks.
pub(crate) const MAX_DOWN: usize = 256 << 20;

/// The first frame on a connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) magic: String,
    pub(crate) version: String,
    pub(crate) rank: usize,
    pub(crate) world: usize,
    /// What the launcher calls this job; tells two jobs on one port apart.
    pub(crate) job: String,
}

/// A sign of life, twice a second.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Beat {
    pub(crate) stage: String,
    pub(crate) done: u64,
    pub(crate) total: u64,
}

/// From rank to hub.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Up {
    Hello(Hello),
    Beat(Beat),
    /// A line for people: the plugin, its devices.
    Note(String),
    /// One measured point; rank 0 only.
    Row(Box<Row>),
    /// No progress for longer than allowed: what is waited for.
    Stalled(String),
    /// The answer to an end that is not good: what the rank was doing.
    Report(String),
    Failed(String),
    Done(Summary),
    #[serde(skip)]
    Gather(Vec<u8>),
}

/// From hub to rank.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Down {
    Plan(Box<Plan>),
    /// The run is over for everyone.
    End {
        good: bool,
    },
    /// The contributions of all ranks, in order.
    #[serde(skip)]
    Gathered(Vec<Vec<u8>>),
}

pub(crate) const JSON: u8 = b'J';
const GATHER: u8 = b'G';

pub(crate) fn send_up(to: &mut impl Write, up: &Up) -> io::Result<()> {
    match up {
        Up::Gather(bytes) => write_frame(to, GATHER, bytes),
        other => write_frame(to, JSON, &serde_json::to_vec(other)?),
    }
}

pub(crate) fn receive_up(from: &mut impl Read, limit: usize) -> io::Result<Up> {
    match read_frame(from, limit)? {
        (GATHER, bytes) => Ok(Up::Gather(bytes)),
        (_, json) => Ok(serde_json::from_slice(&json)?),
    }
}

pub(crate) fn send_down(to: &mut impl Write, down: &Down) -> io::Result<()> {
    match down {
        Down::Gathered(parts) => {
            let mut flat = Vec::new();
            for part in parts {
                flat.extend_from_slice(&length(part)?.to_le_bytes());
                flat.extend_from_slice(part);
            }
            write_frame(to, GATHER, &flat)
        }
        other => write_frame(to, JSON, &serde_json::to_vec(other)?),
    }
}

pub(crate) fn receive_down(from: &mut impl Read) -> io::Result<Down> {
    match read_frame(from, MAX_DOWN)? {
        (GATHER, flat) => Ok(Down::Gathered(split(&flat)?)),
        (_, json) => Ok(serde_json::from_slice(&json)?),
    }
}

fn split(mut flat: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    let mut parts = Vec::new();
    while let Some((head, rest)) = flat.split_first_chunk::<4>() {
        let len = usize::try_from(u32::from_le_bytes(*head)).map_err(io::Error::other)?;
        let Some((part, rest)) = rest.split_at_checked(len) else {
            return Err(bad("a part is longer than its frame"));
        };
        parts.push(part.to_vec());
        flat = rest;
    }
    if flat.is_empty() {
        Ok(parts)
    } else {
        Err(bad("bytes are left over in a frame"))
    }
}

pub(crate) fn write_frame(to: &mut impl Write, kind: u8, payload: &[u8]) -> io::Result<()> {
    let mut frame = Vec::with_capacity(payload.len() + 5);
    frame.extend_from_slice(&length(payload)?.to_le_bytes());
    frame.push(kind);
    frame.extend_from_slice(payload);
    to.write_all(&frame)
}

/// Memory grows with what has arrived, not with what a length claims.
pub(crate) fn read_frame(from: &mut impl Read, limit: usize) -> io::Result<(u8, Vec<u8>)> {
    let mut head = [0; 5];
    from.read_exact(&mut head)?;
    let [a, b, c, d, kind] = head;
    let len = u32::from_le_bytes([a, b, c, d]);
    if usize::try_from(len).map_or(true, |n| n > limit) {
        return Err(bad("a frame is longer than allowed"));
    }
    if kind != JSON && kind != GATHER {
        return Err(bad("a frame is of no known kind"));
    }
    let mut payload = Vec::new();
    from.take(u64::from(len)).read_to_end(&mut payload)?;
    if payload.len() != usize::try_from(len).map_err(io::Error::other)? {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok((kind, payload))
}

fn length(bytes: &[u8]) -> io::Result<u32> {
    u32::try_from(bytes.len()).map_err(|_| bad("a frame of 4 GiB or more"))
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gathers_and_values_come_back_as_they_went() {
        let mut wire = Vec::new();
        send_up(&mut wire, &Up::Gather(vec![1, 2, 3])).unwrap();
        send_up(&mut wire, &Up::Failed("x".to_owned())).unwrap();
        let mut from = wire.as_slice();
        assert!(matches!(receive_up(&mut from, 64).unwrap(), Up::Gather(b) if b == [1, 2, 3]));
        assert!(matches!(receive_up(&mut from, 64).unwrap(), Up::Failed(t) if t == "x"));

        let mut wire = Vec::new();
        send_down(&mut wire, &Down::Gathered(vec![vec![], vec![7; 300]])).unwrap();
        let Down::Gathered(parts) = receive_down(&mut wire.as_slice()).unwrap() else {
            panic!("not a gather");
        };
        assert_eq!(parts, [vec![], vec![7; 300]]);
    }

    #[test]
    fn rubbish_is_an_error_and_never_a_large_allocation() {
        let cases: [&[u8]; 6] = [
            b"",
            b"\xff\xff\xff\xffJ",
            b"\x02\0\0\0J{",
            b"\x02\0\0\0J{}",
            b"\x01\0\0\0?x",
            b"GET / HTTP/1.1\r\n\r\n",
        ];
        for case in cases {
            assert!(receive_up(&mut &*case, MAX_HELLO).is_err(), "{case:?}");
        }
        assert!(split(&[5, 0, 0, 0, 1]).err().is_some());
        assert!(split(&[1, 0]).err().is_some());
    }
}
