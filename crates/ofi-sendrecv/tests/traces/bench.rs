//! One engine, and a peer made of bytes: every message of the peer is written here from the text of
//! the protocol (2c.10), and none of the engine's codecs is used to make or to read one.

use std::collections::VecDeque;

use ofi_rdma::limits::EP_NAME_BYTES;
use ofi_rdma::{
    Admission, Cause, CommKey, Done, EpName, Outcome, PeerAddr, Rails, RegionId, ReqKey, Test,
    Token,
};
use ofi_sendrecv::{Buffer, Config, Engine, Error, Op, Post, TagPort, TagSpace, Target, Wire};

/// A request that is done.
pub(crate) const fn done(bytes: u64) -> Test {
    let rails = Rails::FIRST;
    Test::Done(Done { bytes, rails })
}

/// Region of the caller's buffers.
pub(crate) const REGION: RegionId = RegionId(7);

/// `FI_TAG_GENERIC`: 64 bits, so that the control bit is the top one.
pub(crate) const FORMAT: u64 = 0xAAAA_AAAA_AAAA_AAAA;
pub(crate) const CONTROL: u64 = 1 << 63;

/// Bytes of a name here.
const NAME_LEN: u8 = 16;

/// An operation that the engine posted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Posted {
    pub(crate) token: Token,
    pub(crate) op: Op,
    pub(crate) wire: Wire,
    /// The bytes of a connect message.
    pub(crate) bytes: Vec<u8>,
}

/// A port that takes everything, unless told otherwise, and remembers it.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    pub(crate) posts: VecDeque<Posted>,
    pub(crate) cancels: Vec<Token>,
    /// Answers to the next posts; after them everything is accepted.
    pub(crate) answers: VecDeque<Outcome>,
    /// A peer to whom everything is busy.
    pub(crate) busy_peer: Option<PeerAddr>,
}

impl TagPort for Recorder {
    fn post(&mut self, post: &Post) -> Outcome {
        if let Wire::Send { peer, .. } | Wire::Connect { peer, .. } = *post.wire() {
            if self.busy_peer == Some(peer) {
                return Outcome::Busy;
            }
        }
        let outcome = self.answers.pop_front().unwrap_or(Outcome::Accepted);
        if matches!(outcome, Outcome::Accepted | Outcome::Completed) {
            self.posts.push_back(Posted {
                token: post.token(),
                op: post.op(),
                wire: *post.wire(),
                bytes: match post.op() {
                    Op::Connect => post.connect_bytes().to_vec(),
                    _ => Vec::new(),
                },
            });
        }
        outcome
    }

    fn cancel(&mut self, token: Token) {
        self.cancels.push(token);
    }

    fn resolve(&mut self, name: &[u8; EP_NAME_BYTES]) -> Result<PeerAddr, Cause> {
        match name[1..16] == [9; 15] {
            true => Ok(peer(name[0])),
            false => Err(Cause::errno(22)),
        }
    }
}

/// Name of an endpoint: `[who, 9, 9, ..]`, 16 bytes.
pub(crate) fn name(who: u8) -> [u8; EP_NAME_BYTES] {
    let mut name = [0; EP_NAME_BYTES];
    name[..usize::from(NAME_LEN)].fill(9);
    name[0] = who;
    name
}

/// Its address, as [`Recorder::resolve`] gives it.
pub(crate) const fn peer(who: u8) -> PeerAddr {
    PeerAddr(who as u64)
}

/// Protocol 2c.10: the connect message of `who`, the bytes behind its name full of rubbish.
pub(crate) fn connect_message(who: u8) -> Vec<u8> {
    let mut bytes = vec![0xEE; 80];
    bytes[..16].copy_from_slice(&name(who)[..16]);
    bytes[56..64].copy_from_slice(&16_u64.to_le_bytes());
    bytes[64..72].copy_from_slice(&0_u64.to_le_bytes());
    bytes
}

/// One engine and its port.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) engine: Engine,
    pub(crate) port: Recorder,
}

/// Settings of a bench.
pub(crate) fn config() -> Config {
    Config {
        name: EpName {
            bytes: name(b'U'),
            len: NAME_LEN,
        },
        tags: TagSpace::of(FORMAT).expect("64 bits"),
        message_bytes_max: 1 << 30,
        connect_timeout_ms: 1000,
        stall_warn_ms: None,
        stall_fail_ms: None,
    }
}

impl Default for Bench {
    fn default() -> Self {
        Self::new(config())
    }
}

impl Bench {
    pub(crate) fn new(config: Config) -> Self {
        Self {
            engine: Engine::new(config),
            port: Recorder::default(),
        }
    }

    /// Lets the engine post, and takes what it posted.
    pub(crate) fn posts(&mut self) -> Vec<Posted> {
        self.engine.pump(&mut self.port);
        self.port.posts.drain(..).collect()
    }

    /// The one operation that the engine posts now.
    pub(crate) fn post(&mut self) -> Posted {
        let mut posts = self.posts();
        assert_eq!(posts.len(), 1, "one operation: {posts:?}");
        posts.remove(0)
    }

    /// Nothing is posted now.
    pub(crate) fn quiet(&mut self) {
        let posts = self.posts();
        assert!(posts.is_empty(), "nothing to post: {posts:?}");
    }

    /// A send communicator to listener `tag` of the peer `who`.
    pub(crate) fn sender(&mut self, who: u8, tag: u32) -> CommKey {
        let target = Target {
            name: name(who),
            tag,
        };
        let comm = self.engine.connect(0, &mut self.port, &target).unwrap();
        let sent = self.post();
        self.engine.on_local(sent.token, 0);
        assert_eq!(self.engine.poll_connect(comm, 0), Ok(true));
        comm
    }

    /// A receive communicator of the peer `who`, its tag, and what awaits a second sender.
    pub(crate) fn receiver(&mut self, who: u8) -> (CommKey, u32, Posted) {
        let (listener, tag) = self.engine.listen().unwrap();
        let awaited = self.post();
        self.engine.on_connect(awaited.token, &connect_message(who));
        let accepted = self.engine.poll_accept(listener, 0, &mut self.port);
        let comm = accepted.unwrap().unwrap();
        self.engine.close(listener, 0).unwrap();
        let watch = self.post();
        assert_eq!(watch.op, Op::Await);
        (comm, tag, watch)
    }

    /// An isend that is admitted, and its post, which [`Bench::posts`] then gives.
    pub(crate) fn isend(&mut self, comm: CommKey, addr: u64, len: u64) -> ReqKey {
        let admission = self.engine.isend(comm, buffer(addr, len));
        self.engine.pump(&mut self.port);
        match admission {
            Ok(Admission::Admitted(req)) => req,
            other => panic!("isend of {len} bytes: {other:?}"),
        }
    }

    /// As [`Bench::isend`].
    pub(crate) fn irecv(&mut self, comm: CommKey, addr: u64, len: u64) -> ReqKey {
        let admission = self.engine.irecv(comm, buffer(addr, len));
        self.engine.pump(&mut self.port);
        match admission {
            Ok(Admission::Admitted(req)) => req,
            other => panic!("irecv of {len} bytes: {other:?}"),
        }
    }

    pub(crate) fn pending(&mut self, req: ReqKey) {
        let test = self.engine.test(req);
        assert!(matches!(test, Ok(Test::Pending { .. })), "{test:?}");
    }

    pub(crate) fn done(&mut self, req: ReqKey, bytes: u64) {
        assert_eq!(self.engine.test(req), Ok(done(bytes)));
        let again = self.engine.test(req);
        assert_eq!(again, Err(Error::Common(ofi_rdma::Error::NoSuchRequest)));
    }

    /// Closes a communicator, and gives back as cancelled what the engine asks for.
    pub(crate) fn close(&mut self, comm: CommKey) {
        self.engine.close(comm, 0).unwrap();
        self.engine.pump(&mut self.port);
        for token in self.port.cancels.split_off(0) {
            self.engine.on_failed(token, Cause::errno(Cause::CANCELED));
        }
    }

    /// Everything is back where it began.
    pub(crate) fn baseline(&mut self) {
        let engine = &self.engine;
        assert_eq!(engine.live_comms(), 0, "communicators");
        assert_eq!(engine.live_requests(), 0, "requests");
        assert_eq!(engine.posts_waiting(), 0, "posts waiting");
        assert_eq!(engine.region_refs(REGION), 0, "references to the region");
        assert!(self.port.cancels.is_empty());
    }
}

pub(crate) const fn buffer(addr: u64, len: u64) -> Buffer {
    Buffer {
        addr,
        len,
        region: REGION,
    }
}
