//! The control connection: who is there, handles, steps. Frames are those of `ofi perf`; what they hold
//! comes from whoever reaches the port, and is bounded and checked.

use core::time::Duration;
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::cause::{Failure, Stage};
use super::door;
use crate::coord::frame::{JSON, read_frame, write_frame};
use crate::coord::stream::{Address, Stream};
use crate::report::out;

/// First word of a hello.
const MAGIC: &str = "ofi-pair";
/// Raised when what follows changes.
const PROTOCOL: u32 = 1;
const FRAME_MAX: usize = 64 << 10;

/// Who one side is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hello {
    magic: String,
    protocol: u32,
    pub(super) version: String,
    pub(super) host: String,
    /// The same for every process of a host, another after a restart.
    pub(super) boot: String,
    /// Of libfabric, as it says; empty: not said.
    #[serde(default)]
    pub(super) libfabric: String,
    /// Of the provider of the first device, as it says; empty: not said.
    #[serde(default)]
    pub(super) provider_version: String,
    /// RDMA or SENDRECV.
    pub(super) speaks: String,
    pub(super) devices: Vec<DeviceSaid>,
}

/// A device: provider and names of its rails.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DeviceSaid {
    pub(super) provider: String,
    pub(super) rails: Vec<String>,
}

impl Hello {
    pub(super) fn new(
        speaks: String,
        (libfabric, provider_version): (String, String),
        devices: Vec<DeviceSaid>,
    ) -> Self {
        let read = |file: &str| {
            std::fs::read_to_string(file)
                .unwrap_or_default()
                .trim()
                .to_owned()
        };
        Self {
            magic: MAGIC.to_owned(),
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            host: read("/proc/sys/kernel/hostname"),
            boot: read("/proc/sys/kernel/random/boot_id"),
            libfabric,
            provider_version,
            speaks,
            devices,
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
enum Frame {
    Hello(Hello),
    /// A connection handle.
    Handle(Vec<u8>),
    /// Both have come here; with a number to tell.
    Step(String, f64),
    Failed(String),
}

/// The connection.
#[derive(Debug)]
pub(super) struct Talk {
    stream: Stream,
    /// How long a frame may take, in all.
    limit: Duration,
}

/// A connection that what is done with it has until then.
struct Until<'a> {
    stream: &'a mut Stream,
    then: Instant,
}

impl Until<'_> {
    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.then.saturating_duration_since(Instant::now());
        match left.is_zero() {
            true => Err(io::ErrorKind::TimedOut.into()),
            false => Ok(Some(left)),
        }
    }
}

impl Read for Until<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(bytes)
    }
}

impl Write for Until<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

impl Talk {
    /// Goes to the other side, which may not be there yet.
    pub(super) fn connect(
        address: &Address,
        limit: Duration,
        hello: &Hello,
    ) -> Result<(Self, Hello), Failure> {
        let waiting = || out::error_line(&format!("ofi pair: waiting for {address}"));
        let stream = Stream::connect(address, limit, waiting)
            .map_err(|e| Failure::new(unmet(e.kind()), format_args!("{address}: {e}")))?;
        let mut talk = Self { stream, limit };
        talk.send(&Frame::Hello(hello.clone()))?;
        let theirs = match talk.receive() {
            Ok(Frame::Hello(theirs)) => theirs,
            Ok(Frame::Failed(why)) => return Err(Failure::new(Stage::Peer, why)),
            Ok(_) => {
                return Err(Failure::new(
                    Stage::Agree,
                    "the other side does not say who it is",
                ));
            }
            Err(e) => {
                let what = format_args!(
                    "whoever is at {address} does not answer as `ofi pair` does: {}",
                    e.what
                );
                return Err(Failure::new(Stage::Stranger, what));
            }
        };
        check(&theirs)?;
        Ok((talk, theirs))
    }

    /// Waits for the other side; strangers are turned away.
    pub(super) fn accept(
        listener: &TcpListener,
        limit: Duration,
        hello: &Hello,
    ) -> Result<(Self, Hello), Failure> {
        let is_one = |bytes: &[u8]| match serde_json::from_slice(bytes) {
            Ok(Frame::Hello(theirs)) if theirs.magic == MAGIC => Ok(theirs),
            Ok(Frame::Hello(_)) => Err("it is no `ofi pair`".to_owned()),
            Ok(_) => Err("it does not say who it is".to_owned()),
            Err(e) => Err(format!("garbage: {e}")),
        };
        let (stream, theirs) = door::wait(listener, limit, FRAME_MAX, is_one)?;
        let stream = Stream::Tcp(stream);
        let mut talk = Self { stream, limit };
        talk.send(&Frame::Hello(hello.clone()))?;
        check(&theirs)?;
        Ok((talk, theirs))
    }

    fn send(&mut self, frame: &Frame) -> Result<(), Failure> {
        let bytes = serde_json::to_vec(frame).map_err(|e| Failure::new(Stage::Peer, e))?;
        write_frame(&mut self.until(), JSON, &bytes).map_err(|e| ended(&e))
    }

    fn until(&mut self) -> Until<'_> {
        Until {
            then: Instant::now() + self.limit,
            stream: &mut self.stream,
        }
    }

    fn receive(&mut self) -> Result<Frame, Failure> {
        let (_, bytes) = read_frame(&mut self.until(), FRAME_MAX).map_err(|e| ended(&e))?;
        serde_json::from_slice(&bytes)
            .map_err(|e| Failure::new(Stage::Peer, format_args!("garbage: {e}")))
    }

    /// Each gives a handle and gets the other's.
    pub(super) fn swap_handles(&mut self, mine: &[u8; 128]) -> Result<[u8; 128], Failure> {
        self.send(&Frame::Handle(mine.to_vec()))?;
        let bytes = match self.receive()? {
            Frame::Handle(bytes) => bytes,
            other => return Err(out_of_step(other)),
        };
        let len = bytes.len();
        let whole = |_| Failure::new(Stage::Peer, format_args!("a handle of {len} bytes"));
        bytes.try_into().map_err(whole)
    }

    /// Waits until both are here; each gives a number and gets the other's.
    pub(super) fn step(&mut self, name: &str, mine: f64) -> Result<f64, Failure> {
        self.send(&Frame::Step(name.to_owned(), mine))?;
        match self.receive()? {
            Frame::Step(theirs, number) if theirs == name => Ok(number),
            other => Err(out_of_step(other)),
        }
    }

    /// Tells the other side why this one gives up. That may not reach it any more.
    pub(super) fn failed(&mut self, why: &str) {
        drop(self.send(&Frame::Failed(why.to_owned())));
    }
}

/// Why a connection was not made.
const fn unmet(kind: io::ErrorKind) -> Stage {
    match kind {
        io::ErrorKind::ConnectionRefused => Stage::Refused,
        // What `Stream::connect` says of a name.
        io::ErrorKind::NotFound => Stage::Name,
        _ => Stage::Unreached,
    }
}

fn check(theirs: &Hello) -> Result<(), Failure> {
    if theirs.magic != MAGIC {
        return Err(Failure::new(
            Stage::Stranger,
            "whoever is there is no `ofi pair`",
        ));
    }
    if theirs.protocol != PROTOCOL {
        let what = format!(
            "this is version {} (protocol {PROTOCOL}), {} has {} (protocol {})",
            env!("CARGO_PKG_VERSION"),
            printable(&theirs.host),
            printable(&theirs.version),
            theirs.protocol
        );
        return Err(Failure::new(Stage::Agree, what));
    }
    Ok(())
}

/// A text of the other side, for people.
pub(super) fn printable(text: &str) -> String {
    let shown = text.chars().take(120);
    shown
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

fn ended(error: &io::Error) -> Failure {
    let what = match error.kind() {
        io::ErrorKind::UnexpectedEof
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::BrokenPipe => "the connection ended".to_owned(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "no answer in time".to_owned(),
        _ => error.to_string(),
    };
    Failure::new(Stage::Peer, what)
}

fn out_of_step(frame: Frame) -> Failure {
    match frame {
        Frame::Failed(why) => Failure::new(
            Stage::Peer,
            format_args!("the other side: {}", printable(&why)),
        ),
        _ => Failure::new(Stage::Peer, "the other side is out of step"),
    }
}
