//! What a process can tell of itself while it hangs: a JSON file, for people and for `ofi dump`, which
//! joins those of all ranks and names who is waited for.
//!
//! The types here are written by the transport and read by the tool, so that they cannot differ. The
//! fields are described in docs/hangs.md.

use serde::{Deserialize, Serialize};

mod file;
mod gather;
mod nic;
mod trace;

pub(crate) use file::Files;
pub use file::{changed_ns, stem};
pub(crate) use gather::{DomainFacts, comms};
pub use nic::NicCounters;
pub(crate) use nic::NicsAtStart;
pub use trace::Trace;

/// Version of the format: readers refuse others.
pub const SCHEMA: u32 = 1;

/// In [`Dump::tool`].
pub const TOOL: &str = "ofi-dump";

/// Name of the file in the directory that asks every process for a dump, by its time of change.
pub const TRIGGER: &str = "trigger";

/// Beginning of the name of a dump: `ofi-dump-HOST-PID-NUMBER.json`.
pub const FILE_PREFIX: &str = "ofi-dump-";

/// Communicators of a domain in one dump, at most: those that wait come first.
pub const COMMS_MAX: usize = 4096;

/// Why a dump was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// A domain was opened: so that a process that never answers later is known by name.
    Start,
    /// Something made no progress for `OFI_NCCL_STALL_WARN` seconds.
    Stall,
    /// The trigger file changed.
    Trigger,
    /// The first error of the process.
    Error,
}

/// The file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dump {
    /// [`TOOL`].
    pub tool: String,
    /// [`SCHEMA`].
    pub schema: u32,
    /// Version of the transport.
    pub version: String,
    /// Why it was written.
    pub reason: Reason,
    /// When, milliseconds since 1970.
    pub at_unix_ms: u64,
    /// The time of change of the trigger file that it answers, nanoseconds since 1970 on the clock of the
    /// file system; `None`: there was none.
    pub answers_ns: Option<u64>,
    /// Inode of the directory: dumps that were written to one directory have one clock for their
    /// triggers.
    pub dir_inode: u64,
    /// Who wrote it.
    pub process: Process,
    /// Version and path of libfabric.
    pub libfabric: String,
    /// `RDMA` or `SENDRECV`.
    pub protocol: String,
    /// `OFI_NCCL_STALL_WARN`, milliseconds; `None`: never.
    pub stall_warn_ms: Option<u64>,
    /// `OFI_NCCL_STALL_FAIL`, milliseconds; `None`: never.
    pub stall_fail_ms: Option<u64>,
    /// The devices found.
    pub devices: Vec<Device>,
    /// What their NICs counted themselves since the process started, where there is anything.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nics: Vec<NicCounters>,
    /// The domains that are open.
    pub domains: Vec<Domain>,
}

/// A process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its number on its host.
    pub pid: u32,
    /// When it was started, clock ticks after its host: with the number it names one process. 0: not
    /// known.
    pub start_ticks: u64,
    /// Name of its host.
    pub host: String,
    /// Its rank in the job, as its launcher says in the environment.
    pub rank: Option<u32>,
    /// Ranks of the job, as its launcher says.
    pub world: Option<u32>,
}

/// A device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Its number.
    pub index: usize,
    /// Its name.
    pub name: String,
    /// libfabric's name of the NIC of each rail.
    pub rails: Vec<String>,
}

/// The endpoints of a device that belong together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Domain {
    /// Number of its device.
    pub device: usize,
    /// What the log calls it.
    pub label: String,
    /// Another thread was in it: the rest is empty.
    pub busy: bool,
    /// What makes it unusable, if something does.
    pub poison: Option<String>,
    /// Sequence numbers of messages are counted modulo this.
    pub seq_modulus: u32,
    /// Addresses of its endpoints: `data0`, `ctl0`, ...
    pub endpoints: Vec<Endpoint>,
    /// Operations that the provider was too busy for.
    pub posts_waiting: u64,
    /// Times the provider said EAGAIN.
    pub eagain: u64,
    /// Messages sent, received, and failed communicators so far.
    pub sends: u64,
    /// Receives admitted.
    pub recvs: u64,
    /// Communicators that failed.
    pub failures: u64,
    /// Messages for nobody.
    pub strays: u64,
    /// Its communicators.
    pub comms: Vec<Comm>,
    /// Communicators beyond [`COMMS_MAX`].
    pub comms_omitted: u64,
    /// What went over its rails last, where that is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace>,
}

/// An endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// `data0`, `ctl0`, ...: kind and rail.
    pub lane: String,
    /// Its address, as people read it.
    pub address: String,
}

/// Kind of a communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// It waits for one connection.
    Listener,
    /// It sends.
    Send,
    /// It receives.
    Recv,
}

/// What a communicator waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// The provider does not take the connection message.
    SendConn,
    /// The peer has not answered it.
    AwaitConnResp,
    /// The answer to the peer's cannot be sent.
    SendConnResp,
    /// Accept is called, and nobody connects.
    AwaitConn,
    /// The provider does not take operations.
    Posting,
    /// Operations at the provider do not complete.
    Completions,
    /// The peer has not told where to send to: it has not posted the receive.
    AwaitCtrl,
    /// The peer's data has not come.
    AwaitData,
    /// The peer has not closed.
    AwaitClose,
}

/// A communicator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Comm {
    /// Its kind.
    pub kind: Kind,
    /// Our number of it.
    pub id: u32,
    /// The peer's number; while connecting that of its listener.
    pub peer_id: u32,
    /// Address of the peer's endpoint: `ctl0` under RDMA, `data0` under SENDRECV.
    pub peer: Option<String>,
    /// Its state.
    pub state: String,
    /// The caller has closed it.
    pub closed: bool,
    /// What it waits for, or waited for when it failed of that; `None`: for its caller alone, or for nothing.
    pub stage: Option<Stage>,
    /// How long nothing has moved while the caller looked, milliseconds.
    pub idle_ms: u64,
    /// How long the caller did not look meanwhile, milliseconds.
    pub away_ms: u64,
    /// Sequence number of the next message.
    pub next_seq: u32,
    /// Sequence number of the oldest message that test has not taken.
    pub oldest_seq: u32,
    /// Requests that test has not taken.
    pub outstanding: u32,
    /// Of them, those that are done.
    pub done: u32,
    /// Messages of the peer that wait for a call here.
    pub early: u32,
    /// CTRLs sent, or seen.
    pub ctrls: u64,
    /// Operations that the provider was too busy for.
    pub posts_waiting: u32,
    /// Operations at the provider.
    pub flying: u32,
    /// Times the provider said EAGAIN to its operations.
    #[serde(default)]
    pub eagain: u64,
    /// Listener: accept is being called.
    pub asked: bool,
    /// Send: the peer has answered, and connect has not been called since.
    pub answered: bool,
    /// The oldest request that is not done.
    pub oldest: Option<Request>,
    /// The failure that sticks to it.
    pub failure: Option<String>,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Its name, slot and generation: the same in the log.
    #[serde(default)]
    pub request: String,
    /// `send`, `eager send`, `receive`, ...
    pub kind: String,
    /// Its sequence number, if it is a message.
    pub seq: Option<u32>,
    /// Bytes asked for.
    pub bytes: u64,
    /// Bytes known to have moved.
    pub moved: u64,
    /// How old it is at least, milliseconds: since the watchdog first looked at it, which does so every second,
    /// or more often with a short `OFI_NCCL_STALL_WARN`, in calls that find nothing done.
    pub age_ms: u64,
    /// Completions it has, and needs; 0 as long as that is not known.
    pub completions: (u32, u32),
    /// Segments that came, and that there are; 0 before the first.
    pub segments: (u32, u32),
    /// Send: the peer told where to.
    pub ctrl_seen: bool,
    /// Operations that the provider was too busy for.
    pub posts_waiting: u32,
    /// Where it has operations at the provider: `data0`, `ctl0`, ...
    pub flying: Vec<String>,
}
