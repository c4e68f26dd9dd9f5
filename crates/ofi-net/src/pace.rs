//! How a caller polls: when it is time to look at the clock, and how long it was away.
//!
//! Pure: the time is an argument. The clock is read only in every [`PASSES_PER_LOOK`]th pass without a
//! completion (decision 34), so an absence is what a gap between two looks is longer than so many passes
//! can take: exact to [`PASS_MS_MAX`] a pass.

/// Passes without a completion between two looks at the clock (decision 34).
const PASSES_PER_LOOK: u32 = 256;

/// A caller that makes a pass within so long polls; one that takes longer is away meanwhile.
const PASS_MS_MAX: u64 = 4;

/// The passes of one domain.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Since the last look, without a completion.
    quiet: u32,
    /// Since the last look, all.
    passes: u64,
    looked_ms: Option<u64>,
}

impl Pace {
    /// Counts a pass; whether to look at the clock now.
    #[inline]
    pub(crate) const fn pass(&mut self, harvested: usize) -> bool {
        self.passes = self.passes.wrapping_add(1);
        if harvested != 0 {
            return false;
        }
        self.quiet += 1;
        self.quiet >= PASSES_PER_LOOK
    }

    /// It is `now_ms`: how long the caller was away since the last look, milliseconds.
    pub(crate) const fn look(&mut self, now_ms: u64) -> u64 {
        let gap = match self.looked_ms {
            Some(before) => now_ms.saturating_sub(before),
            None => 0,
        };
        let away = gap.saturating_sub(self.passes.saturating_mul(PASS_MS_MAX));
        *self = Self {
            quiet: 0,
            passes: 0,
            looked_ms: Some(now_ms),
        };
        away
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Polls once every `every_ms` until `until_ms`: all the time away, and how often it looked.
    fn poll(pace: &mut Pace, mut now_ms: u64, until_ms: u64, every_ms: u64) -> (u64, u32) {
        let (mut away, mut looks) = (0, 0);
        while now_ms < until_ms {
            if pace.pass(0) {
                away += pace.look(now_ms);
                looks += 1;
            }
            now_ms += every_ms;
        }
        (away, looks)
    }

    #[test]
    fn who_polls_is_not_away_and_who_sleeps_is() {
        let mut pace = Pace::default();
        let (away, looks) = poll(&mut pace, 0, 60_000, 1);
        assert_eq!(away, 0);
        assert!(looks > 200, "{looks}");
        // A minute without a call.
        let (away, _) = poll(&mut pace, 120_000, 130_000, 1);
        assert!((58_000..=60_000).contains(&away), "{away}");
    }

    #[test]
    fn a_busy_domain_is_not_looked_at_and_nobody_is_away() {
        let mut pace = Pace::default();
        assert_eq!(pace.look(0), 0);
        for _ in 0..100_000 {
            assert!(!pace.pass(1));
        }
        let quiet = (0..PASSES_PER_LOOK).filter(|_| pace.pass(0)).count();
        assert_eq!((quiet, pace.look(50_000)), (1, 0));
    }
}
