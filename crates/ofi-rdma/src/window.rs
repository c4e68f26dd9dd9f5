//! The window of sequence numbers of one communicator (protocol 2e.9).
//!
//! ```text
//!      oldest                    next              oldest + WINDOW
//!        |  done or in progress    |  not started     |
//!   -----+-------------------------+------------------+----- sequence numbers, modulo 2^SEQ_BITS
//!        ^ moves when its message  ^ moves by our own isend / irecv
//!          was taken by test()
//! ```
//!
//! What the peer sends early (CTRL before isend, eager data before irecv) waits in a slot between
//! `next` and the end. `next - oldest` never exceeds the in-flight cap, and the peer keeps the same
//! cap, so a peer that plays by the rules is never beyond the window: `2 * INFLIGHT_MAX <= WINDOW`.

use alloc::boxed::Box;
use core::marker::PhantomData;

use crate::counts::Past;
use crate::dialect::{Bounds, Dialect};
use crate::key::SLOTS_MAX;

/// What a sequence number stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// Nobody has started this message here.
    Empty,
    /// Something of the peer waits for our call: the index of the held item.
    Early(u32),
    /// Our request: its slot index.
    Active(u32),
    /// Finished and taken.
    Done,
}

/// Where a sequence number lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lookup {
    /// Inside the window.
    Within(Slot),
    /// Before it: finished long ago.
    Past,
    /// Beyond it.
    Beyond,
}

/// A tag in the low bits, of which one at most is set; the index above them.
const TAG_BITS: u32 = 3;
const TAG_MASK: u32 = (1 << TAG_BITS) - 1;
const EARLY: u32 = 1;
const ACTIVE: u32 = 2;
const DONE: u32 = 4;

const _: () = assert!(SLOTS_MAX <= 1 << (u32::BITS - TAG_BITS));

const fn pack(slot: Slot) -> u32 {
    match slot {
        Slot::Empty => 0,
        Slot::Early(index) => index << TAG_BITS | EARLY,
        Slot::Active(index) => index << TAG_BITS | ACTIVE,
        Slot::Done => DONE,
    }
}

const fn unpack(word: u32) -> Slot {
    let index = word >> TAG_BITS;
    match word & TAG_MASK {
        0 => Slot::Empty,
        EARLY => Slot::Early(index),
        ACTIVE => Slot::Active(index),
        _ => Slot::Done,
    }
}

/// Slots there are, whatever the dialect needs: a mask of eight bits then finds one without a check.
const SLOTS: usize = 256;

/// The window: 4 bytes a slot.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Window<D> {
    slots: Box<[u32; SLOTS]>,
    oldest: u16,
    next: u16,
    /// Messages started, modulo 2^32.
    started: Past<u32>,
    dialect: PhantomData<D>,
}

impl<D: Dialect> Window<D> {
    const SLOT_MASK: u8 = {
        assert!(D::WINDOW as usize <= SLOTS);
        let [low, _] = (D::WINDOW - 1).to_le_bytes();
        low
    };
    const SEQ_MASK: u16 = Bounds::<D>::SEQ_MASK;

    pub(crate) fn new() -> Self {
        Self {
            slots: Box::new([0; SLOTS]),
            oldest: 0,
            next: 0,
            started: Past::default(),
            dialect: PhantomData,
        }
    }

    /// The slot of a sequence number.
    #[inline]
    const fn at(seq: u16) -> usize {
        let [low, _] = seq.to_le_bytes();
        (low & Self::SLOT_MASK) as usize
    }

    /// Sequence number of our oldest message that `test` has not taken.
    pub(crate) const fn oldest(&self) -> u16 {
        self.oldest
    }

    /// Sequence number of our next message.
    #[inline]
    pub(crate) const fn next(&self) -> u16 {
        self.next
    }

    /// Messages started.
    pub(crate) const fn started(&self) -> Past<u32> {
        self.started
    }

    /// Messages of ours between the oldest that is not taken and the next.
    #[inline]
    pub(crate) fn outstanding(&self) -> u16 {
        self.next.wrapping_sub(self.oldest) & Self::SEQ_MASK
    }

    #[inline]
    pub(crate) fn lookup(&self, seq: u16) -> Lookup {
        let ahead = seq.wrapping_sub(self.oldest) & Self::SEQ_MASK;
        if ahead < D::WINDOW {
            Lookup::Within(unpack(self.slots[Self::at(seq)]))
        } else if (self.oldest.wrapping_sub(seq) & Self::SEQ_MASK) <= D::WINDOW {
            Lookup::Past
        } else {
            Lookup::Beyond
        }
    }

    /// The request of the message in progress whose slot this number has: of that one, or of another as far
    /// away as there are slots, so that whoever asks compares what the request says of itself.
    #[inline(always)]
    pub(crate) fn active_in_slot_of(&self, seq: u16) -> Option<u32> {
        let word = self.slots[Self::at(seq)];
        (word & ACTIVE != 0).then_some(word >> TAG_BITS)
    }

    /// The request of a message that is in progress, if it is.
    #[inline]
    pub(crate) fn active(&self, seq: u16) -> Option<u32> {
        let ahead = seq.wrapping_sub(self.oldest) & Self::SEQ_MASK;
        let word = self.slots[Self::at(seq)];
        (ahead < D::WINDOW && word & ACTIVE != 0).then_some(word >> TAG_BITS)
    }

    /// What of the peer waits for our next message. Nothing else can stand there: what is active or done
    /// lies before it.
    #[inline]
    pub(crate) fn next_early(&self) -> Option<u32> {
        let word = self.slots[Self::at(self.next)];
        debug_assert!(word == pack(Slot::Empty) || word & EARLY != 0, "{word}");
        (word & EARLY != 0).then_some(word >> TAG_BITS)
    }

    /// Starts our next message with request `index`; returns its sequence number. The caller keeps
    /// [`Window::outstanding`] below the cap.
    #[inline]
    pub(crate) fn start(&mut self, index: u32) -> u16 {
        let seq = self.next;
        self.slots[Self::at(seq)] = pack(Slot::Active(index));
        self.next = seq.wrapping_add(1) & Self::SEQ_MASK;
        self.started.one_more();
        seq
    }

    /// Keeps something early of the peer for a message that looked [`Slot::Empty`].
    pub(crate) fn hold(&mut self, seq: u16, index: u32) {
        self.slots[Self::at(seq)] = pack(Slot::Early(index));
    }

    /// Our message was taken: frees its slot, and all finished ones before the first unfinished.
    #[inline]
    pub(crate) fn finish(&mut self, seq: u16) {
        if seq != self.oldest {
            self.slots[Self::at(seq)] = pack(Slot::Done);
            return;
        }
        let mut oldest = seq;
        // What is not started is not done, so that this ends at `next`.
        loop {
            self.slots[Self::at(oldest)] = pack(Slot::Empty);
            oldest = oldest.wrapping_add(1) & Self::SEQ_MASK;
            if self.slots[Self::at(oldest)] != pack(Slot::Done) {
                break;
            }
        }
        self.oldest = oldest;
    }

    /// Takes everything that waits for our call; for teardown.
    pub(crate) fn drain_early(&mut self) -> impl Iterator<Item = u32> + '_ {
        self.slots
            .iter_mut()
            .filter_map(|word| match unpack(*word) {
                Slot::Early(index) => {
                    *word = pack(Slot::Empty);
                    Some(index)
                }
                _ => None,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::{Base, Tiny};
    use alloc::collections::BTreeMap;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Op {
        Start,
        Hold(u16),
        Finish(usize),
        Lookup(u16),
    }

    fn ops() -> impl Strategy<Value = Vec<Op>> {
        let op = prop_oneof![
            4 => Just(Op::Start),
            1 => (0..256u16).prop_map(Op::Hold),
            4 => any::<usize>().prop_map(Op::Finish),
            1 => any::<u16>().prop_map(Op::Lookup),
        ];
        proptest::collection::vec(op, 0..600)
    }

    /// The model: unbounded message numbers, no slots, no wrap.
    #[derive(Default)]
    struct Model {
        next: u64,
        live: Vec<u64>,
        early: BTreeMap<u64, u32>,
    }

    impl Model {
        fn oldest(&self) -> u64 {
            self.live.iter().copied().min().unwrap_or(self.next)
        }
    }

    /// What the window says of a number is what the model knows of the only message it can be of.
    fn look<D: Dialect>(window: &Window<D>, model: &Model, raw: u16) {
        let count = 1u64 << D::SEQ_BITS;
        let wire = |n: u64| u16::try_from(n % count).unwrap();
        let n = (0..count)
            .map(|d| model.oldest() + d)
            .find(|&n| wire(n) == raw % u16::try_from(count).unwrap())
            .unwrap();
        let (inside, is_live) = (
            n < model.oldest() + u64::from(D::WINDOW),
            model.live.contains(&n),
        );
        assert_eq!(matches!(window.lookup(wire(n)), Lookup::Within(_)), inside);
        assert_eq!(window.active(wire(n)).is_some(), is_live, "{n}");
        let found = window.active_in_slot_of(wire(n));
        assert!(found.is_some() || !is_live, "{n}");
        assert_eq!(
            window.lookup(wire(n)) == Lookup::Within(Slot::Early(7)),
            model.early.contains_key(&n)
        );
    }

    fn apply<D: Dialect>(window: &mut Window<D>, model: &mut Model, op: &Op) {
        let count = 1u64 << D::SEQ_BITS;
        let wire = |n: u64| u16::try_from(n % count).unwrap();
        match *op {
            Op::Start if window.outstanding() < D::INFLIGHT_MAX => {
                let held = model.early.remove(&model.next);
                assert_eq!(window.next_early(), held);
                let index = u32::try_from(model.next % 1000).unwrap();
                assert_eq!(window.start(index), wire(model.next));
                model.live.push(model.next);
                model.next += 1;
            }
            Op::Start => assert!(model.next - model.oldest() >= u64::from(D::INFLIGHT_MAX)),
            Op::Hold(ahead) => {
                let n = model.next + u64::from(ahead % D::WINDOW);
                if window.lookup(wire(n)) == Lookup::Within(Slot::Empty)
                    && n < model.oldest() + u64::from(D::WINDOW)
                {
                    window.hold(wire(n), 7);
                    assert_eq!(model.early.insert(n, 7), None);
                }
            }
            Op::Finish(pick) if !model.live.is_empty() => {
                let n = model.live.swap_remove(pick % model.live.len());
                window.finish(wire(n));
                assert!(!matches!(
                    window.lookup(wire(n)),
                    Lookup::Within(Slot::Active(_))
                ));
            }
            Op::Finish(_) => {}
            Op::Lookup(raw) => look(window, model, raw),
        }
        assert_eq!(u64::from(window.outstanding()), model.next - model.oldest());
    }

    proptest! {
        #[test]
        fn follows_the_model(ops in ops()) {
            let (mut window, mut model) = (Window::<Base>::new(), Model::default());
            ops.iter().for_each(|op| apply(&mut window, &mut model, op));
        }

        #[test]
        fn follows_the_model_with_three_bits(ops in ops()) {
            let (mut window, mut model) = (Window::<Tiny>::new(), Model::default());
            ops.iter().for_each(|op| apply(&mut window, &mut model, op));
        }
    }

    #[test]
    fn a_legal_peer_is_never_beyond() {
        // Both sides keep their cap: whatever we have not taken, the peer's newest is inside.
        let mut window = Window::<Base>::new();
        for _ in 0..3000 {
            while window.outstanding() < Base::INFLIGHT_MAX {
                window.start(1);
            }
            for ahead in 0..Base::INFLIGHT_MAX {
                let seq = window.next.wrapping_add(ahead) & 0x3FF;
                assert!(
                    matches!(window.lookup(seq), Lookup::Within(Slot::Empty)),
                    "{ahead}"
                );
            }
            window.finish(window.oldest());
        }
    }
}
