//! What becomes of requests, communicators and regions.

use super::input::Input;
use super::model::{Kind, Piece, Request, Side};
use super::steps::{Sequence, known};
use super::table::Close;
use super::world::{ENDPOINTS, SENDRECV, until};

impl Sequence<'_> {
    pub(crate) fn test(&mut self, table: usize, input: &mut Input<'_>) {
        let Some(at) = input.below(256).checked_rem(self.requests.len()) else {
            return;
        };
        self.test_one(table, at);
    }

    /// A pass over all of them.
    pub(crate) fn test_all(&mut self, table: usize) {
        for at in (0..self.requests.len()).rev() {
            self.test_one(table, at);
        }
    }

    fn test_one(&mut self, table: usize, at: usize) {
        let request = self.requests[at];
        let listener = self.comms[request.comm].listener;
        let (mut done, mut size) = (7, -7);
        let call = self.world.table(table);
        let result = known(call.test(request.word, Some(&mut done), Some(&mut size)));
        if result != 0 {
            assert!(self.listeners[listener].is_hurt, "{request:?}: {result}");
            assert_eq!(done, 0, "done and failed");
            // It is over, or will be when its communicator is closed: nothing more is expected of it.
            return;
        }
        match done {
            0 => return assert_eq!(size, -7, "the size of what is not done"),
            1 => {}
            _ => panic!("done is {done}"),
        }
        let size = usize::try_from(size).expect("a size is not negative");
        self.ended(&request, size);
        let again = self
            .world
            .table(table)
            .test(request.word, Some(&mut done), None);
        assert_ne!(known(again), 0, "done twice: {request:?}");
        self.over(at);
    }

    /// Nobody waits for a request any more.
    fn over(&mut self, at: usize) {
        let request = self.requests.swap_remove(at);
        self.comms[request.comm].pending -= 1;
        for region in request.kind.regions(&request.piece) {
            self.regions[region].uses -= 1;
        }
        self.world.keep(request.word);
    }

    /// What a done request says is true.
    fn ended(&mut self, request: &Request, size: usize) {
        let piece = request.piece;
        let listener = self.comms[request.comm].listener;
        match request.kind {
            Kind::Send(_) => assert!(size <= piece.len, "{size} bytes sent: {request:?}"),
            Kind::Recv(number, is_optional) => {
                let sender = self.peer(request.comm);
                let sent = sender.and_then(|at| self.comms[at].messages.get(number));
                if is_optional && (sent.is_none() || size == 0) {
                    return;
                }
                let sent = sent.unwrap_or_else(|| panic!("nobody sent {request:?}"));
                if is_optional {
                    return assert!(size <= piece.len, "{size} bytes: {request:?}");
                }
                assert_eq!(size, sent.len.min(piece.len), "{request:?} of {sent:?}");
                assert!(piece.holds(size, listener, number), "bytes of {request:?}");
            }
            Kind::Flush => {}
            // An empty one reaches nothing that it may not.
            Kind::Doomed => assert_eq!(piece.len, 0, "taken by the peer: {request:?}"),
            Kind::Write(to, len) => self.writes.push((piece, to, len)),
            Kind::Read(from) => {
                assert!(piece.is_as(&from, piece.len), "bytes of {request:?}");
            }
        }
    }

    /// Whether nothing is left that must come: a message that both sides have, or an operation of one side.
    pub(crate) fn is_settled(&self) -> bool {
        self.requests.iter().all(|request| !self.must_end(request))
    }

    fn must_end(&self, request: &Request) -> bool {
        let comm = &self.comms[request.comm];
        if self.listeners[comm.listener].is_hurt {
            return false;
        }
        let number = match request.kind {
            Kind::Flush | Kind::Doomed | Kind::Write(..) | Kind::Read(_) => return true,
            Kind::Send(number) | Kind::Recv(number, _) => number,
        };
        let peer = self.peer(request.comm);
        peer.is_some_and(|peer| self.comms[peer].messages.len() > number)
    }

    /// deregMr of what only this communicator can deregister, and closeSend or closeRecv.
    pub(crate) fn leave(&mut self, table: usize, at: usize) {
        if self.world.settings == ENDPOINTS {
            for region in self.idle_regions(Some(at)) {
                self.deregister_one(table, region, self.comms[at].word);
            }
        }
        if self.world.settings == SENDRECV {
            // What is long and was received is not taken back either, once its receive is.
            until("long messages", || {
                self.test_all(table);
                self.is_settled()
            });
        }
        self.close_comm(table, at);
    }

    /// closeSend or closeRecv: what was under way on it is over.
    fn close_comm(&mut self, table: usize, at: usize) {
        let comm = &mut self.comms[at];
        let (word, listener) = (comm.word, comm.listener);
        let which = match comm.side {
            Side::Send => Close::Send,
            Side::Recv => Close::Recv,
        };
        comm.is_open = false;
        self.listeners[listener].is_hurt = true;
        let call = self.world.table(table);
        assert_eq!(known(call.close(which, word)), 0, "{which:?}");
        assert_ne!(known(call.close(which, word)), 0, "{which:?} twice");
        self.world.keep(word);
        for request in (0..self.requests.len()).rev() {
            let Request { comm, word, .. } = self.requests[request];
            if comm == at {
                let mut done = 0;
                let result = self.world.table(table).test(word, Some(&mut done), None);
                assert!(
                    known(result) != 0 && done == 0,
                    "a request of what was closed"
                );
                self.over(request);
            }
        }
    }

    /// deregMr of a region that nobody's request uses.
    pub(crate) fn deregister(&mut self, table: usize, input: &mut Input<'_>) {
        let comm = self.open_comm(input, None);
        let idle = self.idle_regions(comm);
        if let (Some(region), Some(comm)) = (input.of(&idle), comm) {
            self.deregister_one(table, region, self.comms[comm].word);
        }
    }

    /// Regions that no request uses and that a communicator can deregister.
    pub(crate) fn idle_regions(&self, comm: Option<usize>) -> Vec<usize> {
        let is_global = self.world.settings != ENDPOINTS;
        let regions = self.regions.iter().enumerate();
        let idle = regions.filter(|(_, region)| {
            region.is_open && region.uses == 0 && (is_global || comm == Some(region.owner))
        });
        idle.map(|(at, _)| at).collect()
    }

    pub(crate) fn deregister_one(&mut self, table: usize, region: usize, comm: usize) {
        let word = self.regions[region].word;
        let call = self.world.table(table);
        assert_eq!(known(call.dereg(comm, word)), 0, "deregMr");
        assert_ne!(known(call.dereg(comm, word)), 0, "deregMr twice");
        self.regions[region].is_open = false;
        self.world.keep(word);
    }

    /// Whether what was written with one-sided calls is there.
    pub(crate) fn writes_are_there(&self) -> bool {
        let is_there = |(from, to, len): &(Piece, Piece, usize)| to.is_as(from, *len);
        self.writes.iter().all(is_there)
    }
}
