//! An engine with a rail that takes everything, and a peer made of bytes.

use core::hint::black_box;

use ofi_rdma::limits::{EP_NAME_BYTES, MAX_RAILS};
use ofi_rdma::wire::conn::Conn;
use ofi_rdma::wire::ctrl::Ctrl;
use ofi_rdma::{
    Admission, Base, Cause, CommKey, Config, Dialect, Engine, EpName, KeyWidth, Lane, Outcome,
    PeerAddr, Post, RailPort, RecvBuf, RegionId, ReqKey, SendBuf, Target, Test, Token,
};

/// Bytes of a message that is cut into as many stripes as there are rails.
pub(crate) const LONG: u32 = 1 << 20;

/// What takes a post, called through a pointer as a provider is.
type Take = fn(&mut Taken, &Post) -> Outcome;

/// Operations that a rail has at a time, at most.
const ROOM: usize = 256;

/// Tokens of what was posted and has not completed.
pub(crate) struct Taken {
    pub(crate) tokens: [Option<Token>; ROOM],
    pub(crate) len: usize,
}

impl Taken {
    pub(crate) const EMPTY: [Option<Token>; ROOM] = [const { None }; ROOM];
}

fn take(taken: &mut Taken, post: &Post) -> Outcome {
    black_box(post.wire());
    taken.tokens[taken.len % ROOM] = Some(post.token());
    taken.len += 1;
    Outcome::Accepted
}

/// A rail that takes everything.
pub(crate) struct Null {
    pub(crate) taken: Taken,
    take: Take,
}

impl Null {
    pub(crate) fn new() -> Self {
        Self {
            taken: Taken {
                tokens: Taken::EMPTY,
                len: 0,
            },
            take: black_box(take),
        }
    }
}

impl RailPort for Null {
    #[inline]
    fn post(&mut self, post: &Post) -> Outcome {
        (self.take)(&mut self.taken, post)
    }

    fn resolve(&mut self, _: Lane, _: &[u8; EP_NAME_BYTES]) -> Result<PeerAddr, Cause> {
        Ok(PeerAddr(1))
    }
}

fn config(rails: u8) -> Config {
    let name = EpName::new(&[1; 16]).unwrap();
    Config {
        data_rails: rails,
        control_rails: rails,
        control_names: [name; MAX_RAILS],
        data_names: [name; MAX_RAILS],
        key_width: KeyWidth::Short,
        lengths_told: true,
        cq_data_bytes: 4,
        eager_max: Some(8192),
        min_stripe_bytes: 65536,
        small_max_bytes: 64,
        connect_timeout_ms: 1000,
        stall_warn_ms: None,
        stall_fail_ms: None,
        close_messages: false,
        early_completion: false,
    }
}

/// One communicator of a bench: its key, its id, its next message.
#[derive(Clone, Copy)]
pub(crate) struct Comm {
    pub(crate) key: CommKey,
    pub(crate) id: u32,
    pub(crate) seq: u16,
}

pub(crate) struct Bench {
    pub(crate) engine: Engine,
    pub(crate) port: Null,
    rails: u8,
}

impl Bench {
    pub(crate) fn new(rails: u8) -> Self {
        Self {
            engine: Engine::new(config(rails)).unwrap(),
            port: Null::new(),
            rails,
        }
    }

    /// Completes what was posted; how many operations that were.
    pub(crate) fn complete(&mut self) -> u64 {
        let mut count = 0;
        for token in self.port.taken.tokens.iter_mut().take(self.port.taken.len) {
            if let Some(token) = token.take() {
                self.engine.on_local(token);
                count += 1;
            }
        }
        self.port.taken.len = 0;
        count
    }

    pub(crate) fn settle(&mut self) {
        self.engine.pump(&mut self.port);
        self.complete();
    }

    fn conn(&self, is_response: bool, remote_id: u32) -> [u8; 528] {
        let config = self.engine.config();
        let mut bytes = [0; 528];
        let conn = Conn {
            is_response,
            rails: self.rails,
            control_rails: self.rails,
            local_id: 1,
            remote_id,
            control_names: config.control_names,
            data_names: config.data_names,
            capabilities: None,
            host: None,
        };
        conn.encode(&mut bytes);
        bytes
    }

    pub(crate) fn sender(&mut self) -> Comm {
        let target = Target {
            control_name: [1; EP_NAME_BYTES],
            listener_id: 0,
        };
        let key = self.engine.connect(0, &mut self.port, &target).unwrap();
        self.settle();
        let id = self.engine.comm_info(key).unwrap().local_id;
        let answer = self.conn(true, id);
        self.engine.on_control(&answer);
        assert!(self.engine.poll_connect(key, 0, &mut self.port).unwrap());
        Comm { key, id, seq: 0 }
    }

    pub(crate) fn receiver(&mut self) -> Comm {
        let (listener, id) = self.engine.listen().unwrap();
        let request = self.conn(false, id);
        self.engine.on_control(&request);
        let made = self.engine.poll_accept(listener, 0, &mut self.port);
        assert_eq!(made.unwrap(), None);
        self.settle();
        let key = self.engine.poll_accept(listener, 0, &mut self.port);
        let key = key.unwrap().unwrap();
        let id = self.engine.comm_info(key).unwrap().local_id;
        Comm { key, id, seq: 0 }
    }

    pub(crate) fn done(&mut self, req: ReqKey) {
        assert!(matches!(self.engine.test(req), Ok(Test::Done(_))));
    }

    /// The CTRL of the next message.
    pub(crate) fn ctrl(&self, comm: &Comm, len: u32) -> ([u8; 48], usize) {
        let ctrl = Ctrl {
            no_completion: false,
            seq: comm.seq,
            comm_id: comm.id,
            buff_len: len,
            buff_addr: 0x1000,
            keys: [1; MAX_RAILS],
        };
        let mut bytes = [0; 48];
        let used = ctrl.encode(self.rails, KeyWidth::Short, &mut bytes);
        (bytes, used)
    }

    pub(crate) fn isend(&mut self, comm: &mut Comm, len: u32) -> ReqKey {
        let buf = SendBuf {
            addr: 0x2000,
            len: len.into(),
            region: RegionId(1),
        };
        comm.seq = comm.seq.wrapping_add(1) & 0x3FF;
        admitted(
            self.engine
                .isend_to(comm.key, black_box(buf), &mut self.port),
        )
    }

    pub(crate) fn irecv(&mut self, comm: &mut Comm) -> ReqKey {
        let buf = RecvBuf {
            addr: 0x2000,
            len: LONG.into(),
            region: RegionId(1),
            wire_addr: 0x2000,
            keys: [1; MAX_RAILS],
            optional: false,
        };
        comm.seq = comm.seq.wrapping_add(1) & 0x3FF;
        admitted(
            self.engine
                .irecv_to(comm.key, black_box(&buf), &mut self.port),
        )
    }
}

fn admitted(admission: Result<Admission, ofi_rdma::Error>) -> ReqKey {
    let Ok(Admission::Admitted(req)) = admission else {
        panic!("{admission:?}");
    };
    req
}

/// Immediate of a segment of the message before the next.
pub(crate) fn imm(comm: &Comm, segments: u8) -> u64 {
    let seq = comm.seq.wrapping_sub(1) & 0x3FF;
    Base::encode_imm(segments, comm.id, seq).into()
}
