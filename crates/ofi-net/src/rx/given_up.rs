//! Lanes whose receives only fail: they get none any more, which is told.

use super::{FAILURES_MAX, Receives, bit, lanes};
use ofi_rdma::Lane;

impl Receives {
    /// A receive could not be posted for another reason than a full queue, or came back with an error.
    #[cold]
    pub(crate) fn unpostable(&mut self, lane: Lane) {
        if let Some(state) = self.state_mut(lane) {
            state.failures = state.failures.saturating_add(1);
            if state.failures == FAILURES_MAX {
                self.given_up |= bit(lane);
            }
        }
        self.mark(lane);
    }

    /// The lanes that were given up since the last time. One that gets a message after all, of a receive that was
    /// posted before, is used again.
    pub(crate) fn given_up(&mut self) -> impl Iterator<Item = Lane> + use<> {
        let set = core::mem::take(&mut self.given_up);
        let all = lanes(self.limits.data_lanes, self.limits.control_lanes);
        all.filter(move |lane| set & bit(*lane) != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rx::{EAGER_BYTES_MIN, Limits};

    fn receives() -> Receives {
        let limits = Limits {
            data_lanes: 4,
            control_lanes: 4,
            control_max: 2048,
            eager_min: 64,
            eager_max: 128,
            eager_bytes: EAGER_BYTES_MIN,
            queue: 1024,
        };
        Receives::new(limits, 4096).unwrap()
    }

    fn told(receives: &mut Receives) -> Vec<Lane> {
        receives.given_up().collect()
    }

    #[test]
    fn a_lane_whose_receives_only_fail_is_given_up_and_told_once() {
        let mut receives = receives();
        receives.listen();
        let all = [Lane::data(3), Lane::control(0)];
        for lane in all {
            for _ in 1..FAILURES_MAX {
                receives.unpostable(lane);
            }
            assert!(receives.wants(lane), "not yet");
            assert_eq!(told(&mut receives), []);
            receives.unpostable(lane);
            assert!(!receives.wants(lane) && !receives.is_low(lane));
            assert_eq!(told(&mut receives), [lane]);
            receives.unpostable(lane);
            assert_eq!(told(&mut receives), [], "once");
        }
        assert!(receives.wants(Lane::control(1)));
    }

    /// Nothing can come in there: that is a stall of those who wait, and not one while it is tried again.
    #[test]
    fn a_lane_that_was_given_up_is_bare() {
        let mut receives = receives();
        receives.listen();
        let failing = Lane::data(0);
        for lane in lanes(4, 4).filter(|lane| *lane != failing) {
            receives.posted(lane);
        }
        for _ in 1..FAILURES_MAX {
            receives.unpostable(failing);
            assert_eq!(receives.bare(1000, 0), None);
        }
        receives.unpostable(failing);
        assert_eq!(receives.bare(2000, 0), Some((failing, 0)));
        assert_eq!(receives.bare(3500, 0), Some((failing, 1500)));
    }
}
