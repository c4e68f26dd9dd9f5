//! Why a rank gives up.

use core::fmt;
use std::io;

use thiserror::Error;

use crate::abi::{AbiError, CallError};
use crate::coord::ControlError;

/// A direction of a communicator, as seen from one rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) sending: bool,
    pub(crate) peer: usize,
    pub(crate) comm: usize,
    pub(crate) device: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let direction = if self.sending {
            "send to"
        } else {
            "receive from"
        };
        let Self {
            peer, comm, device, ..
        } = self;
        write!(f, "{direction} rank {peer}, comm {comm}, device {device}")
    }
}

#[derive(Debug, Error)]
pub(crate) enum Fail {
    #[error("{stage}: {error}")]
    Setup { stage: String, error: AbiError },
    #[error("{place}, message {message}: {error}")]
    Call {
        place: Place,
        message: u64,
        error: CallError,
    },
    #[error(
        "wrong data: {place}, message {message}: byte {at} of {len} is {got:#04x}, {want:#04x} was sent\n  likely: segments misplaced or completed too early, or the buffer was reused too soon\n  try: the same --seed again, a smaller --window, one --comms"
    )]
    WrongByte {
        place: Place,
        message: u64,
        at: usize,
        len: usize,
        got: u8,
        want: u8,
    },
    #[error(
        "guard bytes overwritten: {place}, message {message} of {len} bytes: the byte at {at} (relative to its start) was changed\n  likely: the plugin wrote outside the message or the posted buffer"
    )]
    Guard {
        place: Place,
        message: u64,
        at: i64,
        len: usize,
    },
    #[error(
        "wrong size: {place}, message {message}: test() reported {reported} bytes; {sent} were sent into a buffer of {room}\n  likely: a provider that does not tell lengths (--lax-sizes accepts that), or truncation that the two sides disagree about"
    )]
    Size {
        place: Place,
        message: u64,
        reported: usize,
        sent: usize,
        room: usize,
    },
    #[error(
        "the send buffer was changed: {place}, message {message}: byte {at} of {len}\n  likely: the plugin wrote into a buffer it may only read"
    )]
    SendChanged {
        place: Place,
        message: u64,
        at: usize,
        len: usize,
    },
    #[error(
        "wrong result of {operation}, operation {round}: element {index} is {got}, should be {want}\n  likely: data misplaced or overwritten on the way; run check with the same --seed"
    )]
    Element {
        operation: &'static str,
        round: u64,
        index: usize,
        got: String,
        want: String,
    },
    #[error("{operation}, operation {round}: byte {at} beside the {area} buffer was changed")]
    AreaGuard {
        operation: &'static str,
        round: u64,
        area: &'static str,
        at: usize,
    },
    #[error(
        "--devices names device {index}, the plugin has {count} (0 to {})\n  likely: interfaces are filtered, or another plugin was meant",
        count - 1
    )]
    NoDevice { index: usize, count: usize },
    #[error(
        "--truncate: device {index} does not claim global registrations (regIsGlobal 0), so its protocol does not truncate (SENDRECV)\n  try: without --truncate"
    )]
    NoTruncation { index: usize },
    #[error("cannot map {bytes} bytes: {error}\n  try: a smaller --pool, --window or size")]
    Memory { bytes: usize, error: io::Error },
    #[error(
        "the ranks disagree about the connections to make: rank {from} offers no handle to {to}"
    )]
    NoHandle { from: usize, to: usize },
    #[error("a plan without a plugin: a fault of this tool")]
    NoPlugin,
    #[error("{0}")]
    Raw(String),
    #[error("an operation failed: {0}")]
    Completion(String),
    #[error(
        "device {device} speaks SENDRECV here, which has no raw equivalent\n  likely: it has one NIC\n  try: OFI_NCCL_PROTOCOL=RDMA"
    )]
    NoRails { device: usize },
    #[error("this rank has {ours} rails and the other has {theirs}")]
    Rails { ours: usize, theirs: usize },
    #[error("the run is over")]
    Over,
    #[error(transparent)]
    Control(#[from] ControlError),
}

/// Names the stage in which a call of the plugin failed.
pub(crate) trait At<T> {
    fn at(self, stage: impl FnOnce() -> String) -> Result<T, Fail>;
}

impl<T, E: Into<AbiError>> At<T> for Result<T, E> {
    fn at(self, stage: impl FnOnce() -> String) -> Result<T, Fail> {
        self.map_err(|error| Fail::Setup {
            stage: stage(),
            error: error.into(),
        })
    }
}
