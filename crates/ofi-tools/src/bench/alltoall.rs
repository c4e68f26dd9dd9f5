//! All-to-all, as a script for lanes: a pair of lanes for each peer.

use super::exchange::{Area, Piece, Script};

/// One rank's part. Lane `2k` sends to the peer `k + 1` places up the ring, lane `2k + 1` receives
/// from it.
#[derive(Debug)]
pub(crate) struct AllToAll {
    pub(crate) rank: usize,
    pub(crate) world: usize,
    /// Bytes for each peer.
    pub(crate) block: usize,
    /// Bytes of a piece, at most.
    pub(crate) slice: usize,
    /// Offset of the data in each area.
    pub(crate) base: usize,
}

impl AllToAll {
    pub(crate) const fn peer(&self, lane: usize) -> usize {
        (self.rank + 1 + lane / 2) % self.world
    }
}

impl Script for AllToAll {
    fn messages(&self) -> u64 {
        u64::try_from(self.block.div_ceil(self.slice).max(1)).unwrap_or(u64::MAX)
    }

    fn piece(&self, lane: usize, message: u64) -> Piece {
        let from = usize::try_from(message).unwrap_or(0) * self.slice;
        let area = if lane % 2 == 0 {
            Area::Input
        } else {
            Area::Output
        };
        let at = self.base + self.peer(lane) * self.block + from;
        Piece {
            area,
            at,
            len: self.slice.min(self.block - from),
        }
    }

    fn may_post(&self, _: usize, _: u64, _: &[u64]) -> bool {
        true
    }

    fn arrived(&mut self, _: usize, _: u64) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_a_lane_cover_the_peers_block() {
        let all = AllToAll {
            rank: 2,
            world: 4,
            block: 1000,
            slice: 300,
            base: 256,
        };
        assert_eq!(
            [all.peer(0), all.peer(1), all.peer(2), all.peer(4)],
            [3, 3, 0, 1]
        );
        let pieces: Vec<Piece> = (0..all.messages()).map(|m| all.piece(3, m)).collect();
        assert_eq!(pieces.iter().map(|p| p.len).sum::<usize>(), 1000);
        assert_eq!(
            (pieces[0].at, pieces[3].at, pieces[3].len),
            (256, 256 + 900, 100)
        );
        let empty = AllToAll { block: 0, ..all };
        assert_eq!((empty.messages(), empty.piece(0, 0).len), (1, 0));
    }
}
