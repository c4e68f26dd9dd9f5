//! Operations that wait for the provider, which was busy: per lane a ring of communicators, per
//! communicator a FIFO.
//!
//! One FIFO a lane would be simpler, and wrong: on some providers a peer that is gone answers EAGAIN
//! for ever (providers 1a), and would block every other communicator of the lane. So the head of
//! the ring is offered; when its provider path is busy the next communicator gets its turn.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use ofi_pools::Key;

use crate::error::OpKind;
use crate::port::Lane;

const NIL: u32 = u32::MAX;

/// One waiting operation: what [`crate::Wire`] is built from when its turn comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Waiting {
    pub(crate) op: OpKind,
    /// The communicator for CONN, `CONN_RESP` and CLOSE; the request for the rest.
    pub(crate) owner: Key,
    /// For a segment: where it begins in the message.
    pub(crate) offset: u32,
    /// For a segment: its bytes.
    pub(crate) len: u32,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    waiting: Waiting,
    next: u32,
}

/// FIFO of one communicator on one lane.
#[derive(Clone, Copy, Debug)]
struct Fifo {
    head: u32,
    tail: u32,
}

const EMPTY: Fifo = Fifo {
    head: NIL,
    tail: NIL,
};

#[derive(Clone, Debug)]
struct PerComm {
    fifos: [Fifo; Lane::COUNT_MAX],
    count: u32,
}

/// The waiting operations of one engine. Communicators are named by their slot index.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outbox {
    entries: Vec<Entry>,
    free: Vec<u32>,
    comms: Vec<PerComm>,
    rings: [VecDeque<u32>; Lane::COUNT_MAX],
    len: usize,
}

impl Outbox {
    /// Operations waiting, of all communicators.
    #[inline]
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Operations of one communicator that wait.
    #[cfg(test)]
    pub(crate) fn waiting(&self, comm: u32) -> u32 {
        self.comms.get(comm as usize).map_or(0, |c| c.count)
    }

    /// Appends an operation. Costs no allocation once as many have waited before.
    pub(crate) fn push(&mut self, comm: u32, lane: Lane, waiting: Waiting) {
        let entry = Entry { waiting, next: NIL };
        let at = match self.free.pop() {
            Some(at) => {
                self.entries[at as usize] = entry;
                at
            }
            None => {
                self.entries.push(entry);
                u32::try_from(self.entries.len() - 1).unwrap_or(NIL)
            }
        };
        let slot = comm as usize;
        if slot >= self.comms.len() {
            let new = PerComm {
                fifos: [EMPTY; Lane::COUNT_MAX],
                count: 0,
            };
            self.comms.resize(slot + 1, new);
        }
        let per_comm = &mut self.comms[slot];
        let fifo = &mut per_comm.fifos[lane.index()];
        if fifo.head == NIL {
            fifo.head = at;
            self.rings[lane.index()].push_back(comm);
        } else {
            self.entries[fifo.tail as usize].next = at;
        }
        fifo.tail = at;
        per_comm.count += 1;
        self.len += 1;
    }

    /// Communicators that wait on a lane.
    pub(crate) fn ring_len(&self, lane: Lane) -> usize {
        self.rings[lane.index()].len()
    }

    /// The operation whose turn it is.
    #[inline]
    pub(crate) fn peek(&self, lane: Lane) -> Option<Waiting> {
        let comm = *self.rings[lane.index()].front()?;
        let head = self.comms[comm as usize].fifos[lane.index()].head;
        Some(self.entries[head as usize].waiting)
    }

    /// Takes the operation that [`Outbox::peek`] showed.
    pub(crate) fn pop(&mut self, lane: Lane) {
        let ring = &mut self.rings[lane.index()];
        let Some(&comm) = ring.front() else { return };
        let per_comm = &mut self.comms[comm as usize];
        let fifo = &mut per_comm.fifos[lane.index()];
        let at = fifo.head;
        fifo.head = self.entries[at as usize].next;
        if fifo.head == NIL {
            fifo.tail = NIL;
            ring.pop_front();
        }
        per_comm.count -= 1;
        self.free.push(at);
        self.len -= 1;
    }

    /// What waits on a lane, in the order in which it is offered if nothing is busy: the number of its
    /// communicator, and itself.
    pub(crate) fn on_lane(&self, lane: Lane) -> impl Iterator<Item = (u32, Waiting)> + '_ {
        self.rings[lane.index()].iter().flat_map(move |&comm| {
            let head = self.comms[comm as usize].fifos[lane.index()].head;
            let entry = move |at: u32| self.entries.get(at as usize);
            let fifo = core::iter::successors(entry(head), move |e| entry(e.next));
            fifo.map(move |e| (comm, e.waiting))
        })
    }

    /// The provider was busy: the next communicator of the lane gets its turn.
    pub(crate) fn rotate(&mut self, lane: Lane) {
        let ring = &mut self.rings[lane.index()];
        if ring.len() > 1 {
            ring.rotate_left(1);
        }
    }

    /// Drops everything of one communicator (decision 13: outboxes are dropped first), showing each
    /// operation to `dropped`.
    pub(crate) fn drop_comm(&mut self, comm: u32, mut dropped: impl FnMut(Waiting)) {
        let Some(per_comm) = self.comms.get_mut(comm as usize) else {
            return;
        };
        if per_comm.count == 0 {
            return;
        }
        per_comm.count = 0;
        for (fifo, ring) in per_comm.fifos.iter_mut().zip(&mut self.rings) {
            let mut at = core::mem::replace(fifo, EMPTY).head;
            if at != NIL {
                ring.retain(|&other| other != comm);
            }
            while at != NIL {
                let entry = self.entries[at as usize];
                dropped(entry.waiting);
                self.free.push(at);
                self.len -= 1;
                at = entry.next;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Op {
        Push(u32, u8),
        Pop(u8),
        Rotate(u8),
        Drop(u32),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            6 => (0..5u32, 0..4u8).prop_map(|(c, l)| Op::Push(c, l)),
            4 => (0..4u8).prop_map(Op::Pop),
            2 => (0..4u8).prop_map(Op::Rotate),
            1 => (0..5u32).prop_map(Op::Drop),
        ]
    }

    /// Lanes 0 and 1 of each kind.
    fn lane(l: u8) -> Lane {
        if l < 2 {
            Lane::data(l)
        } else {
            Lane::control(l - 2)
        }
    }

    /// The model of a lane: communicators in turn, each with its queue.
    type Model = [Vec<(u32, VecDeque<u32>)>; 4];

    fn apply(outbox: &mut Outbox, model: &mut Model, serial: &mut u32, op: &Op) {
        match *op {
            Op::Push(comm, l) => {
                *serial += 1;
                let owner = Key::new(*serial, 0);
                let waiting = Waiting {
                    op: OpKind::Write,
                    owner,
                    offset: 0,
                    len: 0,
                };
                outbox.push(comm, lane(l), waiting);
                let ring = &mut model[usize::from(l)];
                match ring.iter_mut().find(|(c, _)| *c == comm) {
                    Some((_, queue)) => queue.push_back(*serial),
                    None => ring.push((comm, VecDeque::from([*serial]))),
                }
            }
            Op::Pop(l) => {
                outbox.pop(lane(l));
                let ring = &mut model[usize::from(l)];
                if let Some((_, queue)) = ring.first_mut() {
                    queue.pop_front();
                    if queue.is_empty() {
                        ring.remove(0);
                    }
                }
            }
            Op::Rotate(l) => {
                outbox.rotate(lane(l));
                let ring = &mut model[usize::from(l)];
                if !ring.is_empty() {
                    ring.rotate_left(1);
                }
            }
            Op::Drop(comm) => {
                let mut dropped = 0;
                outbox.drop_comm(comm, |_| dropped += 1);
                let mut expected = 0;
                for ring in model.iter_mut() {
                    expected += ring
                        .iter()
                        .filter(|(c, _)| *c == comm)
                        .map(|(_, q)| q.len())
                        .sum::<usize>();
                    ring.retain(|(c, _)| *c != comm);
                }
                assert_eq!(dropped, expected);
            }
        }
    }

    fn compare(outbox: &Outbox, model: &Model) {
        for l in 0..4u8 {
            let ring = &model[usize::from(l)];
            let head = ring.first().map(|(_, q)| q[0]);
            assert_eq!(outbox.peek(lane(l)).map(|w| w.owner.index()), head);
            assert_eq!(outbox.ring_len(lane(l)), ring.len());
        }
        let total: usize = model.iter().flatten().map(|(_, q)| q.len()).sum();
        assert_eq!(outbox.len(), total);
        for comm in 0..5 {
            let of = model
                .iter()
                .flatten()
                .filter(|(c, _)| *c == comm)
                .map(|(_, q)| q.len())
                .sum::<usize>();
            assert_eq!(outbox.waiting(comm) as usize, of);
        }
    }

    proptest! {
        #[test]
        fn follows_the_model(ops in proptest::collection::vec(op(), 0..300)) {
            let (mut outbox, mut model, mut serial) = (Outbox::default(), Model::default(), 0);
            for op in &ops {
                apply(&mut outbox, &mut model, &mut serial, op);
                compare(&outbox, &model);
            }
        }
    }
}
