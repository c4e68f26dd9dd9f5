//! Every interleaving of threads at the lock of a domain (loom): two communicators on one domain, each with a
//! thread of its own, drive the engine that runs in production. Run with
//! `RUSTFLAGS="--cfg loom" cargo test -p ofi-net --release --lib interleavings`.

use crate::sync::{DomainLock, Poisoned};
use core::sync::atomic::AtomicUsize as Counted;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use ofi_rdma::limits::{EP_NAME_BYTES, MAX_RAILS};
use ofi_rdma::{
    Admission, Base, Cause, CommKey, Config, Engine, EpName, KeyWidth, Lane, Outcome, PeerAddr,
    Post, RailPort, RecvBuf, RegionId, ReqKey, RxFate, RxId, SendBuf, Target, Test, Token, Wire,
};

/// The provider: what is posted takes effect, and completes, in the next pass of whoever comes first.
#[derive(Default)]
struct Net {
    flights: Vec<(Token, Wire, Vec<u8>, u8)>,
    eager: u32,
}

impl RailPort for Net {
    fn post(&mut self, post: &Post) -> Outcome {
        let mut bytes = Vec::new();
        if let Wire::Control { len, .. } = *post.wire() {
            bytes.resize(len.into(), 0);
            post.encode(&mut bytes);
        }
        let flight = (post.token(), *post.wire(), bytes, post.lane().rail());
        self.flights.push(flight);
        Outcome::Accepted
    }

    fn resolve(&mut self, _: Lane, _: &[u8; EP_NAME_BYTES]) -> Result<PeerAddr, Cause> {
        Ok(PeerAddr(1))
    }
}

/// What the lock guards: the engine of a domain that is connected to itself.
struct Core {
    engine: Engine<Base>,
    net: Net,
}

impl Core {
    fn new() -> Self {
        let name = EpName::new(&[1; 32]).unwrap();
        let config = Config {
            data_rails: 1,
            control_rails: 1,
            control_names: [name; MAX_RAILS],
            data_names: [name; MAX_RAILS],
            key_width: KeyWidth::Short,
            lengths_told: true,
            cq_data_bytes: 4,
            eager_max: Some(64),
            min_stripe_bytes: 256,
            small_max_bytes: 64,
            connect_timeout_ms: 1_000,
            stall_warn_ms: None,
            stall_fail_ms: None,
            close_messages: false,
            early_completion: false,
        };
        Self {
            engine: Engine::new(config).unwrap(),
            net: Net::default(),
        }
    }

    /// A pass: everything that was posted arrives and completes, whosever it is.
    fn pass(&mut self) {
        self.engine.pump(&mut self.net);
        for (token, wire, bytes, rail) in core::mem::take(&mut self.net.flights) {
            match wire {
                Wire::Control { .. } => self.engine.on_control(&bytes),
                Wire::Eager { imm, len, .. } => {
                    self.net.eager += 1;
                    let index = self.net.eager;
                    let fate = self.engine.on_eager(imm, len, RxId { rail, index });
                    assert!(matches!(fate, RxFate::Repost | RxFate::Held));
                }
                Wire::Write { data, len, .. } => {
                    let data = data.expect("a message has an immediate");
                    self.engine.on_remote_write(rail, data, Some(len));
                }
                _ => {}
            }
            self.engine.on_local(token);
        }
        self.engine.pump(&mut self.net);
        while self.engine.take_released().is_some() {}
        while self.engine.poll_event().is_some() {}
    }

    /// A connection, both ends here.
    fn connect(&mut self) -> (CommKey, CommKey) {
        let (listener, listener_id) = self.engine.listen().unwrap();
        let control_name = [1; EP_NAME_BYTES];
        let target = Target {
            control_name,
            listener_id,
        };
        let send = self.engine.connect(0, &mut self.net, &target).unwrap();
        let mut recv = None;
        for _ in 0..8 {
            self.pass();
            if recv.is_none() {
                recv = self.engine.poll_accept(listener, 0, &mut self.net).unwrap();
            }
            let _up = self.engine.poll_connect(send, 0, &mut self.net).unwrap();
        }
        self.engine.close(listener, 0).unwrap();
        (send, recv.expect("it was accepted"))
    }

    fn start(&mut self, comm: CommKey, is_send: bool, len: u64) -> Option<ReqKey> {
        let (addr, region) = (u64::from(comm.index()) << 32, RegionId(1));
        let admission = if is_send {
            self.engine.isend(comm, SendBuf { addr, len, region })
        } else {
            let recv = RecvBuf {
                addr,
                len,
                region,
                wire_addr: addr,
                keys: [9; MAX_RAILS],
                optional: false,
            };
            self.engine.irecv(comm, &recv)
        };
        match admission.unwrap() {
            Admission::Admitted(request) => Some(request),
            Admission::NotNow(_) => None,
        }
    }

    fn test(&mut self, request: ReqKey) -> Option<u64> {
        if let Test::Done(done) = self.engine.test(request).unwrap() {
            return Some(done.bytes);
        }
        self.pass();
        match self.engine.test(request).unwrap() {
            Test::Done(done) => Some(done.bytes),
            Test::Pending { .. } => None,
        }
    }
}

/// A lock as loom sees it. It switches threads where two of them touch one thing in either order, and leaving a
/// lock is no such thing: what is touched outside as well is what lets it find a thread inside.
struct Watched<T> {
    lock: DomainLock<T>,
    moment: AtomicUsize,
}

/// Calls of all models that found a domain busy.
static TURNED_AWAY: Counted = Counted::new(0);

impl<T> Watched<T> {
    fn new(value: T) -> Self {
        Self {
            lock: DomainLock::new(value),
            moment: AtomicUsize::new(0),
        }
    }

    /// Inside if nobody is, but for who ran out of patience.
    fn attempt<R>(&self, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.moment.load(Ordering::Relaxed);
        match self.lock.try_enter() {
            Ok(Some(mut inside)) => {
                self.moment.fetch_add(1, Ordering::Relaxed);
                Some(f(&mut inside))
            }
            Ok(None) => {
                TURNED_AWAY.fetch_add(1, Ordering::Relaxed);
                None
            }
            Err(Poisoned) => panic!("poisoned"),
        }
    }
}

/// As every call does: "not now" if the domain is busy, and the call comes again.
fn call<R>(domain: &Watched<Core>, mut f: impl FnMut(&mut Core) -> Option<R>) -> R {
    loop {
        match domain.attempt(&mut f).flatten() {
            Some(done) => return done,
            None => thread::yield_now(),
        }
    }
}

/// One message on a connection of the calling thread's own.
fn message(domain: &Watched<Core>, (send, recv): (CommKey, CommKey), len: u64) {
    let received = call(domain, |core| core.start(recv, false, len));
    let sent = call(domain, |core| core.start(send, true, len));
    assert_eq!(call(domain, |core| core.test(sent)), len);
    assert_eq!(call(domain, |core| core.test(received)), len);
}

/// Plays every interleaving with so many switches that no thread asked for: more show nothing else, and take
/// hours. Some must find the domain busy.
fn model(play: impl Fn() + Send + Sync + 'static) {
    let before = TURNED_AWAY.load(Ordering::Relaxed);
    let played = std::sync::Arc::new(Counted::new(0));
    let plays = std::sync::Arc::clone(&played);
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        plays.fetch_add(1, Ordering::Relaxed);
        play();
    });
    let turned_away = TURNED_AWAY.load(Ordering::Relaxed) - before;
    let played = played.load(Ordering::Relaxed);
    println!("{played} interleavings, {turned_away} calls turned away");
    assert!(played > 100 && turned_away > 0, "nothing was shown");
}

/// Runs `other` beside a message of `len` bytes on another connection, and looks that nothing is left.
fn beside(len: u64, other: fn(&Watched<Core>, (CommKey, CommKey))) {
    model(move || {
        let mut core = Core::new();
        let (mine, theirs) = (core.connect(), core.connect());
        let domain = Arc::new(Watched::new(core));
        let shared = Arc::clone(&domain);
        let thread = thread::spawn(move || other(&shared, theirs));
        message(&domain, mine, len);
        thread.join().unwrap();
        let mut core = domain.lock.enter().ok().expect("nobody panicked");
        core.pass();
        let engine = &core.engine;
        let left = (engine.live_requests(), engine.posts_waiting());
        assert_eq!(left, (0, 0), "requests, posts");
    });
}

#[test]
fn two_communicators_of_two_threads_carry_a_message_each() {
    beside(8, |domain, theirs| message(domain, theirs, 8));
}

#[test]
fn an_eager_message_beside_one_in_segments() {
    beside(300, |domain, theirs| message(domain, theirs, 8));
}

#[test]
fn a_communicator_is_closed_beside_the_message_of_another_thread() {
    beside(300, |domain, (send, recv)| {
        let sent = call(domain, |core| core.start(send, true, 8));
        call(domain, |core| core.engine.close(recv, 0).ok());
        call(domain, |core| core.engine.close(send, 0).ok());
        let gone = call(domain, |core| Some(core.engine.test(sent).is_err()));
        assert!(gone, "a request of what was closed");
    });
}

/// A thread that is turned away again and again waits in the end, and gets in.
#[test]
fn who_is_turned_away_gets_in() {
    model(|| {
        let domain = Arc::new(Watched::new(0_u32));
        let enter = |domain: &Watched<u32>| {
            // As often as patience lasts: the last attempt waits, so it is inside.
            let mut attempts = 0..crate::sync::PATIENCE;
            let entered = attempts.find_map(|_| domain.attempt(|count| *count += 1));
            assert!(entered.is_some(), "starved");
        };
        let others: Vec<_> = (0..2)
            .map(|_| {
                let shared = Arc::clone(&domain);
                thread::spawn(move || enter(&shared))
            })
            .collect();
        enter(&domain);
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(domain.lock.enter().ok().map(|count| *count), Some(3));
    });
}
