//! What the engine costs for each message, in instructions: run under callgrind, once for each case.
//!
//! ```text
//! cargo build --release -p ofi-rdma --example instructions
//! for case in base send1 send4 recv1 recv4 idle; do
//!     valgrind --tool=callgrind --callgrind-out-file=/dev/null \
//!         target/release/examples/instructions $case 2>&1 | grep Collected
//! done
//! ```
//!
//! Subtract `base`, divide by the number of messages. Both ends of a message are counted where they
//! belong: `send*` is isend, the posts, their completions and test; `recv*` is irecv, the post of its
//! CTRL, its completion, the segments and test; the port answers "accepted" and keeps the token.
#![expect(
    clippy::unwrap_used,
    reason = "a measurement that cannot start is none"
)]

use core::hint::black_box;

use ofi_rdma::limits::{EP_NAME_BYTES, MAX_RAILS};
use ofi_rdma::wire::conn::Conn;
use ofi_rdma::wire::ctrl::Ctrl;
use ofi_rdma::{
    Admission, Cause, CommKey, Config, Engine, EpName, KeyWidth, Lane, Outcome, PeerAddr, Post,
    RailPort, RecvBuf, RegionId, ReqKey, SendBuf, Target, Test, Token,
};

const MESSAGES: u64 = 100_000;

/// Takes everything.
#[derive(Default)]
struct Null {
    tokens: [Option<Token>; 8],
    len: usize,
}

impl RailPort for Null {
    #[inline(never)]
    fn post(&mut self, post: &Post) -> Outcome {
        black_box(post.wire());
        self.tokens[self.len & 7] = Some(post.token());
        self.len += 1;
        Outcome::Accepted
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

struct Bench {
    engine: Engine,
    port: Null,
    comm: CommKey,
    rails: u8,
}

impl Bench {
    fn drain(&mut self) {
        self.engine.pump(&mut self.port);
        for token in self.port.tokens.iter_mut().take(self.port.len) {
            if let Some(token) = token.take() {
                self.engine.on_local(token);
            }
        }
        self.port.len = 0;
    }

    fn answer(&self, is_response: bool) -> [u8; 528] {
        let config = self.engine.config();
        let mut bytes = [0; 528];
        let conn = Conn {
            is_response,
            rails: self.rails,
            control_rails: self.rails,
            local_id: 1,
            remote_id: 0,
            control_names: config.control_names,
            data_names: config.data_names,
            capabilities: None,
        };
        conn.encode(&mut bytes);
        bytes
    }

    fn sender(rails: u8) -> Self {
        let (mut engine, mut port) = (Engine::new(config(rails)).unwrap(), Null::default());
        let target = Target {
            control_name: [1; EP_NAME_BYTES],
            listener_id: 0,
        };
        let comm = engine.connect(0, &mut port, &target).unwrap();
        let mut bench = Self {
            engine,
            port,
            comm,
            rails,
        };
        bench.drain();
        let answer = bench.answer(true);
        bench.engine.on_control(&answer);
        assert!(bench.engine.poll_connect(comm, 0, &mut bench.port).unwrap());
        bench
    }

    fn receiver(rails: u8) -> Self {
        let (mut engine, port) = (Engine::new(config(rails)).unwrap(), Null::default());
        let (listener, _) = engine.listen().unwrap();
        let mut bench = Self {
            engine,
            port,
            comm: listener,
            rails,
        };
        let answer = bench.answer(false);
        bench.engine.on_control(&answer);
        assert_eq!(
            bench
                .engine
                .poll_accept(listener, 0, &mut bench.port)
                .unwrap(),
            None
        );
        bench.drain();
        let comm = bench
            .engine
            .poll_accept(listener, 0, &mut bench.port)
            .unwrap();
        bench.comm = comm.unwrap();
        bench
    }

    fn done(&mut self, req: ReqKey) {
        assert!(matches!(self.engine.test(req), Ok(Test::Done(_))));
    }

    fn send(&mut self, seq: u64, len: u32) {
        let seq = u16::try_from(seq & 0x3FF).unwrap();
        let ctrl = Ctrl {
            no_completion: false,
            seq,
            comm_id: 0,
            buff_len: len,
            buff_addr: 0x1000,
            keys: [1; MAX_RAILS],
        };
        let mut bytes = [0; 48];
        let used = ctrl.encode(self.rails, KeyWidth::Short, &mut bytes);
        self.engine.on_control(&bytes[..used]);
        let buf = SendBuf {
            addr: 0x2000,
            len: len.into(),
            region: RegionId(1),
        };
        let Ok(Admission::Admitted(req)) = self.engine.isend(self.comm, black_box(buf)) else {
            return;
        };
        self.drain();
        self.done(req);
    }

    fn recv(&mut self, seq: u64, segments: u64) {
        let buf = RecvBuf {
            addr: 0x2000,
            len: 1 << 20,
            region: RegionId(1),
            wire_addr: 0x2000,
            keys: [1; MAX_RAILS],
            optional: false,
        };
        let Ok(Admission::Admitted(req)) = self.engine.irecv(self.comm, black_box(&buf)) else {
            return;
        };
        self.drain();
        for _ in 0..segments {
            let imm = segments << 28 | 1 << 10 | (seq & 0x3FF);
            self.engine.on_remote_write(0, black_box(imm), Some(1000));
        }
        self.done(req);
    }

    fn idle(&mut self, count: u64) {
        let buf = RecvBuf {
            addr: 0x2000,
            len: 1 << 20,
            region: RegionId(1),
            wire_addr: 0x2000,
            keys: [1; MAX_RAILS],
            optional: false,
        };
        let mut reqs = Vec::new();
        for _ in 0..100 {
            let Ok(Admission::Admitted(req)) = self.engine.irecv(self.comm, &buf) else {
                return;
            };
            reqs.push(req);
            self.drain();
        }
        for req in reqs.iter().cycle().take(usize::try_from(count).unwrap()) {
            let _polled = black_box(self.engine.test(*req));
        }
    }
}

fn main() {
    let case = std::env::args().nth(1).unwrap_or_default();
    let (mut sender, mut receiver) = (Bench::sender(4), Bench::receiver(4));
    let (mut sender1, mut receiver1) = (Bench::sender(1), Bench::receiver(1));
    for seq in 0..MESSAGES {
        match case.as_str() {
            "send1" => sender1.send(seq, 1 << 20),
            "send4" => sender.send(seq, 1 << 20),
            "recv1" => receiver1.recv(seq, 1),
            "recv4" => receiver.recv(seq, 4),
            "idle" => return receiver.idle(MESSAGES),
            _ => {}
        }
    }
}
