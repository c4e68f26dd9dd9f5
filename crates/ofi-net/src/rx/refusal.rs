//! Receive buffers whose memory the provider does not register.

use super::{Receives, bit, lanes};
use crate::error::NetError;
use ofi_rdma::Lane;

impl Receives {
    /// No buffer for `lane` could be registered: it is tried again when some may be to be had. Whether that is news since
    /// more were wanted.
    #[cold]
    pub(crate) fn starve(&mut self, lane: Lane, why: &NetError) -> bool {
        let is_news = self.refusal.replace(why.clone()).is_none();
        self.starved |= bit(lane);
        self.mark(lane);
        is_news
    }

    /// Buffers may be to be had again: all lanes are tried.
    pub(crate) fn feed(&mut self) {
        if core::mem::take(&mut self.starved) != 0 {
            lanes(self.limits.data_lanes, self.limits.control_lanes)
                .for_each(|lane| self.mark(lane));
        }
    }

    /// Why one of the lanes of `which`, which should have receives, has none, if memory for them was refused for good:
    /// EAGAIN, which is EBUSY by now ([`efa_fabric::FabricError`]), passes.
    pub(crate) fn refused(&self, which: impl Fn(Lane) -> bool) -> Option<&NetError> {
        let mut all = lanes(self.limits.data_lanes, self.limits.control_lanes);
        let refusal = self.refusal.as_ref();
        let refusal = refusal.filter(|refusal| refusal.errno() != -libc::EBUSY)?;
        let without = |lane| {
            let state = self.state(lane);
            self.starved & bit(lane) != 0 && state.posted == 0 && state.target > 0
        };
        all.any(|lane| which(lane) && without(lane))
            .then_some(refusal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use crate::rx::Limits;

    const TWO: Limits = Limits {
        data_lanes: 2,
        control_lanes: 2,
        control_max: 2048,
        eager_min: 64,
        eager_max: 128,
        eager_bytes: 8192,
        queue: 1024,
    };

    fn refusal(errno: i32) -> NetError {
        NetError::new(Code::Register, "40960 bytes").with_errno(errno)
    }

    #[test]
    fn a_lane_that_is_refused_all_is_told_and_one_that_has_some_goes_on() {
        let mut receives = Receives::new(TWO, 4096).unwrap();
        assert!(!receives.listen() && receives.listen());
        let (has, has_not) = (Lane::control(0), Lane::data(1));
        receives.posted(has);
        assert!(receives.refused(|_| true).is_none());
        let why = refusal(libc::ENOMEM);
        assert!(receives.starve(has, &why), "news");
        assert!(receives.refused(|_| true).is_none(), "it has one");
        assert!(!receives.starve(has_not, &why), "told once");
        assert!(receives.refused(Lane::is_control).is_none());
        let told = receives.refused(|_| true).unwrap();
        assert_eq!(told.errno(), -libc::ENOMEM);
        receives.unlisten();
        assert!(receives.refused(|_| true).is_none(), "it shall have none");
        receives.sender_added();
        assert!(receives.starve(has, &why), "news again");
    }

    #[test]
    fn a_refusal_that_may_pass_ends_no_call() {
        let mut receives = Receives::new(TWO, 4096).unwrap();
        receives.listen();
        assert!(receives.starve(Lane::data(0), &refusal(libc::EBUSY)));
        assert!(receives.refused(|_| true).is_none());
    }

    #[test]
    fn a_lane_that_is_refused_is_tried_again_when_there_may_be_some() {
        let mut receives = Receives::new(TWO, 4096).unwrap();
        receives.listen();
        let lane = Lane::data(0);
        assert!(receives.is_low(lane));
        receives.starve(lane, &refusal(libc::ENOMEM));
        assert!(!receives.is_low(lane), "not in each pass");
        assert!(receives.wants(lane), "what comes back is posted");
        receives.feed();
        assert!(receives.is_low(lane));
        receives.starve(lane, &refusal(libc::ENOMEM));
        receives.sender_added();
        assert!(receives.is_low(lane));
    }
}
