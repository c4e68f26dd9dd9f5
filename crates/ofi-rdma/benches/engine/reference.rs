//! The reference's way through a message, as protocol 2d, 2e and 2g describe it: a mutex for each part, lists that
//! allocate, remainders, whole requests initialised.

use core::hint::black_box;
use std::collections::VecDeque;
use std::sync::Mutex;

use crate::peers::{Find, Peer};

/// Communicators in an array, and a mutex for the message buffer, the segments, the request and the communicator.
pub(crate) struct Table {
    comms: Vec<Mutex<Peer>>,
    segments: Mutex<u64>,
    request: Mutex<u64>,
    window: Mutex<usize>,
}

impl Table {
    pub(crate) fn new(count: u32) -> Self {
        Self {
            comms: (0..count).map(|_| Mutex::new(Peer::new())).collect(),
            segments: Mutex::default(),
            request: Mutex::default(),
            window: Mutex::new(256),
        }
    }
}

impl Find for Table {
    #[inline]
    fn with<R>(&mut self, id: u32, work: impl FnOnce(&mut Peer) -> R) -> Option<R> {
        let comm = self.comms.get(id as usize)?;
        let slots = *self.window.lock().unwrap();
        black_box(id as usize % slots);
        let result = work(&mut comm.lock().unwrap());
        *self.segments.lock().unwrap() += 1;
        *self.request.lock().unwrap() += 1;
        Some(result)
    }
}

/// A request of the reference's size at BASE (protocol 2d).
#[derive(Clone, Copy)]
struct Request {
    _words: [u64; 66],
}

const EMPTY: Request = Request { _words: [0; 66] };
/// Of a receive.
const REQUEST_WORDS_RECV: usize = 115;

/// What a provider is to its caller.
type Post = fn(u64, u64, u64) -> i32;

fn accept(rail: u64, offset: u64, len: u64) -> i32 {
    black_box((rail, offset, len));
    0
}

type Poll = fn(u64) -> usize;

fn nothing(rail: u64) -> usize {
    black_box(rail);
    0
}

/// A send and a receive communicator over `rails`.
pub(crate) struct Sender {
    rails: u64,
    pending: Mutex<VecDeque<u64>>,
    requests: Mutex<(Vec<Request>, Vec<usize>)>,
    receives: Mutex<(Vec<[u64; REQUEST_WORDS_RECV]>, Vec<usize>)>,
    window: Mutex<(Vec<u64>, u64)>,
    next_rail: Mutex<u64>,
    post: Post,
    poll: Poll,
}

const COUNT: usize = 128;

impl Sender {
    pub(crate) fn new(rails: u8) -> Self {
        let free = || (0..COUNT).collect();
        Self {
            rails: rails.into(),
            pending: Mutex::default(),
            requests: Mutex::new((vec![EMPTY; COUNT], free())),
            receives: Mutex::new((vec![[0; REQUEST_WORDS_RECV]; COUNT], free())),
            window: Mutex::new((vec![0; 256], 0)),
            next_rail: Mutex::default(),
            post: black_box(accept),
            poll: black_box(nothing),
        }
    }

    /// The stripes of a message, allocated (protocol 2g.6).
    fn plan(&self, len: u64) -> Vec<(u64, u64, u64)> {
        let mut next = self.next_rail.lock().unwrap();
        let rails = self.rails;
        let wanted = len.div_ceil(65_536).min(rails).max(1);
        let even = (2..=wanted).rev().find(|n| rails % n == 0);
        let count = even.unwrap_or(wanted);
        let start = *next;
        *next = (start + count) % rails;
        let each = len.div_ceil(count).div_ceil(128) * 128;
        (0..count)
            .map(|k| ((start + k) % rails, k * each, (len - k * each).min(each)))
            .collect()
    }

    fn start(&self, request: usize) {
        let mut window = self.window.lock().unwrap();
        let (slots, next) = &mut *window;
        let count = slots.len() as u64;
        slots[usize::try_from(*next % count).unwrap()] = request as u64;
        *next = (*next + 1) % 1024;
    }

    /// isend to the last post; the request comes back.
    pub(crate) fn isend(&self, len: u64) -> usize {
        assert!(self.pending.lock().unwrap().is_empty());
        let request = {
            let mut requests = self.requests.lock().unwrap();
            let request = requests.1.pop().unwrap();
            requests.0[request] = black_box(EMPTY);
            request
        };
        self.start(request);
        for (rail, offset, len) in self.plan(len) {
            assert_eq!((self.post)(rail, offset, len), 0);
        }
        request
    }

    /// irecv to the post of its CTRL.
    pub(crate) fn irecv(&self, len: u64) -> usize {
        assert!(self.pending.lock().unwrap().is_empty());
        let request = {
            let mut receives = self.receives.lock().unwrap();
            let request = receives.1.pop().unwrap();
            receives.0[request] = black_box([0; REQUEST_WORDS_RECV]);
            request
        };
        self.start(request);
        let ctrl = black_box([len, 1, 2, 3, 4, 5]);
        assert_eq!((self.post)(0, ctrl[0], 48), 0);
        request
    }

    pub(crate) fn free_send(&self, request: usize) {
        self.requests.lock().unwrap().1.push(request);
    }

    pub(crate) fn free_recv(&self, request: usize) {
        self.receives.lock().unwrap().1.push(request);
    }

    /// `test` of a request that is not done: the endpoint is progressed each time (performance 2.7).
    pub(crate) fn test(&self, request: usize) -> bool {
        let requests = self.requests.lock().unwrap();
        for rail in 0..self.rails {
            assert_eq!((self.poll)(rail), 0);
        }
        assert!(self.pending.lock().unwrap().is_empty());
        requests.1.len() > black_box(request)
    }
}
