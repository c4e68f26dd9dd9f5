//! A whole life with everything in it, in which any call may fail: what was opened is closed whatever
//! happens, every request is followed to its end, and every error is kept.

use super::super::common::{Lines, pattern};
use super::super::state::{State, with};
use core::ffi::c_void;
use core::time::Duration;
use ofi_net::log::{Level, Log};
use ofi_net::{Code, CommWord, Config, MemoryKind, MrWord, NetError, Protocol, ReqWord, Transport};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// Nothing takes so long, failed or not, on a machine that is busy with other things.
const BOUND: Duration = Duration::from_secs(30);
/// Stripes on two rails.
const LARGE: usize = 200_000;
/// Within one eager message.
const SMALL: usize = 1000;

/// How a life went.
pub(super) struct Lived {
    pub(super) errors: Vec<NetError>,
    /// The warnings.
    pub(super) warnings: Vec<String>,
    /// Messages that arrived whole.
    pub(super) messages: usize,
}

impl Lived {
    /// All that was said of what went wrong.
    pub(super) fn told(&self) -> Vec<String> {
        let errors = self.errors.iter().map(ToString::to_string);
        self.warnings.iter().cloned().chain(errors).collect()
    }
}

/// Two buffers of [`LARGE`] bytes, the same in all lives: what a failed life leaves in flight may still
/// touch them.
fn buffers() -> [*mut c_void; 2] {
    static PLACE: OnceLock<[usize; 2]> = OnceLock::new();
    let at = PLACE.get_or_init(|| {
        [0, 1].map(|seed| {
            let bytes: &'static mut [u8] = pattern(seed, LARGE).leak();
            bytes.as_mut_ptr().expose_provenance()
        })
    });
    at.map(core::ptr::with_exposed_provenance_mut)
}

struct Life {
    net: Transport,
    log: Arc<Lines>,
    errors: Vec<NetError>,
    start: Instant,
    messages: usize,
    /// With SENDRECV, on net, shm and the emulated EFA, messages wait for those before them: after a connect
    /// message that nobody takes any more, nothing arrives.
    is_held_up: bool,
}

/// Lives once: init, two connections, messages of both kinds, a flush, the end. After an error of one
/// connection the transport connects again, if it still can.
pub(super) fn live(config: Config) -> Lived {
    let log = Arc::new(Lines::default());
    let is_held_up = config.protocol == Some(Protocol::SendRecv);
    with(|state| state.phase = "init");
    let sink: Arc<dyn Log> = Arc::clone(&log) as Arc<dyn Log>;
    let net = match Transport::init(config, sink) {
        Ok(net) => net,
        Err(error) => {
            return Lived {
                errors: vec![error],
                warnings: log.at(Level::Warn),
                messages: 0,
            };
        }
    };
    let start = Instant::now();
    let mut life = Life {
        net,
        log,
        errors: Vec::new(),
        start,
        messages: 0,
        is_held_up,
    };
    life.connection();
    life.again();
    life.end()
}

impl Life {
    /// One call; its error is kept.
    fn call<T>(
        &mut self,
        phase: &'static str,
        call: impl FnOnce(&Transport) -> Result<T, NetError>,
    ) -> Option<T> {
        with(|state| state.phase = phase);
        match call(&self.net) {
            Ok(value) => Some(value),
            Err(error) => {
                self.errors.push(error);
                None
            }
        }
    }

    fn in_time(&self, what: &str) {
        let (lived, errors) = (self.start.elapsed(), &self.errors);
        let what = || with(|state| format!("{what}, {}", state.told()));
        assert!(
            lived < BOUND,
            "{}: neither done nor failed; {errors:?}",
            what()
        );
        std::thread::yield_now();
    }

    /// A connection from its listen to its end.
    fn connection(&mut self) {
        let mut handle = [0; 128];
        let Some(listener) = self.call("listen", |net| net.listen(0, &mut handle)) else {
            return;
        };
        let (send, recv) = self.connect(&mut handle, listener);
        if let (Some(send), Some(recv)) = (send, recv) {
            self.traffic(send, recv);
        }
        if let Some(send) = send {
            self.call("close", |net| net.close_send(send));
        }
        if let Some(recv) = recv {
            self.call("close", |net| net.close_recv(recv));
        }
        self.call("close", |net| net.close_listen(listener));
    }

    fn connect(
        &mut self,
        handle: &mut [u8; 128],
        listener: CommWord,
    ) -> (Option<CommWord>, Option<CommWord>) {
        let (mut send, mut recv) = (None, None);
        let errors = self.errors.len();
        while send.is_none() || recv.is_none() {
            if send.is_none() {
                send = self.call("connect", |net| net.connect(0, handle)).flatten();
            }
            if recv.is_none() {
                recv = self.call("accept", |net| net.accept(listener)).flatten();
            }
            if self.errors.len() > errors {
                break;
            }
            self.in_time("connect and accept");
        }
        (send, recv)
    }

    fn traffic(&mut self, send: CommWord, recv: CommWord) {
        let [source, sink] = buffers();
        // SAFETY: both are kept for good.
        let from = self.call("regMr", |net| unsafe {
            net.reg_mr(send, source, LARGE, MemoryKind::Host)
        });
        // SAFETY: as above.
        let into = self.call("regMr", |net| unsafe {
            net.reg_mr(recv, sink, LARGE, MemoryKind::Host)
        });
        if let (Some(from), Some(into)) = (from, into) {
            let ways = (send, from, recv, into);
            for (len, send_first) in [(SMALL, false), (SMALL, true), (0, false), (LARGE, false)] {
                if !self.message(ways, len, send_first) {
                    break;
                }
            }
        }
        for (comm, mr) in [(send, from), (recv, into)] {
            if let Some(mr) = mr {
                self.call("deregMr", |net| net.dereg_mr(comm, mr));
            }
        }
    }

    /// One message; whether it arrived.
    fn message(
        &mut self,
        (send, from, recv, into): (CommWord, MrWord, CommWord, MrWord),
        len: usize,
        send_first: bool,
    ) -> bool {
        let [source, sink] = buffers();
        let (mut sent, mut received) = (None, None);
        for is_send in [send_first, !send_first] {
            if is_send {
                // SAFETY: kept for good.
                sent = self.post("isend", |net| unsafe {
                    net.isend(send, source, len, Some(from))
                });
            } else {
                // SAFETY: as above.
                received = self.post("irecv", |net| unsafe {
                    net.irecv(recv, sink, len, Some(into), false)
                });
            }
        }
        let ends = self.follow([sent, received]);
        if ends != [Some(len as u64); 2] {
            return false;
        }
        self.messages += 1;
        if len != LARGE {
            return true;
        }
        // SAFETY: as above.
        let flush = self.call("flush", |net| unsafe { net.iflush(recv, sink, len, into) });
        self.follow([flush.flatten(), None]);
        flush.is_some()
    }

    /// A request, or `None` and an error.
    fn post(
        &mut self,
        phase: &'static str,
        post: impl Fn(&Transport) -> Result<Option<ReqWord>, NetError>,
    ) -> Option<ReqWord> {
        loop {
            let answer = self.call(phase, &post)?;
            if answer.is_some() {
                return answer;
            }
            self.in_time(phase);
        }
    }

    /// Tests the requests until each is done or has failed: their sizes.
    fn follow(&mut self, requests: [Option<ReqWord>; 2]) -> [Option<u64>; 2] {
        let mut open = requests;
        let mut sizes = [None; 2];
        while open != [None; 2] {
            for (request, size) in open.iter_mut().zip(&mut sizes) {
                let Some(word) = *request else { continue };
                let answer = self.call("test", |net| net.test(word));
                if answer != Some(None) {
                    (*request, *size) = (None, answer.flatten());
                }
            }
            self.in_time("a request");
        }
        sizes
    }

    /// After an error: the transport connects again, unless the error was of its device.
    fn again(&mut self) {
        let is_hurt = !self.errors.is_empty();
        let is_lost = self
            .log
            .at(Level::Warn)
            .iter()
            .chain(
                &self
                    .errors
                    .iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>(),
            )
            .any(|text| text.contains("OFI-E0603") || text.contains("OFI-E0504"));
        if !is_hurt || is_lost || self.is_held_up {
            return;
        }
        with(State::strike_is_over);
        // A connection may be late on a busy machine: its deadline is a short one.
        for _ in 0..5 {
            let (errors, messages) = (self.errors.len(), self.messages);
            self.start = Instant::now();
            self.connection();
            if self.messages == messages + 4 && self.errors.len() == errors {
                return;
            }
        }
        self.errors.push(NetError::new(
            Code::Internal,
            "sweep: it does not connect again".to_owned(),
        ));
    }

    fn end(self) -> Lived {
        with(|state| state.phase = "fini");
        let Self {
            net,
            log,
            errors,
            messages,
            ..
        } = self;
        drop(net);
        Lived {
            errors,
            warnings: log.at(Level::Warn),
            messages,
        }
    }
}

/// What is wrong with a life without faults.
pub(super) fn not_well(lived: &Lived) -> Option<String> {
    let is_well = lived.messages == 4 && lived.errors.is_empty();
    (!is_well).then(|| format!("{} messages, {:?}", lived.messages, lived.told()))
}
