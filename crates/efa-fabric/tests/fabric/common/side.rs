//! One endpoint with everything it needs, and waiting for what comes of it.

use efa_fabric::{
    Av, CompletionError, Cq, CqBind, CqEntry, CqPoll, Domain, Endpoint, Fabric, FabricError, Info,
    PeerAddr, Posted,
};

use super::until;

/// One endpoint with its own domain, queue and vector.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) ep: Endpoint,
    pub(crate) cq: Cq,
    pub(crate) av: Av,
    pub(crate) domain: Domain,
}

/// Something that a completion queue said.
#[derive(Debug)]
pub(crate) enum Event {
    Done(CqEntry),
    Failed(CompletionError),
}

impl Event {
    /// The completion; fails the test for an error.
    pub(crate) fn done(self) -> CqEntry {
        match self {
            Self::Done(entry) => entry,
            Self::Failed(error) => panic!("{error}"),
        }
    }

    /// The error; fails the test for a good completion.
    pub(crate) fn failed(self) -> CompletionError {
        match self {
            Self::Failed(error) => error,
            Self::Done(entry) => panic!("no error: {entry:?}"),
        }
    }

    /// Fails the test for an error.
    pub(crate) fn assert_good(self) {
        self.done();
    }
}

impl Side {
    pub(crate) fn new(info: &Info) -> Self {
        let fabric = Fabric::open(info).expect("fabric");
        let domain = Domain::open(&fabric, info).expect("domain");
        let cq = Cq::open(&domain, 4096).expect("queue");
        let av = Av::open(&domain).expect("vector");
        let mut setup = Endpoint::open(&domain, info).expect("endpoint");
        setup
            .bind_cq(&cq, CqBind::TRANSMIT | CqBind::RECV)
            .expect("bind");
        setup.bind_av(&av).expect("bind");
        let ep = setup.enable().expect("enable");
        Self { ep, cq, av, domain }
    }

    /// What the queue has now.
    pub(crate) fn poll(&self) -> Vec<Event> {
        let mut entries = [CqEntry::EMPTY; 16];
        match self.cq.read_batch(&mut entries).expect("a working queue") {
            CqPoll::Empty => Vec::new(),
            CqPoll::Entries(count) => entries
                .iter()
                .take(count)
                .copied()
                .map(Event::Done)
                .collect(),
            CqPoll::ErrorAvailable => {
                let error = self.cq.read_error().expect("a working queue");
                error.into_iter().map(Event::Failed).collect()
            }
        }
    }
}

/// Two endpoints, and each one's number for the other: `(a, b, a's peer, b's peer)`.
pub(crate) fn connect(info: &Info) -> (Side, Side, PeerAddr, PeerAddr) {
    let (a, b) = (Side::new(info), Side::new(info));
    let a_to_b = a.av.insert(&b.ep.name().expect("name")).expect("insert");
    let b_to_a = b.av.insert(&a.ep.name().expect("name")).expect("insert");
    (a, b, a_to_b, b_to_a)
}

/// Repeats a post until it is accepted, letting both sides make progress meanwhile; they must have
/// no completions to report yet.
pub(crate) fn accepted(sides: [&Side; 2], mut post: impl FnMut() -> Result<Posted, FabricError>) {
    until("a post to be accepted", || {
        let posted = post().expect("a post");
        if posted == Posted::Busy {
            for side in sides {
                let events = side.poll();
                assert!(events.is_empty(), "nothing was posted, but {events:?}");
            }
        }
        posted == Posted::Accepted
    });
}

/// Polls both sides until `side` reports something, and gives the first; the other side's events are
/// given to `other`.
pub(crate) fn drain_until(side: &Side, other: &Side, mut others: impl FnMut(Event)) -> Event {
    let mut found = None;
    until("a completion", || {
        other.poll().into_iter().for_each(&mut others);
        let mut events = side.poll();
        assert!(events.len() <= 1, "one was expected: {events:?}");
        found = events.pop();
        found.is_some()
    });
    found.expect("found above")
}

/// Polls both sides until each reported as many events as wanted: `(a's, b's)`.
pub(crate) fn wait_for(a: (&Side, usize), b: (&Side, usize)) -> (Vec<Event>, Vec<Event>) {
    let (mut of_a, mut of_b) = (Vec::new(), Vec::new());
    until("completions on both sides", || {
        of_a.extend(a.0.poll());
        of_b.extend(b.0.poll());
        of_a.len() >= a.1 && of_b.len() >= b.1
    });
    assert_eq!((of_a.len(), of_b.len()), (a.1, b.1), "{of_a:?} {of_b:?}");
    (of_a, of_b)
}
