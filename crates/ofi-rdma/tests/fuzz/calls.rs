//! Any sequence of calls, completions and bytes of peers, legal or not, on one engine that is connected
//! to itself: no panic, every access within its buffer, and once everything is closed nothing is left.

use std::collections::BTreeMap;

use ofi_rdma::limits::{EP_NAME_BYTES, MAX_RAILS};
use ofi_rdma::{
    Admission, Base, Cause, CommKey, Config, Engine, EpName, Error, KeyWidth, Lane, OneSided,
    Outcome, PeerAddr, Post, RailPort, RecvBuf, RegionId, ReqKey, RxFate, RxId, SendBuf, Target,
    Test, Token, Wire,
};

/// Calls of one sequence, at most.
const STEPS_MAX: usize = 400;

/// Names that no endpoint has begin so.
const BAD_NAME: u8 = 0xBA;

/// The region of all buffers.
const REGION: RegionId = RegionId(3);

/// The bytes of the input, taken one after the other; zeros once there are none.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn word(&mut self) -> u32 {
        u32::from_le_bytes(core::array::from_fn(|_| self.byte()))
    }

    /// One of a list.
    fn of<T: Copy>(&mut self, list: &[T]) -> Option<T> {
        let at = usize::from(self.byte());
        list.get(at.checked_rem(list.len())?).copied()
    }
}

/// One operation that the provider has.
struct Flight {
    token: Token,
    wire: Wire,
    bytes: Vec<u8>,
    rail: u8,
}

/// The provider: keeps what is posted, and looks whether it may be.
#[derive(Default)]
struct Net {
    flights: Vec<Flight>,
    /// Buffers by address: bytes, and whether their request is over.
    buffers: BTreeMap<u64, u64>,
    /// Receive buffers that the engine holds.
    held: Vec<RxId>,
    busy: bool,
    refuse: bool,
    inject: bool,
}

impl Net {
    fn within(&self, addr: u64, len: u64) {
        let base = addr & !0xFFFF_FFFF;
        let room = self.buffers.get(&base);
        let room = *room.expect("an access to a buffer that somebody gave");
        assert!((addr - base) + len <= room, "{addr:#x} + {len} of {room}");
    }
}

impl RailPort for Net {
    fn post(&mut self, post: &Post) -> Outcome {
        if self.busy {
            return Outcome::Busy;
        }
        let mut bytes = Vec::new();
        match *post.wire() {
            Wire::Control { len, .. } => {
                bytes.resize(len.into(), 0);
                assert_eq!(post.encode(&mut bytes), usize::from(len));
            }
            Wire::Write { addr, len, .. } => self.within(addr, len),
            Wire::Eager { addr, len, .. }
            | Wire::Put { addr, len, .. }
            | Wire::Get { addr, len, .. } => self.within(addr, len.into()),
            Wire::EagerCopy { addr, len, rx, .. } => {
                self.within(addr, len.into());
                assert!(self.held.contains(&rx), "{rx:?} is not held");
            }
            Wire::FlushRead { addr, .. } => self.within(addr, 4),
        }
        if self.refuse {
            return Outcome::Failed(Cause::errno(22));
        }
        let done = self.inject && !bytes.is_empty();
        // An injected message still arrives; its completion is a stray that nobody gives.
        let token = if done { Token(u64::MAX) } else { post.token() };
        self.flights.push(Flight {
            token,
            wire: *post.wire(),
            bytes,
            rail: post.lane().rail(),
        });
        if done {
            Outcome::Completed
        } else {
            Outcome::Accepted
        }
    }

    fn resolve(&mut self, _: Lane, name: &[u8; EP_NAME_BYTES]) -> Result<PeerAddr, Cause> {
        if name[0] == BAD_NAME {
            Err(Cause::errno(22))
        } else {
            Ok(PeerAddr(7))
        }
    }
}

struct Machine {
    engine: Engine<Base>,
    net: Net,
    comms: Vec<CommKey>,
    listeners: Vec<u32>,
    requests: Vec<ReqKey>,
    old: Vec<Token>,
    now_ms: u64,
    buffers: u64,
    rx: u32,
}

fn config(choice: u8) -> Config {
    let bit = |n: u8| choice >> n & 1 == 1;
    let rails = 1 + (choice & 3);
    let optional = bit(7);
    let mut names = [EpName::EMPTY; MAX_RAILS];
    for name in names.iter_mut().take(rails.into()) {
        *name = EpName::new(&[1; 32]).expect("32 bytes fit");
    }
    Config {
        data_rails: rails,
        control_rails: if bit(2) { rails } else { 1 },
        control_names: names,
        data_names: names,
        key_width: if bit(3) {
            KeyWidth::Long
        } else {
            KeyWidth::Short
        },
        lengths_told: bit(4),
        cq_data_bytes: if bit(5) { 8 } else { 4 },
        eager_max: (!optional).then_some(200),
        min_stripe_bytes: 256,
        small_max_bytes: 64,
        connect_timeout_ms: 1_000,
        stall_warn_ms: Some(300),
        stall_fail_ms: Some(1_000),
        close_messages: bit(6),
        early_completion: optional,
    }
}

impl Machine {
    fn drain(&mut self) {
        self.engine.pump(&mut self.net);
        while let Some(rx) = self.engine.take_released() {
            let at = self.net.held.iter().position(|held| *held == rx);
            self.net.held.swap_remove(at.expect("it was held"));
        }
        while self.engine.poll_event().is_some() {}
    }

    fn buffer(&mut self, len: u64) -> u64 {
        self.buffers += 1;
        let addr = self.buffers << 32;
        self.net.buffers.insert(addr, len);
        addr
    }

    fn admit(&mut self, admission: Result<Admission, Error>) {
        if let Ok(Admission::Admitted(request)) = admission {
            self.requests.push(request);
        }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.byte() % 24 {
            0 => self.listen(),
            1 => self.connect(input),
            2 | 3 => self.poll(input),
            4 | 5 => self.send(input),
            6 | 7 => self.recv(input),
            8 => self.flush(input),
            9 | 10 => self.test(input),
            11 => self.close(input),
            12..=14 => self.deliver(input),
            15 => self.complete(input, true),
            16 => self.complete(input, false),
            17 => self.raw_control(input),
            18 => {
                let (rail, data) = (input.byte() % 4, input.word());
                let len = (input.byte() & 1 == 1).then(|| u64::from(input.word()));
                self.engine.on_remote_write(rail, u64::from(data), len);
            }
            19 => {
                let (imm, len) = (input.word(), u32::from(input.byte()));
                self.arrive_eagerly(input.byte() % 4, imm, len);
            }
            20 => {
                if let Some(token) = input.of(&self.old) {
                    self.engine.on_local(token);
                }
            }
            21 => {
                self.now_ms += u64::from(input.byte()) * 10;
                self.engine.tick(self.now_ms);
            }
            22 => {
                let bits = input.byte();
                self.net.busy = bits & 1 == 1;
                self.net.refuse = bits & 14 == 14;
                self.net.inject = bits & 16 == 16;
            }
            _ => self.one_sided(input),
        }
        self.drain();
    }

    fn listen(&mut self) {
        if let Ok((comm, id)) = self.engine.listen() {
            self.comms.push(comm);
            self.listeners.push(id);
        }
    }

    fn connect(&mut self, input: &mut Input<'_>) {
        let choice = input.byte();
        let listener_id = match choice & 7 {
            7 => input.word(),
            _ => input.of(&self.listeners).unwrap_or(0),
        };
        let mut control_name = [1; EP_NAME_BYTES];
        if choice & 8 == 8 {
            control_name[0] = BAD_NAME;
        }
        let target = Target {
            control_name,
            listener_id,
        };
        let made = self.engine.connect(self.now_ms, &mut self.net, &target);
        self.comms.extend(made);
    }

    fn poll(&mut self, input: &mut Input<'_>) {
        let Some(comm) = self.any_comm(input) else {
            return;
        };
        let (now_ms, net) = (self.now_ms, &mut self.net);
        if input.byte() & 1 == 0 {
            let _up = self.engine.poll_connect(comm, now_ms, net);
        } else if let Ok(Some(child)) = self.engine.poll_accept(comm, now_ms, net) {
            self.comms.push(child);
        }
    }

    /// One that there is or was, or one that never was.
    fn any_comm(&self, input: &mut Input<'_>) -> Option<CommKey> {
        match input.byte() {
            255 => Some(CommKey::from_bits(u64::from(input.word()))),
            _ => input.of(&self.comms),
        }
    }

    fn send(&mut self, input: &mut Input<'_>) {
        let Some(comm) = self.any_comm(input) else {
            return;
        };
        let len = u64::from(input.byte()) * u64::from(1 + input.byte() % 8);
        let addr = self.buffer(len);
        let region = REGION;
        let admission = self.engine.isend(comm, SendBuf { addr, len, region });
        self.admit(admission);
    }

    fn recv(&mut self, input: &mut Input<'_>) {
        let Some(comm) = self.any_comm(input) else {
            return;
        };
        let len = u64::from(input.byte()) * u64::from(1 + input.byte() % 8);
        let addr = self.buffer(len.max(4));
        let wide = input.byte();
        let key = if wide & 1 == 1 { 1 << 40 } else { 9 };
        let recv = RecvBuf {
            addr,
            len,
            region: REGION,
            wire_addr: addr,
            keys: [key; MAX_RAILS],
            optional: wide & 2 == 2,
        };
        let admission = self.engine.irecv(comm, &recv);
        self.admit(admission);
    }

    fn flush(&mut self, input: &mut Input<'_>) {
        let Some(comm) = self.any_comm(input) else {
            return;
        };
        let addr = self.buffer(4);
        self.requests.extend(self.engine.flush(comm, addr, REGION));
    }

    fn one_sided(&mut self, input: &mut Input<'_>) {
        let Some(comm) = self.any_comm(input) else {
            return;
        };
        let len = u64::from(input.byte());
        let what = OneSided {
            addr: self.buffer(len),
            len,
            region: REGION,
            remote_addr: u64::from(input.word()),
            remote_key: u64::from(input.word()),
        };
        let admission = match input.byte() % 3 {
            0 => self.engine.iwrite(comm, &what),
            1 => self.engine.iread(comm, &what),
            _ => self.engine.iwrite_inline(comm, &what, &mut self.net),
        };
        self.admit(admission);
    }

    fn test(&mut self, input: &mut Input<'_>) {
        let request = match input.byte() {
            255 => Some(ReqKey::from_bits(u64::from(input.word()))),
            _ => input.of(&self.requests),
        };
        let Some(request) = request else { return };
        match self.engine.test(request) {
            Ok(Test::Done(_)) | Err(Error::NoSuchRequest) => {
                let again = self.engine.test(request);
                assert_eq!(again, Err(Error::NoSuchRequest), "done twice");
            }
            Ok(Test::Pending { .. }) => {
                let _done = self.engine.recheck(request);
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }

    fn close(&mut self, input: &mut Input<'_>) {
        let Some(comm) = self.any_comm(input) else {
            return;
        };
        if self.engine.close(comm, self.now_ms).is_ok() {
            let again = self.engine.close(comm, self.now_ms);
            assert_eq!(again, Err(Error::NoSuchComm), "closed twice");
        }
    }

    /// An operation takes effect at its target, which is this engine too; it stays until it completes.
    fn deliver(&mut self, input: &mut Input<'_>) {
        let flights = self.net.flights.len();
        let Some(at) = usize::from(input.byte()).checked_rem(flights) else {
            return;
        };
        let flight = &self.net.flights[at];
        let rail = flight.rail;
        match flight.wire {
            Wire::Control { .. } => {
                let bytes = flight.bytes.clone();
                self.engine.on_control(&bytes);
            }
            Wire::Eager { imm, len, .. } => self.arrive_eagerly(rail, imm, len),
            Wire::Write {
                data: Some(data),
                len,
                ..
            } => {
                let told = self.engine.config().lengths_told.then_some(len);
                self.engine.on_remote_write(rail, data, told);
            }
            _ => {}
        }
        // Mostly only once.
        if input.byte() % 8 != 0 {
            self.finish(at, Ok(()));
        }
    }

    fn arrive_eagerly(&mut self, rail: u8, imm: u32, len: u32) {
        self.rx += 1;
        let rx = RxId {
            rail,
            index: self.rx,
        };
        // Held from the call on: it may be given back at once.
        self.net.held.push(rx);
        if self.engine.on_eager(imm, len, rx) == RxFate::Repost {
            self.net.held.retain(|held| *held != rx);
        }
    }

    fn complete(&mut self, input: &mut Input<'_>, well: bool) {
        let flights = self.net.flights.len();
        if let Some(at) = usize::from(input.byte()).checked_rem(flights) {
            let errno = [5, 113, Cause::CANCELED][usize::from(input.byte() % 3)];
            let end = if well {
                Ok(())
            } else {
                Err(Cause::errno(errno))
            };
            self.finish(at, end);
        }
    }

    fn finish(&mut self, at: usize, end: Result<(), Cause>) {
        let Flight { token, .. } = self.net.flights.swap_remove(at);
        match end {
            Ok(()) => self.engine.on_local(token),
            Err(cause) => self.engine.on_failed(token, cause),
        }
        self.old.push(token);
    }

    fn raw_control(&mut self, input: &mut Input<'_>) {
        let len = [4, 20, 24, 28, 32, 40, 48, 528, usize::from(input.byte())];
        let len = len[usize::from(input.byte()) % len.len()];
        let mut bytes: Vec<u8> = (0..len.min(64)).map(|_| input.byte()).collect();
        bytes.resize(len, 1);
        self.engine.on_control(&bytes);
    }

    /// Everything ends: nothing may be left.
    fn end(&mut self) {
        (self.net.busy, self.net.refuse) = (false, false);
        for comm in core::mem::take(&mut self.comms) {
            let _closed = self.engine.close(comm, self.now_ms);
            self.drain();
        }
        // Closing may say CLOSE, and wait for it, up to a bound.
        for _ in 0..3 {
            while !self.net.flights.is_empty() {
                self.finish(0, Ok(()));
                self.drain();
            }
            self.now_ms += 10_000;
            self.engine.tick(self.now_ms);
            self.drain();
        }
        let engine = &self.engine;
        let left = [
            engine.live_comms(),
            engine.live_requests(),
            engine.posts_waiting(),
            engine.early_messages(),
            usize::try_from(engine.region_refs(REGION)).expect("few"),
            self.net.held.len(),
        ];
        assert_eq!(
            left, [0; 6],
            "communicators, requests, posts, early, references, held"
        );
    }
}

/// One sequence: the first byte chooses the settings.
pub(crate) fn check(bytes: &[u8]) {
    let mut input = Input(bytes);
    let engine = Engine::new(config(input.byte())).expect("the settings are legal");
    let mut machine = Machine {
        engine,
        net: Net::default(),
        comms: Vec::new(),
        listeners: Vec::new(),
        requests: Vec::new(),
        old: Vec::new(),
        now_ms: 0,
        buffers: 0,
        rx: 0,
    };
    for _ in 0..STEPS_MAX {
        if input.0.is_empty() {
            break;
        }
        machine.step(&mut input);
    }
    machine.end();
}
