//! Variable-sized blocks of one buffer, taken around a ring and given back in any order.

use std::collections::VecDeque;

#[derive(Debug)]
struct Taken {
    start: usize,
    end: usize,
    free: bool,
}

/// The blocks of a buffer in use.
#[derive(Debug)]
pub(super) struct Arena {
    room: usize,
    /// Oldest first. Space is reused when the oldest is given back.
    taken: VecDeque<Taken>,
}

impl Arena {
    pub(super) fn new(room: usize) -> Self {
        Self {
            room,
            taken: VecDeque::new(),
        }
    }

    /// The start of `len` bytes that nobody uses; None if there are none behind the newest block or,
    /// once around, before the oldest.
    pub(super) fn take(&mut self, len: usize) -> Option<usize> {
        let start = match (self.taken.front(), self.taken.back()) {
            (Some(oldest), Some(newest)) if newest.start >= oldest.start => {
                if len <= self.room - newest.end {
                    newest.end
                } else if len < oldest.start {
                    0
                } else {
                    return None;
                }
            }
            (Some(oldest), Some(newest)) if len < oldest.start - newest.end => newest.end,
            (None, _) if len <= self.room => 0,
            _ => return None,
        };
        self.taken.push_back(Taken {
            start,
            end: start + len,
            free: false,
        });
        Some(start)
    }

    /// Gives the block that starts at `start` back.
    pub(super) fn give(&mut self, start: usize) {
        if let Some(block) = self.taken.iter_mut().find(|b| b.start == start && !b.free) {
            block.free = true;
        }
        while self.taken.front().is_some_and(|b| b.free) {
            self.taken.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::draw::Dice;

    #[test]
    fn blocks_never_overlap_and_all_room_comes_back() {
        let mut arena = Arena::new(1000);
        let mut dice = Dice::new(3);
        let mut mine: Vec<(usize, usize)> = Vec::new();
        let mut taken = 0;
        for _ in 0..20_000 {
            let len = 1 + dice.below(300);
            if dice.below(2) == 0 {
                if let Some(start) = arena.take(len) {
                    assert!(start + len <= 1000);
                    for (s, l) in &mine {
                        assert!(
                            start + len <= *s || s + l <= start,
                            "{start}+{len} and {s}+{l}"
                        );
                    }
                    mine.push((start, len));
                    taken += 1;
                }
            } else if !mine.is_empty() {
                let (start, _) = mine.swap_remove(dice.below(mine.len()));
                arena.give(start);
            }
        }
        assert!(taken > 1000);
        for (start, _) in mine {
            arena.give(start);
        }
        assert_eq!(arena.take(1000), Some(0));
        assert_eq!(arena.take(1), None);
    }
}
