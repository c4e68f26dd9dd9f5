//! How long deregistrations wait for requests: each request has one bound, from the first wait that finds it there,
//! whichever region is waited for. So what hangs costs a caller that bound once, and not once for each of its regions.

use crate::clock::Deadline;
use ofi_rdma::ReqKey;

/// The requests that some wait found, and until when they are waited for. Empty but while a domain is being left.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    /// Sorted by request; those that are gone are taken out when new ones come in.
    until: Vec<(u64, Deadline)>,
}

impl Waits {
    /// Until when the requests of `awaited` are waited for: the last of their bounds. One that no wait has found
    /// before starts the bound of all requests there are, `present`.
    pub(crate) fn deadline(
        &mut self,
        awaited: impl Iterator<Item = ReqKey> + Clone,
        present: impl Iterator<Item = ReqKey>,
        bound_ms: u64,
    ) -> Deadline {
        if awaited.clone().any(|request| self.find(request).is_none()) {
            self.start(present, Deadline::after(bound_ms));
        }
        let known = awaited.filter_map(|request| self.find(request));
        let last = known.reduce(|last, other| if other.ends_after(&last) { other } else { last });
        last.unwrap_or_else(|| Deadline::after(0))
    }

    fn find(&self, request: ReqKey) -> Option<Deadline> {
        let found = |(key, _): &(u64, Deadline)| key.cmp(&request.to_bits());
        let at = self.until.binary_search_by(found).ok()?;
        self.until.get(at).map(|(_, until)| *until)
    }

    fn start(&mut self, present: impl Iterator<Item = ReqKey>, new: Deadline) {
        let until = present.map(|request| (request.to_bits(), self.find(request).unwrap_or(new)));
        let mut until: Vec<_> = until.collect();
        until.sort_unstable_by_key(|(key, _)| *key);
        self.until = until;
    }

    /// The communicator of some requests failed: what it left at the provider is given back now, and is waited for anew.
    #[cold]
    pub(crate) fn forget(&mut self, of_comm: impl Fn(ReqKey) -> bool) {
        self.until
            .retain(|(key, _)| !of_comm(ReqKey::from_bits(*key)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(indices: core::ops::Range<u64>) -> Vec<ReqKey> {
        indices.map(ReqKey::from_bits).collect()
    }

    /// The bound that waiting for `awaited` has.
    fn wait(waits: &mut Waits, awaited: &[ReqKey], present: &[ReqKey], ms: u64) -> Deadline {
        waits.deadline(awaited.iter().copied(), present.iter().copied(), ms)
    }

    #[test]
    fn requests_that_are_there_have_one_bound_whichever_is_waited_for() {
        let (mut waits, all) = (Waits::default(), keys(1..100));
        assert!(wait(&mut waits, &all[..1], &all, 0).is_over());
        for request in &all {
            let own = core::slice::from_ref(request);
            assert!(
                wait(&mut waits, own, &all, 3_600_000).is_over(),
                "{request}"
            );
        }
    }

    #[test]
    fn a_request_that_comes_later_has_a_bound_of_its_own() {
        let (mut waits, all) = (Waits::default(), keys(1..10));
        assert!(wait(&mut waits, &all[..1], &all[..5], 0).is_over());
        let both = [all[2], all[7]];
        assert!(!wait(&mut waits, &both, &all, 3_600_000).is_over());
        // That does not lengthen the bound of the others.
        assert!(wait(&mut waits, &all[2..3], &all, 3_600_000).is_over());
    }

    #[test]
    fn after_a_failure_the_requests_of_its_communicator_are_waited_for_anew() {
        let (mut waits, all) = (Waits::default(), keys(1..10));
        assert!(wait(&mut waits, &all, &all, 0).is_over());
        waits.forget(|request| request == all[3]);
        assert!(!wait(&mut waits, &all[3..4], &all, 3_600_000).is_over());
        assert!(wait(&mut waits, &all[4..5], &all, 3_600_000).is_over());
    }

    #[test]
    fn what_is_gone_takes_no_memory() {
        let mut waits = Waits::default();
        for turn in 0..50 {
            let present = keys(turn * 10..turn * 10 + 10);
            assert!(!wait(&mut waits, &present[..1], &present, 3_600_000).is_over());
            assert_eq!(waits.until.len(), 10);
        }
    }
}
