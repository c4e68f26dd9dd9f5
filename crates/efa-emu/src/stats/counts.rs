//! The numbers kept for each NIC: listed once, here.

use core::sync::atomic::{AtomicU64, Ordering};

/// Statuses of the device that are counted apart: `prov_errno` below this.
pub const STATUSES: usize = 16;

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The numbers of one NIC, as the provider counts them: relaxed additions, from any thread.
        #[derive(Debug, Default)]
        #[repr(C, align(64))]
        pub struct NicStats {
            $($(#[$doc])* pub $name: AtomicU64,)*
            /// Error entries by the device's status (`prov_errno`); see [`Self::count_error`].
            pub statuses: [AtomicU64; STATUSES],
        }

        /// The same numbers, read at one time.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct NicCounts {
            $($(#[$doc])* pub $name: u64,)*
            /// Error entries by the device's status (`prov_errno`).
            pub statuses: [u64; STATUSES],
        }

        /// Their names, in the order in which they stand in memory and in a file; the statuses
        /// follow.
        pub const NAMES: &[&str] = &[$(stringify!($name)),*];

        impl NicStats {
            /// What they are now. Not at one instant: each is read by itself.
            #[must_use]
            pub fn counts(&self) -> NicCounts {
                NicCounts {
                    $($name: self.$name.load(Ordering::Relaxed),)*
                    statuses: self.statuses.each_ref().map(|n| n.load(Ordering::Relaxed)),
                }
            }
        }

        impl NicCounts {
            /// Reads them from words in the order of [`NAMES`], then the statuses; words that are
            /// missing count 0.
            pub(super) fn decode(mut words: impl Iterator<Item = u64>) -> Self {
                let mut next = || words.next().unwrap_or(0);
                Self {
                    $($name: next(),)*
                    statuses: core::array::from_fn(|_| next()),
                }
            }

            /// Names and numbers, without the statuses.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name)),*].into_iter()
            }

            /// Adds what another NIC counted.
            pub fn add(&mut self, other: &Self) {
                $(self.$name = self.$name.wrapping_add(other.$name);)*
                for (sum, n) in self.statuses.iter_mut().zip(other.statuses) {
                    *sum = sum.wrapping_add(n);
                }
            }
        }
    };
}

counts! {
    /// Sends that completed well.
    sends,
    /// Receives that completed well.
    recvs,
    /// Reads that completed well.
    reads,
    /// Writes without data that completed well.
    writes,
    /// Writes with data that completed well.
    writes_data,
    /// Bytes of sends and writes, and those read by peers.
    bytes_out,
    /// Bytes of receives and reads, and those written by peers.
    bytes_in,
    /// Error entries that were made.
    errors,
    /// Error entries whose status is not one of the device's.
    errors_other,
    /// Posts answered EAGAIN, because a queue was full or because the plan said so.
    again,
    /// Times that a receiver was found not ready.
    rnr,
    /// Completions for which a queue had no place.
    overruns,
    /// Operations executed before one posted earlier to the same endpoint.
    reordered,
    /// Completions shown twice because the plan said so.
    duplicates,
    /// Times that the plan let something go wrong.
    injected,
    /// What the rules of the plan said of posts, summed up in one number: under the same plan, seed and
    /// name it is the same whenever each rule was about as many operations of the NIC, whatever the
    /// order of sends, receives and writes, and however often EAGAIN had them tried again. Counted where statistics are written.
    schedule,
    /// Regions registered now.
    regions,
    /// Bytes in them.
    regions_bytes,
    /// Pages that they touch, counted for each region.
    regions_pages,
    /// Domains open now.
    domains,
    /// Endpoints open now.
    endpoints,
    /// Completion queues open now.
    cqs,
    /// Address vectors open now.
    avs,
    /// Operations posted and not completed now; receives too.
    pending,
}

impl NicStats {
    /// Counts an error entry of this status.
    pub fn count_error(&self, prov_errno: i32) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        let status = usize::try_from(prov_errno).unwrap_or(STATUSES);
        let kind = self.statuses.get(status).unwrap_or(&self.errors_other);
        kind.fetch_add(1, Ordering::Relaxed);
    }
}

impl NicCounts {
    /// What is still there of the things that a program should close, with how many of each;
    /// empty when nothing leaked.
    pub fn leaks(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let open = [
            ("domains", self.domains),
            ("endpoints", self.endpoints),
            ("completion queues", self.cqs),
            ("address vectors", self.avs),
            ("regions", self.regions),
        ];
        open.into_iter().filter(|(_, n)| *n > 0)
    }

    /// Operations that completed well, of all kinds but receives.
    #[must_use]
    pub const fn operations(&self) -> u64 {
        let writes = self.writes.wrapping_add(self.writes_data);
        self.sends.wrapping_add(self.reads).wrapping_add(writes)
    }
}

/// Words that the numbers of one NIC take in memory and in a file.
pub(super) const WORDS: usize = size_of::<NicStats>() / 8;

const _: () = assert!(WORDS >= NAMES.len() + STATUSES, "all of them have a place");

#[cfg(test)]
mod tests {
    use super::{NicCounts, NicStats, STATUSES};
    use core::sync::atomic::Ordering;

    #[test]
    fn errors_are_counted_by_status() {
        let stats = NicStats::default();
        for status in [7, 7, 13, 4126, -1] {
            stats.count_error(status);
        }
        let counts = stats.counts();
        assert_eq!((counts.errors, counts.errors_other), (5, 2));
        assert_eq!((counts.statuses[7], counts.statuses[13]), (2, 1));
    }

    #[test]
    fn what_is_open_is_a_leak_and_what_happened_is_none() {
        let stats = NicStats::default();
        stats.sends.fetch_add(5, Ordering::Relaxed);
        stats.errors.fetch_add(1, Ordering::Relaxed);
        assert_eq!(stats.counts().leaks().count(), 0);
        stats.regions.fetch_add(2, Ordering::Relaxed);
        let leaks: Vec<_> = stats.counts().leaks().collect();
        assert_eq!(leaks, [("regions", 2)]);
    }

    #[test]
    fn words_are_read_in_the_order_of_the_names() {
        let counts = NicCounts::decode(1..);
        let names = super::NAMES.len();
        for (i, (name, n)) in counts.named().enumerate() {
            assert_eq!((name, n), (super::NAMES[i], u64::try_from(i + 1).unwrap()));
        }
        assert_eq!(counts.statuses[0], u64::try_from(names + 1).unwrap());
        assert_eq!(NicCounts::decode(core::iter::empty()), NicCounts::default());
        let mut sum = counts.clone();
        sum.add(&counts);
        assert_eq!(
            (sum.sends, sum.statuses[STATUSES - 1]),
            (2, 2 * counts.statuses[STATUSES - 1])
        );
    }
}
