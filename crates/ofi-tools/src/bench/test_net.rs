//! A network inside one process for the unit tests: what is sent on it is received on it, in
//! order, with faults on demand.

use core::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};

use crate::abi::{CallError, Net, RecvComm, Region, Request, SendComm, Span};

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// Flips a bit of byte 3 of message 5.
    Flip,
    /// Writes one byte beyond message 5.
    Overrun,
    /// Writes one byte before message 5.
    Underrun,
    /// Reports one byte too many for message 5.
    Size,
    /// Writes into the buffer of message 5 while sending it.
    Scribble,
    /// The sixth send fails.
    Code,
}

#[derive(Debug)]
struct Posted {
    id: usize,
    region: Region,
    at: usize,
    len: usize,
}

#[derive(Debug)]
pub(crate) struct TestNet {
    fault: Fault,
    calls: Cell<usize>,
    next: Cell<usize>,
    matched: Cell<usize>,
    sends: RefCell<VecDeque<Posted>>,
    recvs: RefCell<VecDeque<Posted>>,
    done: RefCell<HashMap<usize, usize>>,
    pub(crate) flushes: Cell<usize>,
}

impl TestNet {
    pub(crate) fn new(fault: Fault) -> Self {
        Self {
            fault,
            calls: Cell::new(0),
            next: Cell::new(1),
            matched: Cell::new(0),
            sends: RefCell::default(),
            recvs: RefCell::default(),
            done: RefCell::default(),
            flushes: Cell::new(0),
        }
    }

    /// Every third posting call gives no request.
    fn admit(&self, span: Span<'_>) -> Option<Posted> {
        self.calls.set(self.calls.get() + 1);
        if self.calls.get() % 3 == 0 {
            return None;
        }
        let id = self.next.replace(self.next.get() + 1);
        Some(Posted {
            id,
            region: span.buffer.region,
            at: span.at,
            len: span.len,
        })
    }

    fn progress(&self) {
        let (mut sends, mut recvs) = (self.sends.borrow_mut(), self.recvs.borrow_mut());
        while !sends.is_empty() && !recvs.is_empty() {
            let (Some(s), Some(r)) = (sends.pop_front(), recvs.pop_front()) else {
                return;
            };
            let hit = self.matched.replace(self.matched.get() + 1) == 5;
            let len = s.len.min(r.len);
            let mut bytes = vec![0; len];
            s.region.read(s.at, &mut bytes);
            if hit && self.fault == Fault::Flip {
                bytes[3] ^= 1;
            }
            r.region.write(r.at, &bytes);
            match self.fault {
                Fault::Overrun if hit => r.region.write(r.at + len, &[0]),
                Fault::Underrun if hit => r.region.write(r.at - 1, &[0]),
                Fault::Scribble if hit => s.region.write(s.at, &[!bytes[0]]),
                _ => {}
            }
            let reported = len + usize::from(hit && self.fault == Fault::Size);
            self.done
                .borrow_mut()
                .extend([(s.id, len), (r.id, reported)]);
        }
    }
}

impl Net for TestNet {
    fn isend(&self, _: &SendComm, span: Span<'_>) -> Result<Option<Request>, CallError> {
        if self.fault == Fault::Code && self.next.get() > 10 {
            return Err(CallError {
                call: "isend",
                code: 2,
            });
        }
        let Some(posted) = self.admit(span) else {
            return Ok(None);
        };
        let request = Request::numbered(posted.id);
        self.sends.borrow_mut().push_back(posted);
        Ok(request)
    }

    fn irecv(&self, _: &RecvComm, span: Span<'_>) -> Result<Option<Request>, CallError> {
        let Some(posted) = self.admit(span) else {
            return Ok(None);
        };
        let request = Request::numbered(posted.id);
        self.recvs.borrow_mut().push_back(posted);
        Ok(request)
    }

    fn iflush(&self, _: &RecvComm, _: Span<'_>) -> Result<Option<Request>, CallError> {
        self.flushes.set(self.flushes.get() + 1);
        let id = self.next.replace(self.next.get() + 1);
        self.done.borrow_mut().insert(id, 0);
        Ok(Request::numbered(id))
    }

    fn test(&self, request: &Request) -> Result<Option<usize>, CallError> {
        self.progress();
        Ok(self.done.borrow_mut().remove(&request.number()))
    }
}
