//! One engine, and a peer made of bytes: every message of the peer is written here from the text of
//! the protocol (2c), and none of the engine's codecs is used to make or to read one.

use std::collections::VecDeque;

use ofi_rdma::limits::{EP_NAME_BYTES, MAX_RAILS};
use ofi_rdma::{
    Admission, Cause, CommKey, Config, Engine, EpName, Error, KeyWidth, Lane, Outcome, PeerAddr,
    Post, RailPort, RecvBuf, RegionId, ReqKey, SendBuf, Target, Test, Token, Wire,
};

/// Id of the peer's communicator in these traces.
pub(crate) const PEER: u32 = 1;

/// Region of the caller's buffers.
pub(crate) const REGION: RegionId = RegionId(7);

/// Bytes of a name here.
const NAME_LEN: u8 = 32;

/// An operation that the engine posted.
#[derive(Clone, Debug)]
pub(crate) struct Posted {
    pub(crate) token: Token,
    pub(crate) lane: Lane,
    pub(crate) wire: Wire,
    /// The message, of a control operation.
    pub(crate) bytes: Vec<u8>,
}

/// A port that takes everything, unless told otherwise, and remembers it.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    pub(crate) posts: VecDeque<Posted>,
    /// Answers to the next posts; after them everything is accepted.
    pub(crate) answers: VecDeque<Outcome>,
}

impl RailPort for Recorder {
    fn post(&mut self, post: &Post) -> Outcome {
        let outcome = self.answers.pop_front().unwrap_or(Outcome::Accepted);
        if matches!(outcome, Outcome::Accepted | Outcome::Completed) {
            let wire = *post.wire();
            let len = if let Wire::Control { len, .. } = wire {
                usize::from(len)
            } else {
                0
            };
            let mut bytes = vec![0xCC; len];
            assert_eq!(post.encode(&mut bytes), len);
            self.posts.push_back(Posted {
                token: post.token(),
                lane: post.lane(),
                wire,
                bytes,
            });
        }
        outcome
    }

    fn resolve(&mut self, lane: Lane, name: &[u8; EP_NAME_BYTES]) -> Result<PeerAddr, Cause> {
        // A name says whose it is and for which lane: anything else is refused.
        let known = name[1] == u8::try_from(lane.index()).unwrap_or(0xFF);
        let addr = PeerAddr(u64::from(name[0]) << 8 | u64::from(name[1]));
        if known {
            Ok(addr)
        } else {
            Err(Cause::errno(22))
        }
    }
}

/// Name of an endpoint: `[who, lane, 9, 9, ..]`, 32 bytes.
pub(crate) fn name(who: u8, lane: Lane) -> [u8; EP_NAME_BYTES] {
    let mut name = [0; EP_NAME_BYTES];
    name[..usize::from(NAME_LEN)].fill(9);
    name[0] = who;
    name[1] = u8::try_from(lane.index()).unwrap_or(0xFF);
    name
}

/// The peer's address on a lane, as [`Recorder::resolve`] gives it.
pub(crate) fn peer(lane: Lane) -> PeerAddr {
    PeerAddr(u64::from(b'P') << 8 | lane.index() as u64)
}

/// Protocol 2c.3: 528 bytes of CONN (type 0) or `CONN_RESP` (type 1), unused bytes full of rubbish
/// as BASE leaves them.
pub(crate) fn conn(kind: u8, rails: u8, control_rails: u8, local: u32, remote: u32) -> Vec<u8> {
    let mut bytes = vec![0xEE; 528];
    bytes[0] = 0xE0 | kind;
    bytes[2..4].copy_from_slice(&u16::from(rails).to_le_bytes());
    bytes[4..6].copy_from_slice(&u16::from(control_rails).to_le_bytes());
    bytes[8..12].copy_from_slice(&local.to_le_bytes());
    bytes[12..16].copy_from_slice(&remote.to_le_bytes());
    for (base, count, lane) in [
        (16, control_rails, Lane::control as fn(u8) -> Lane),
        (272, rails, Lane::data as fn(u8) -> Lane),
    ] {
        for rail in 0..count {
            let at = base + 64 * usize::from(rail);
            let used = usize::from(NAME_LEN);
            bytes[at..at + used].copy_from_slice(&name(b'P', lane(rail))[..used]);
            bytes[at + 56..at + 64].copy_from_slice(&u64::from(NAME_LEN).to_le_bytes());
        }
    }
    bytes
}

/// Protocol 2c.4 with short keys: type 2 or 5.
pub(crate) fn ctrl(kind: u32, seq: u32, comm: u32, len: u32, addr: u64, keys: &[u32]) -> Vec<u8> {
    let mut bytes = (kind | seq << 4 | comm << 14).to_le_bytes().to_vec();
    bytes.extend(len.to_le_bytes());
    bytes.extend(addr.to_le_bytes());
    keys.iter().for_each(|key| bytes.extend(key.to_le_bytes()));
    bytes
}

/// One engine and its port.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) engine: Engine,
    pub(crate) port: Recorder,
}

/// Settings of a bench: rails, control rails; eager up to 8192 bytes, stripes of 64 KiB.
pub(crate) fn config(rails: u8, control_rails: u8) -> Config {
    let names = |count: u8, lane: fn(u8) -> Lane| {
        let mut names = [EpName::EMPTY; MAX_RAILS];
        for (rail, slot) in (0..count).zip(&mut names) {
            let bytes = name(b'U', lane(rail));
            *slot = EpName {
                bytes,
                len: NAME_LEN,
            };
        }
        names
    };
    Config {
        data_rails: rails,
        control_rails,
        control_names: names(control_rails, Lane::control),
        data_names: names(rails, Lane::data),
        key_width: KeyWidth::Short,
        lengths_told: true,
        cq_data_bytes: 4,
        eager_max: Some(8192),
        min_stripe_bytes: 64 << 10,
        small_max_bytes: 64,
        connect_timeout_ms: 1000,
        stall_warn_ms: None,
        stall_fail_ms: None,
        close_messages: false,
        early_completion: false,
    }
}

impl Bench {
    pub(crate) fn new(config: Config) -> Self {
        Self {
            engine: Engine::new(config).expect("a good configuration"),
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
        let posts = self.posts();
        assert_eq!(posts.len(), 1, "one operation: {posts:?}");
        posts.into_iter().next().expect("there is one")
    }

    /// Nothing is posted now.
    pub(crate) fn quiet(&mut self) {
        let posts = self.posts();
        assert!(posts.is_empty(), "nothing to post: {posts:?}");
    }

    /// A send communicator with id 0, connected to the peer's receive communicator [`PEER`].
    pub(crate) fn sender(&mut self, rails: u8, control_rails: u8) -> CommKey {
        let target = Target {
            control_name: name(b'P', Lane::control(0)),
            listener_id: 0,
        };
        let comm = self
            .engine
            .connect(0, &mut self.port, &target)
            .expect("connect");
        let sent = self.post();
        self.engine.on_local(sent.token);
        self.engine
            .on_control(&conn(1, rails, control_rails, PEER, 0));
        assert_eq!(self.engine.poll_connect(comm, 0, &mut self.port), Ok(true));
        comm
    }

    /// A send communicator whose id is `id`, on one rail.
    pub(crate) fn sender_with(&mut self, id: u32) -> CommKey {
        let target = Target {
            control_name: name(b'P', Lane::control(0)),
            listener_id: 0,
        };
        let comm = self
            .engine
            .connect(0, &mut self.port, &target)
            .expect("connect");
        let sent = self.post();
        self.engine.on_local(sent.token);
        self.engine.on_control(&conn(1, 1, 1, PEER, id));
        assert_eq!(self.engine.poll_connect(comm, 0, &mut self.port), Ok(true));
        comm
    }

    /// A receive communicator with id 1, connected to the peer's send communicator 0.
    pub(crate) fn receiver(&mut self, rails: u8, control_rails: u8) -> CommKey {
        let (listener, id) = self.engine.listen().expect("listen");
        assert_eq!(id, 0);
        self.engine.on_control(&conn(0, rails, control_rails, 0, 0));
        assert_eq!(
            self.engine.poll_accept(listener, 0, &mut self.port),
            Ok(None)
        );
        let sent = self.post();
        self.engine.on_local(sent.token);
        let comm = self
            .engine
            .poll_accept(listener, 0, &mut self.port)
            .expect("accept");
        comm.expect("accepted")
    }

    pub(crate) fn isend(&mut self, comm: CommKey, addr: u64, len: u64) -> ReqKey {
        let buf = SendBuf {
            addr,
            len,
            region: REGION,
        };
        match self.engine.isend_to(comm, buf, &mut self.port) {
            Ok(Admission::Admitted(req)) => req,
            other => panic!("isend of {len} bytes: {other:?}"),
        }
    }

    pub(crate) fn irecv(&mut self, comm: CommKey, addr: u64, len: u64, keys: [u64; 4]) -> ReqKey {
        let buf = RecvBuf {
            addr,
            len,
            region: REGION,
            wire_addr: addr,
            keys,
            optional: false,
        };
        match self.engine.irecv(comm, &buf) {
            Ok(Admission::Admitted(req)) => req,
            other => panic!("irecv of {len} bytes: {other:?}"),
        }
    }

    pub(crate) fn pending(&mut self, req: ReqKey) {
        let test = self.engine.test(req);
        assert!(
            matches!(test, Ok(Test::Pending { .. })),
            "not done yet: {test:?}"
        );
    }

    pub(crate) fn done(&mut self, req: ReqKey, bytes: u64) {
        match self.engine.test(req) {
            Ok(Test::Done(done)) => assert_eq!(done.bytes, bytes),
            other => panic!("done with {bytes} bytes: {other:?}"),
        }
        assert_eq!(
            self.engine.test(req),
            Err(Error::NoSuchRequest),
            "done once"
        );
    }

    /// Everything is back where it began.
    pub(crate) fn baseline(&mut self) {
        let engine = &self.engine;
        assert_eq!(engine.live_comms(), 0, "communicators");
        assert_eq!(engine.live_requests(), 0, "requests");
        assert_eq!(engine.posts_waiting(), 0, "posts waiting");
        assert_eq!(engine.early_messages(), 0, "messages kept");
        assert_eq!(engine.region_refs(REGION), 0, "references to the region");
    }
}
