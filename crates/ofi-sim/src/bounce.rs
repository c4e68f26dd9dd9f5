//! Receive buffers for eager messages on one data rail of one host: some posted, some full and held
//! by the engine, and more made when too few are left posted (protocol 2.k 4).

use std::collections::VecDeque;

use crate::memory::{Memory, index};

/// Buffers a rail begins with, and how few may be left posted before more are added.
const POSTED: usize = 4;

/// The buffers of one rail.
#[derive(Debug)]
pub(crate) struct Bounce {
    addrs: Vec<u64>,
    /// Posted ones, the next to be filled first.
    posted: VecDeque<u32>,
    /// Neither posted nor full.
    spare: Vec<u32>,
    held: Vec<bool>,
    /// Messages that found no buffer (receiver not ready): operations, in order.
    pub(crate) waiting: VecDeque<u32>,
    pub(crate) bytes: u64,
}

impl Bounce {
    /// The buffers of a rail, or none when eager is off.
    pub(crate) fn new(memory: &mut Memory, bytes: u64, on: bool) -> Self {
        let mut bounce = Self {
            addrs: Vec::new(),
            posted: VecDeque::new(),
            spare: Vec::new(),
            held: Vec::new(),
            waiting: VecDeque::new(),
            bytes,
        };
        if on {
            (0..POSTED).for_each(|_| bounce.grow(memory));
        }
        bounce
    }

    fn grow(&mut self, memory: &mut Memory) {
        let number = u32::try_from(self.addrs.len()).unwrap_or(u32::MAX);
        self.addrs.push(memory.allocate(self.bytes));
        self.held.push(false);
        self.posted.push_back(number);
    }

    /// The next posted buffer, for a message that arrives.
    pub(crate) fn take(&mut self) -> Option<u32> {
        self.posted.pop_front()
    }

    /// Where a buffer is, if there is such a buffer.
    pub(crate) fn addr(&self, number: u32) -> Option<u64> {
        self.addrs.get(index(number.into())).copied()
    }

    /// The engine copied what it needed: the buffer is posted again.
    pub(crate) fn repost(&mut self, number: u32) {
        self.posted.push_back(number);
    }

    /// The engine holds the buffer: another one is posted when few are left.
    pub(crate) fn hold(&mut self, number: u32, memory: &mut Memory) {
        self.held[index(number.into())] = true;
        if self.posted.len() < POSTED {
            match self.spare.pop() {
                Some(spare) => self.posted.push_back(spare),
                None => self.grow(memory),
            }
        }
    }

    /// The engine gives a held buffer back. False when it did not hold it.
    pub(crate) fn release(&mut self, number: u32, memory: &mut Memory) -> bool {
        let held = self.held.get_mut(index(number.into()));
        if !held.is_some_and(|held| core::mem::replace(held, false)) {
            return false;
        }
        // A copy that has not been made yet would now copy this.
        memory
            .at_mut(self.addrs[index(number.into())], self.bytes)
            .fill(0xDD);
        if self.posted.len() < POSTED {
            self.posted.push_back(number);
        } else {
            self.spare.push(number);
        }
        true
    }

    /// Buffers that the engine holds.
    pub(crate) fn held(&self) -> usize {
        self.held.iter().filter(|held| **held).count()
    }

    /// Whether the engine holds this buffer.
    pub(crate) fn is_held(&self, number: u32) -> bool {
        self.held
            .get(index(number.into()))
            .copied()
            .unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Addressing;

    #[test]
    fn held_buffers_are_replaced_and_come_back_once() {
        let mut memory = Memory::new(
            0,
            0,
            Addressing {
                virt: true,
                key_salt: 0,
            },
        );
        let mut bounce = Bounce::new(&mut memory, 16, true);
        let taken: Vec<_> = (0..10)
            .map(|_| {
                let number = bounce.take().unwrap();
                bounce.hold(number, &mut memory);
                number
            })
            .collect();
        assert_eq!(bounce.held(), 10);
        for number in taken {
            assert!(bounce.release(number, &mut memory));
            assert!(!bounce.release(number, &mut memory), "only once");
        }
        assert_eq!(bounce.held(), 0);
        assert!(!bounce.release(99, &mut memory), "no such buffer");
    }
}
