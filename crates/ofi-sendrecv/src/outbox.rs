//! Operations that wait for the provider: a ring of communicators, each with a FIFO.
//!
//! One FIFO would be simpler, and wrong: on some providers a peer that is gone answers EAGAIN for
//! ever, and would block every other communicator of the endpoint. Within a communicator the order is
//! kept: messages of one tag match in the order in which they are posted.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::token::Named;

/// Busy tries in a row before the first pump is skipped: connecting takes a few.
const FREE_TRIES: u32 = 32;

/// Doublings of the wait after that.
const DOUBLINGS: u32 = 6;

/// The waiting operations of one engine. Communicators are named by their slot index.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    fifos: Vec<VecDeque<Named>>,
    ring: VecDeque<u32>,
    len: usize,
    backoff: Backoff,
}

/// How often a busy outbox is tried while nothing else happens: on TCP each try to a peer that is gone
/// is a connection attempt.
#[derive(Debug, Default)]
struct Backoff {
    tries: u32,
    skip: u32,
    happened: u32,
}

impl Outbox {
    /// Operations waiting, of all communicators.
    #[inline]
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Communicators that wait.
    pub(crate) fn ring_len(&self) -> usize {
        self.ring.len()
    }

    /// Operations of one communicator that wait.
    #[inline]
    pub(crate) fn waiting(&self, comm: u32) -> usize {
        self.fifos.get(comm as usize).map_or(0, VecDeque::len)
    }

    /// Appends an operation. Costs no allocation once as many have waited before.
    pub(crate) fn push(&mut self, comm: u32, named: Named) {
        let slot = comm as usize;
        if slot >= self.fifos.len() {
            self.fifos.resize_with(slot + 1, VecDeque::new);
        }
        let fifo = &mut self.fifos[slot];
        if fifo.is_empty() {
            self.ring.push_back(comm);
        }
        fifo.push_back(named);
        self.len += 1;
    }

    /// The operation whose turn it is, and its communicator's slot.
    #[inline]
    pub(crate) fn peek(&self) -> Option<(u32, Named)> {
        let comm = *self.ring.front()?;
        let head = self.fifos.get(comm as usize)?.front()?;
        Some((comm, *head))
    }

    /// Takes the operation that [`Outbox::peek`] showed.
    pub(crate) fn pop(&mut self) {
        let Some(&comm) = self.ring.front() else {
            return;
        };
        let fifo = &mut self.fifos[comm as usize];
        self.len -= usize::from(fifo.pop_front().is_some());
        if fifo.is_empty() {
            self.ring.pop_front();
        }
    }

    /// The provider was busy: the next communicator gets its turn.
    pub(crate) fn rotate(&mut self) {
        if self.ring.len() > 1 {
            self.ring.rotate_left(1);
        }
    }

    /// Drops everything of one communicator (decision 13), showing each operation to `dropped`.
    pub(crate) fn drop_comm(&mut self, comm: u32, dropped: impl FnMut(Named)) {
        let Some(fifo) = self.fifos.get_mut(comm as usize) else {
            return;
        };
        if fifo.is_empty() {
            return;
        }
        self.len -= fifo.len();
        fifo.drain(..).for_each(dropped);
        self.ring.retain(|&other| other != comm);
    }

    /// Whether it is tried in this pump; `happened` counts what happens on the engine.
    #[inline]
    pub(crate) const fn is_due(&mut self, happened: u32) -> bool {
        let backoff = &mut self.backoff;
        if backoff.happened != happened {
            backoff.tries = 0;
            backoff.skip = 0;
            backoff.happened = happened;
        }
        if backoff.skip == 0 {
            return true;
        }
        backoff.skip -= 1;
        false
    }

    /// The pump ended busy. The wait doubles, up to every 64th pump.
    #[cold]
    pub(crate) fn busy(&mut self, happened: u32) {
        let backoff = &mut self.backoff;
        if backoff.happened != happened {
            backoff.tries = 0;
            backoff.happened = happened;
        }
        backoff.tries = (backoff.tries + 1).min(FREE_TRIES + DOUBLINGS);
        backoff.skip = (1 << backoff.tries.saturating_sub(FREE_TRIES)) - 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::Op;
    use ofi_pools::Key;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        Push(u32),
        Pop,
        Rotate,
        Drop(u32),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => (0..5u32).prop_map(Step::Push),
            4 => Just(Step::Pop),
            2 => Just(Step::Rotate),
            1 => (0..5u32).prop_map(Step::Drop),
        ]
    }

    /// Communicators in turn, each with its queue.
    type Model = Vec<(u32, VecDeque<u32>)>;

    fn apply(outbox: &mut Outbox, model: &mut Model, serial: u32, step: &Step) {
        match *step {
            Step::Push(comm) => {
                let owner = Key::new(serial, 0);
                outbox.push(
                    comm,
                    Named {
                        op: Op::Send,
                        owner,
                    },
                );
                match model.iter_mut().find(|(c, _)| *c == comm) {
                    Some((_, queue)) => queue.push_back(serial),
                    None => model.push((comm, VecDeque::from([serial]))),
                }
            }
            Step::Pop => {
                outbox.pop();
                if let Some((_, queue)) = model.first_mut() {
                    queue.pop_front();
                    if queue.is_empty() {
                        model.remove(0);
                    }
                }
            }
            Step::Rotate => {
                outbox.rotate();
                if !model.is_empty() {
                    model.rotate_left(1);
                }
            }
            Step::Drop(comm) => {
                let mut dropped = 0;
                outbox.drop_comm(comm, |_| dropped += 1);
                let of = model.iter().find(|(c, _)| *c == comm);
                assert_eq!(dropped, of.map_or(0, |(_, queue)| queue.len()));
                model.retain(|(c, _)| *c != comm);
            }
        }
    }

    proptest! {
        #[test]
        fn follows_the_model(steps in proptest::collection::vec(step(), 0..300)) {
            let (mut outbox, mut model) = (Outbox::default(), Model::new());
            for (serial, step) in (1..).zip(&steps) {
                apply(&mut outbox, &mut model, serial, step);
                let head = model.first().map(|(comm, queue)| (*comm, queue[0]));
                prop_assert_eq!(outbox.peek().map(|(comm, n)| (comm, n.owner.index())), head);
                prop_assert_eq!(outbox.ring_len(), model.len());
                prop_assert_eq!(outbox.len(), model.iter().map(|(_, q)| q.len()).sum::<usize>());
            }
        }
    }

    #[test]
    fn a_busy_outbox_is_tried_less_and_less_until_something_happens() {
        let mut outbox = Outbox::default();
        let mut tried = Vec::new();
        for pump in 0..10_000_u32 {
            if outbox.is_due(7) {
                outbox.busy(7);
                tried.push(pump);
            }
        }
        assert_eq!(tried[31], 31, "at first every pump");
        assert_eq!(tried[tried.len() - 1] - tried[tried.len() - 2], 64);
        assert!(outbox.is_due(8), "what happens ends the wait");
    }
}
