//! What went over each rail, as it happens: all of it in a file (`OFI_NCCL_TRACE_FILE`), or the last of it in memory,
//! for dumps (`OFI_NCCL_TRACE_RING`).
//!
//! ```text
//!                                       +-> TraceFile (of the process) ~~~> ofi trace
//! Port::post ----+                      |      one write a pass
//! Port::resolve -+--> Trace (a domain) -+
//! harvest -------+      a record each   |
//!                                       +-> Ring ~~~> state dump ~~~> ofi trace
//! ```
//!
//! Off, both cost one look at an `Option` an operation. On, either reads the clock for every record. The file makes a
//! system call for every pass with records besides: for finding faults, not for measuring. The ring copies the
//! record into memory that it has from the start, under the domain's lock, which every caller has.

mod file;
mod last;
mod port;
mod tracing;

pub use file::TraceConfig;
pub(crate) use file::{MIB, TraceFile, create_new, host_name};
pub(crate) use tracing::{Clock, Tracing};

use crate::report::Note;
use ofi_rdma::limits::CONTROL_BUFFER_BYTES;
use ofi_rdma::{Cause, Outcome, Post, Remote, Token, Wire};
use ofi_trace::{Lane, Op, Record, Ring, Stamped};
use std::sync::Arc;

/// Records kept before they are written in the middle of a pass.
const PENDING_BYTES_MAX: usize = 1 << 16;

/// What one domain writes.
#[derive(Debug)]
pub(crate) struct Trace {
    clock: Clock,
    file: Option<Pending>,
    ring: Option<Ring>,
    /// The last operation of each lane that the provider was too busy for: it is offered over and over,
    /// and written down once.
    busy: [Option<Token>; ofi_rdma::Lane::COUNT_MAX],
}

/// What goes to the file.
#[derive(Debug)]
struct Pending {
    file: Arc<TraceFile>,
    /// The domain's number there.
    domain: u16,
    bytes: Vec<u8>,
}

impl Pending {
    fn flush(&mut self) {
        if !self.bytes.is_empty() {
            self.file.append(&self.bytes);
            self.bytes.clear();
        }
    }
}

const fn lane_of(lane: ofi_rdma::Lane) -> Lane {
    if lane.is_control() {
        Lane::control(lane.rail())
    } else {
        Lane::data(lane.rail())
    }
}

impl Trace {
    fn new(tracing: &Tracing) -> Self {
        let pending = |file: &Arc<TraceFile>| Pending {
            file: Arc::clone(file),
            domain: file.next_domain(),
            bytes: Vec::new(),
        };
        Self {
            clock: tracing.clock,
            file: tracing.file.as_ref().map(pending),
            ring: (tracing.ring > 0).then(|| Ring::new(tracing.ring)),
            busy: [None; ofi_rdma::Lane::COUNT_MAX],
        }
    }

    /// Keeps a record.
    pub(crate) fn keep(&mut self, lane: ofi_rdma::Lane, record: Record<'_>) {
        let stamped = self.stamped(lane, record);
        if let Some(ring) = &mut self.ring {
            ring.keep(&stamped);
        }
        self.keep_in_file(stamped);
    }

    fn stamped<'a>(&self, lane: ofi_rdma::Lane, record: Record<'a>) -> Stamped<'a> {
        Stamped {
            at_ns: self.clock.now_ns(),
            domain: 0,
            lane: lane_of(lane),
            record,
        }
    }

    fn keep_in_file(&mut self, stamped: Stamped<'_>) {
        let Some(pending) = &mut self.file else {
            return;
        };
        let domain = pending.domain;
        Stamped { domain, ..stamped }.encode(&mut pending.bytes);
        if pending.bytes.len() > PENDING_BYTES_MAX {
            pending.flush();
        }
    }

    /// Writes down who is meant by a number: for the file alone, since a dump says so anew.
    fn name(&mut self, lane: ofi_rdma::Lane, record: Record<'_>) {
        self.keep_in_file(self.stamped(lane, record));
    }

    /// Writes what was kept to the file; after every pass.
    pub(crate) fn flush(&mut self) {
        if let Some(pending) = &mut self.file {
            pending.flush();
        }
    }

    /// An operation that was offered to the provider, and what it said. `own` is our own address, which
    /// reads of our own memory go through.
    #[cold]
    pub(crate) fn post(&mut self, post: &Post, outcome: Outcome, own: u64) {
        if self.is_repeated(post.lane(), post.token(), outcome) {
            return;
        }
        let mut message = [0; CONTROL_BUFFER_BYTES];
        let written = match post.wire() {
            Wire::Control { .. } => post.encode(&mut message),
            _ => 0,
        };
        let (op, [peer, len, data, remote_addr, remote_key]) = describe(post.wire(), own);
        let record = Record::Post {
            op,
            outcome: said(outcome),
            token: post.token().0,
            peer,
            len,
            data,
            remote_addr,
            remote_key,
            message: message.get(..written).unwrap_or(&[]),
        };
        self.keep(post.lane(), record);
    }

    /// What is kept for the log is kept here too.
    #[cold]
    pub(crate) fn note(&mut self, note: &Note) {
        let text = note.to_string();
        self.keep(ofi_rdma::Lane::data(0), Record::Note { text: &text });
    }

    /// A completion that is an error.
    #[cold]
    pub(crate) fn failed(&mut self, lane: ofi_rdma::Lane, token: Option<Token>, cause: Cause) {
        let record = Record::Failed {
            token: token.map(|token| token.0),
            errno: cause.errno,
            provider_errno: cause.provider_errno,
        };
        self.keep(lane, record);
    }

    /// Whether this is an operation that the provider was too busy for the last time too.
    pub(crate) fn is_repeated(
        &mut self,
        lane: ofi_rdma::Lane,
        token: Token,
        outcome: Outcome,
    ) -> bool {
        let Some(busy) = self.busy.get_mut(lane.index()) else {
            return false;
        };
        let now = (outcome == Outcome::Busy).then_some(token);
        let repeated = now.is_some() && *busy == now;
        *busy = now;
        repeated
    }
}

pub(crate) const fn said(outcome: Outcome) -> ofi_trace::Outcome {
    match outcome {
        Outcome::Accepted => ofi_trace::Outcome::Accepted,
        Outcome::Completed => ofi_trace::Outcome::Injected,
        Outcome::Busy => ofi_trace::Outcome::Busy,
        Outcome::Failed(cause) => ofi_trace::Outcome::Failed { errno: cause.errno },
    }
}

/// The call, and its peer, bytes, CQ data, remote address and remote key.
fn describe(wire: &Wire, own: u64) -> (Op, [u64; 5]) {
    match *wire {
        Wire::Control { peer, len } => (Op::Control, [peer.0, u64::from(len), 0, 0, 0]),
        Wire::Eager { peer, len, imm, .. } => {
            (Op::Eager, [peer.0, u64::from(len), u64::from(imm), 0, 0])
        }
        Wire::Write {
            peer,
            len,
            remote_addr,
            remote_key,
            data,
            ..
        } => {
            let op = data.map_or(Op::Write, |_| Op::WriteData);
            let fields = [peer.0, len, data.unwrap_or(0), remote_addr, remote_key];
            (op, fields)
        }
        Wire::EagerCopy { len, .. } => (Op::EagerCopy, [own, u64::from(len), 0, 0, 0]),
        Wire::FlushRead { addr, .. } => (Op::Flush, [own, 4, 0, addr, 0]),
        Wire::Put { target, len, .. } => (Op::OneSidedWrite, remote(target, len)),
        Wire::Get { target, len, .. } => (Op::OneSidedRead, remote(target, len)),
    }
}

fn remote(target: Remote, len: u32) -> [u64; 5] {
    [target.peer.0, u64::from(len), 0, target.addr, target.key]
}
