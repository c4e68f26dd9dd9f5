//! What the transport costs on the path of a message, in instructions: from `isend` to the call of libfabric, and from the
//! entry of a completion queue to the request. One case a run, under callgrind, which counts only inside
//! [`measured`]; in place of the provider's data path stand two functions that do next to nothing.
//!
//! `cargo xtask hot` compares it with a build without counters and traces. `ring` behind the case keeps the last 1000
//! records, as `OFI_NCCL_TRACE_RING` does. `FI_PROVIDER` names a provider for
//! IP addresses; it sets up the connection, and is measured in none.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a measurement that cannot start is none"
)]

mod rails;
#[path = "../../tests/faults/table.rs"]
mod table;

use core::ffi::c_void;
use core::hint::black_box;
use ofi_net::log::NoLog;
use ofi_net::params::Flavour;
use ofi_net::{CommWord, Config, DumpConfig, MemoryKind, MrWord, Protocol, ReqWord, Transport};
use ofi_rdma::{Base, Dialect as _};
use std::path::PathBuf;
use std::sync::Arc;

/// Messages of a connection: less than there can be at a time.
const MESSAGES: usize = 100;

/// In one piece, and too long to go eagerly.
const LONG: usize = 50_000;
const SHORT: usize = 4000;

/// Records that are kept, if any are.
const RING: usize = 1000;

/// The part of a run that is counted.
#[inline(never)]
fn measured<R>(work: impl FnOnce() -> R) -> R {
    work()
}

/// A transport, with memory that it may use.
struct Side {
    net: Transport,
    memory: Vec<u8>,
    /// Nobody connects to it: asking it makes progress and nothing else.
    spare: CommWord,
}

impl Side {
    fn new() -> Self {
        let config = Config {
            libfabric_path: std::env::var_os("OFI_LIBFABRIC_PATH").map(Into::into),
            fi_provider: std::env::var("FI_PROVIDER").ok(),
            exclude_tcp_if: Vec::new(),
            protocol: Some(Protocol::Rdma),
            force_num_rails: Some(1),
            ..Config::new(Flavour::Neuron)
        };
        let is_kept = std::env::args().nth(2).is_some_and(|word| word == "ring");
        let config = match is_kept {
            true => with_ring(config),
            false => config,
        };
        let net = Transport::init(config, Arc::new(NoLog)).unwrap();
        let spare = net.listen(0, &mut [0; 128]).unwrap();
        Self {
            net,
            memory: vec![0; LONG],
            spare,
        }
    }

    fn nudge(&self) {
        assert_eq!(self.net.accept(self.spare).unwrap(), None);
    }

    fn start(&self) -> *mut c_void {
        self.memory.as_ptr().cast_mut().cast()
    }

    fn register(&self, comm: CommWord) -> MrWord {
        // SAFETY: the memory lives as long as the transport.
        unsafe { self.net.reg_mr(comm, self.start(), LONG, MemoryKind::Host) }.unwrap()
    }

    fn isend(&self, comm: (CommWord, MrWord), len: usize) -> ReqWord {
        self.try_isend(comm, len).unwrap()
    }

    /// `None`: not now.
    fn try_isend(&self, (comm, mr): (CommWord, MrWord), len: usize) -> Option<ReqWord> {
        // SAFETY: as above.
        unsafe { self.net.isend(comm, self.start(), len, Some(mr)) }.unwrap()
    }

    /// `None`: not now.
    fn irecv(&self, (comm, mr): (CommWord, MrWord)) -> Option<ReqWord> {
        // SAFETY: as above.
        unsafe { self.net.irecv(comm, self.start(), LONG, Some(mr), false) }.unwrap()
    }

    fn is_done(&self, request: ReqWord) -> bool {
        self.net.test(request).unwrap().is_some()
    }
}

/// Of the dumps that records are kept for; nobody asks for them.
fn dumps() -> PathBuf {
    std::env::temp_dir().join(format!("net_hot_path-{}", std::process::id()))
}

fn with_ring(config: Config) -> Config {
    Config {
        dump: Some(DumpConfig {
            dir: dumps(),
            rank: None,
            world: None,
        }),
        trace_ring: RING,
        ..config
    }
}

/// A sender and a receiver that are connected, with memory registered for each.
struct Pair {
    a: Side,
    b: Side,
    send: (CommWord, MrWord),
    recv: (CommWord, MrWord),
}

impl Pair {
    fn new() -> Self {
        rails::take_out(false);
        let (a, b) = (Side::new(), Side::new());
        let mut handle = [0; 128];
        let listener = b.net.listen(0, &mut handle).unwrap();
        let (mut send, mut recv) = (None, None);
        while send.is_none() || recv.is_none() {
            send = send.or_else(|| a.net.connect(0, &mut handle).unwrap());
            recv = recv.or_else(|| b.net.accept(listener).unwrap());
            a.nudge();
            b.nudge();
        }
        let (send, recv) = (send.unwrap(), recv.unwrap());
        let (from, to) = (a.register(send), b.register(recv));
        Self {
            send: (send, from),
            recv: (recv, to),
            a,
            b,
        }
    }

    /// As many messages as are measured, of both kinds and over the provider: what grows has grown.
    fn warm_up(&self) {
        for len in [LONG, SHORT] {
            let received = self.receives();
            let mut sent = Vec::new();
            while sent.len() < MESSAGES {
                sent.extend(self.a.try_isend(self.send, len));
                self.b.nudge();
            }
            for (sent, received) in sent.into_iter().zip(received) {
                while !self.a.is_done(sent) {
                    self.b.nudge();
                }
                while !self.b.is_done(received) {
                    self.a.nudge();
                }
            }
        }
    }

    /// The receives are posted, and the sender knows of all of them.
    fn receives(&self) -> Vec<ReqWord> {
        let mut received = Vec::new();
        while received.len() < MESSAGES {
            received.extend(self.b.irecv(self.recv));
            self.a.nudge();
            self.b.nudge();
        }
        // Nothing tells that the last one came: far more passes than it takes.
        for _ in 0..20_000 {
            self.a.nudge();
            self.b.nudge();
        }
        received
    }
}

/// What a case did: operations measured.
type Case = fn(&Pair) -> usize;

/// isend of a message whose CTRL is here, to its post.
fn isend(pair: &Pair) -> usize {
    let _received = pair.receives();
    rails::take_out(true);
    for _ in 0..MESSAGES {
        measured(|| black_box(pair.a.isend(pair.send, LONG)));
    }
    assert_eq!(rails::posted(), MESSAGES, "each was posted at once");
    MESSAGES
}

/// isend of a message that goes before its CTRL.
fn eager(pair: &Pair) -> usize {
    rails::take_out(true);
    for _ in 0..MESSAGES {
        measured(|| black_box(pair.a.isend(pair.send, SHORT)));
    }
    assert_eq!(rails::posted(), MESSAGES, "each was posted at once");
    MESSAGES
}

/// irecv to the post of its CTRL. Each has left before the next, so that nothing grows.
fn irecv(pair: &Pair) -> usize {
    rails::take_out(true);
    for _ in 0..MESSAGES {
        measured(|| black_box(pair.b.irecv(pair.recv).unwrap()));
        assert_eq!(rails::posted(), 1, "it was posted at once");
        rails::complete();
        pair.b.nudge();
    }
    MESSAGES
}

/// Completions of writes, taken by a test.
fn local(pair: &Pair) -> usize {
    let _received = pair.receives();
    rails::take_out(true);
    let sent: Vec<ReqWord> = (0..MESSAGES)
        .map(|_| pair.a.isend(pair.send, LONG))
        .collect();
    rails::complete();
    measured(|| assert!(pair.a.is_done(sent[0])));
    assert!(sent[1..].iter().all(|&request| pair.a.is_done(request)));
    MESSAGES
}

/// Writes of the peer, taken by a test.
fn remote(pair: &Pair) -> usize {
    rails::take_out(true);
    let received = (0..MESSAGES).map(|_| pair.b.irecv(pair.recv).unwrap());
    let received: Vec<ReqWord> = received.collect();
    rails::complete();
    assert!(!pair.b.is_done(received[0]), "CTRL is out");
    let id = pair.b.net.comm_info(pair.recv.0).unwrap().local_id;
    // After those of the warm-up.
    let immediates = (2 * MESSAGES..3 * MESSAGES).map(|seq| {
        let seq = u16::try_from(seq).unwrap();
        u64::from(Base::encode_imm(1, id, seq))
    });
    let immediates: Vec<u64> = immediates.collect();
    rails::arrive(&immediates, LONG);
    measured(|| assert!(pair.b.is_done(received[0])));
    assert!(received[1..].iter().all(|&request| pair.b.is_done(request)));
    MESSAGES
}

/// Whole messages of 8 bytes, provider and all: windows of 32, from `irecv` to the last `test`.
fn window(pair: &Pair) -> usize {
    const WINDOW: usize = 32;
    let mut count = 0;
    for round in 0..12 {
        let one = || {
            let mut received: Vec<ReqWord> = Vec::with_capacity(WINDOW);
            let mut sent: Vec<ReqWord> = Vec::with_capacity(WINDOW);
            while received.len() < WINDOW {
                received.extend(pair.b.irecv(pair.recv));
            }
            while sent.len() < WINDOW {
                sent.extend(pair.a.try_isend(pair.send, 8));
            }
            while !sent.is_empty() || !received.is_empty() {
                sent.retain(|&request| !pair.a.is_done(request));
                received.retain(|&request| !pair.b.is_done(request));
            }
        };
        if round < 4 {
            one();
        } else {
            measured(one);
            count += WINDOW;
        }
    }
    count
}

/// The measuring itself.
fn frame(_: &Pair) -> usize {
    for _ in 0..MESSAGES {
        measured(|| black_box(()));
    }
    MESSAGES
}

const CASES: [(&str, Case); 7] = [
    ("frame", frame),
    ("net_isend", isend),
    ("net_eager", eager),
    ("net_irecv", irecv),
    ("net_local", local),
    ("net_remote", remote),
    ("net_window", window),
];

fn main() {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    let Some((_, case)) = CASES.iter().find(|(name, _)| *name == wanted) else {
        for (name, _) in CASES {
            println!("{name}");
        }
        return;
    };
    rails::install();
    let pair = Pair::new();
    pair.warm_up();
    println!("{}", case(&pair));
    // Where there was no ring there is nothing to remove.
    let _was_there: bool = std::fs::remove_dir_all(dumps()).is_ok();
    // Nothing that was posted ever ends: what uses it is left as it is.
    let _kept = core::mem::ManuallyDrop::new(pair);
}
