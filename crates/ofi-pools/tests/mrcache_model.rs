//! `MrCache` against a list that is searched from end to end.

#![expect(clippy::unwrap_used, reason = "test code")]

use ofi_pools::mr::{Attr, DmaBuf, RequestError, Ticket};
use ofi_pools::{Handle, Lookup, MrCache, Released, Request};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Op {
    Lookup(Request),
    Complete { nth: usize },
    Fail { nth: usize },
    Release { nth: usize },
    Retain { nth: usize },
    Stale { nth: usize },
    Drain,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    region: u64,
    request: Request,
    handle: Handle,
    references: u32,
}

/// Whether a region registered for `region` may answer `wanted`, spelled out.
fn covers(region: &Request, wanted: &Request) -> bool {
    let (a, b) = (region.attr(), wanted.attr());
    let backing = match (a.dmabuf(), b.dmabuf()) {
        (None, None) => true,
        (Some(x), Some(y)) => {
            // The same byte of the same file at the same address.
            let ahead = wanted.address().wrapping_sub(region.address());
            x.fd == y.fd && y.offset == x.offset.wrapping_add(ahead)
        }
        _ => false,
    };
    backing
        && (a.access(), a.kind_and_device()) == (b.access(), b.kind_and_device())
        && region.address() <= wanted.address()
        && wanted.address() + wanted.bytes() <= region.address() + region.bytes()
}

struct Both {
    cache: MrCache<u64>,
    page: u64,
    known: Vec<Known>,
    tickets: Vec<Ticket>,
    gone: Vec<Handle>,
    next_region: u64,
    hits: u64,
    failures: u64,
    high_water: usize,
}

impl Both {
    fn new(page: u64) -> Self {
        Self {
            cache: MrCache::new(page).unwrap(),
            page,
            known: Vec::new(),
            tickets: Vec::new(),
            gone: Vec::new(),
            next_region: 0,
            hits: 0,
            failures: 0,
            high_water: 0,
        }
    }

    fn apply(&mut self, op: &Op) -> Result<(), TestCaseError> {
        match op {
            Op::Lookup(request) => self.lookup(request)?,
            &Op::Complete { nth } => self.complete(nth)?,
            &Op::Fail { nth } => {
                if let Some(ticket) = self.ticket(nth) {
                    self.cache.fail(ticket);
                    self.failures += 1;
                }
            }
            &Op::Release { nth } => self.release(nth)?,
            &Op::Retain { nth } => {
                let count = self.known.len().max(1);
                if let Some(known) = self.known.get_mut(nth % count) {
                    prop_assert!(self.cache.retain(known.handle).is_ok());
                    known.references += 1;
                }
            }
            &Op::Stale { nth } => {
                if let Some(&handle) = self.gone.get(nth % self.gone.len().max(1)) {
                    prop_assert_eq!(self.cache.release(handle).unwrap_err().handle, handle);
                    prop_assert_eq!(self.cache.retain(handle).unwrap_err().handle, handle);
                    prop_assert_eq!(self.cache.get(handle), None);
                }
            }
            Op::Drain => {
                let mut regions = self.cache.drain();
                regions.sort_unstable();
                let mut expected: Vec<u64> = self.known.iter().map(|known| known.region).collect();
                expected.sort_unstable();
                prop_assert_eq!(regions, expected);
                self.gone
                    .extend(self.known.drain(..).map(|known| known.handle));
            }
        }
        self.check()
    }

    fn lookup(&mut self, request: &Request) -> Result<(), TestCaseError> {
        let covered = self
            .known
            .iter()
            .any(|known| covers(&known.request, request));
        let awaited = self
            .tickets
            .iter()
            .any(|ticket| covers(ticket.request(), request));
        match self.cache.lookup(request).unwrap() {
            Lookup::Hit(handle) => {
                let known = self
                    .known
                    .iter_mut()
                    .find(|known| known.handle == handle)
                    .unwrap();
                prop_assert!(covers(&known.request, request), "{known:?} for {request:?}");
                known.references += 1;
                self.hits += 1;
            }
            Lookup::Busy => prop_assert!(awaited && !covered, "{request:?}"),
            Lookup::Miss(ticket) => {
                prop_assert!(!awaited && !covered, "{request:?}");
                self.check_rounded(request, ticket.request())?;
                self.tickets.push(ticket);
            }
        }
        Ok(())
    }

    fn check_rounded(&self, request: &Request, rounded: &Request) -> Result<(), TestCaseError> {
        prop_assert!(covers(rounded, request));
        if request.attr().dmabuf().is_some() {
            prop_assert_eq!(rounded, request);
            return Ok(());
        }
        prop_assert_eq!(
            (rounded.address() % self.page, rounded.bytes() % self.page),
            (0, 0)
        );
        prop_assert!(
            request.address() - rounded.address() < self.page,
            "no page too many"
        );
        let slack = (rounded.address() + rounded.bytes()) - (request.address() + request.bytes());
        prop_assert!(slack < self.page, "no page too many");
        Ok(())
    }

    fn ticket(&mut self, nth: usize) -> Option<Ticket> {
        let count = self.tickets.len();
        (count > 0).then(|| self.tickets.swap_remove(nth % count))
    }

    fn complete(&mut self, nth: usize) -> Result<(), TestCaseError> {
        let Some(ticket) = self.ticket(nth) else {
            return Ok(());
        };
        let request = *ticket.request();
        let region = self.next_region;
        self.next_region += 1;
        let handle = self.cache.complete(ticket, region).unwrap();
        prop_assert!(!self.gone.contains(&handle), "a handle is handed out once");
        prop_assert!(self.known.iter().all(|known| known.handle != handle));
        prop_assert_eq!(Handle::from_bits(handle.to_bits()), handle);
        self.known.push(Known {
            region,
            request,
            handle,
            references: 1,
        });
        Ok(())
    }

    fn release(&mut self, nth: usize) -> Result<(), TestCaseError> {
        if self.known.is_empty() {
            return Ok(());
        }
        let at = nth % self.known.len();
        let known = &mut self.known[at];
        known.references -= 1;
        let Known {
            references,
            region,
            handle,
            ..
        } = *known;
        let released = self.cache.release(handle).unwrap();
        if references == 0 {
            prop_assert_eq!(released, Released::Last(region));
            self.known.swap_remove(at);
            self.gone.push(handle);
        } else {
            prop_assert_eq!(released, Released::Held { references });
        }
        Ok(())
    }

    fn check(&mut self) -> Result<(), TestCaseError> {
        self.high_water = self.high_water.max(self.known.len());
        prop_assert_eq!(self.cache.len() as usize, self.known.len());
        prop_assert_eq!(self.cache.is_empty(), self.known.is_empty());
        prop_assert_eq!(self.cache.high_water() as usize, self.high_water);
        prop_assert_eq!(self.cache.pending(), self.tickets.len());
        for known in &self.known {
            prop_assert_eq!(self.cache.get(known.handle), Some(&known.region));
            prop_assert_eq!(self.cache.references(known.handle), Some(known.references));
        }
        let stats = self.cache.stats();
        prop_assert_eq!((stats.hits, stats.failures), (self.hits, self.failures));
        let asked = self.next_region + self.failures + self.tickets.len() as u64;
        prop_assert_eq!(stats.misses, asked);
        let bytes = self
            .known
            .iter()
            .map(|known| known.request.bytes())
            .sum::<u64>();
        prop_assert_eq!(stats.bytes, bytes);
        Ok(())
    }
}

/// A handful of pages, so that ranges share them, nest, overlap and repeat.
fn request() -> impl Strategy<Value = Request> {
    let within_a_page = (0_u64..12, 0_u64..4096, 1_u64..600)
        .prop_map(|(page, offset, bytes)| (page * 4096 + offset, bytes));
    let pages = (0_u64..12, 1_u64..6).prop_map(|(page, pages)| (page * 4096, pages * 4096));
    let long = (0_u64..40_000, 1_u64..80_000);
    let high = (0_u64..3, 1_u64..3)
        .prop_map(|(page, pages)| (u64::MAX - 0xf_ffff + page * 4096, pages * 4096));
    let range = prop_oneof![4 => within_a_page, 3 => pages, 2 => long, 1 => high];
    let dmabuf = prop_oneof![
        3 => Just(None),
        // At the offset that goes with the address, and elsewhere.
        1 => (3_i32..5, prop_oneof![Just(None), (0_u64..3).prop_map(Some)]).prop_map(Some),
    ];
    (
        range,
        prop::sample::select(vec![0x3f00_u64, 0x300]),
        0_u16..2,
        0_u32..2,
        dmabuf,
    )
        .prop_map(|((address, bytes), access, kind, device, dmabuf)| {
            let attr = Attr::new(access).of(kind, device & u32::from(kind));
            let within = |(fd, pages): (i32, Option<u64>)| {
                let offset = pages.map_or(address, |pages| pages * 4096);
                attr.within(DmaBuf { fd, offset })
            };
            Request::new(address, bytes, dmabuf.map_or(attr, within)).unwrap()
        })
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => request().prop_map(Op::Lookup),
        6 => any::<usize>().prop_map(|nth| Op::Complete { nth }),
        1 => any::<usize>().prop_map(|nth| Op::Fail { nth }),
        6 => any::<usize>().prop_map(|nth| Op::Release { nth }),
        1 => any::<usize>().prop_map(|nth| Op::Retain { nth }),
        1 => any::<usize>().prop_map(|nth| Op::Stale { nth }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn agrees_with_a_linear_scan(
        page in prop::sample::select(vec![1_u64, 4096, 65536]),
        ops in prop::collection::vec(op(), 1..300),
        drain in any::<bool>(),
    ) {
        let mut both = Both::new(page);
        for op in &ops {
            both.apply(op)?;
        }
        if drain {
            both.apply(&Op::Drain)?;
        }
        while !both.known.is_empty() {
            both.apply(&Op::Release { nth: 0 })?;
        }
        for ticket in core::mem::take(&mut both.tickets) {
            both.cache.fail(ticket);
        }
        prop_assert_eq!((both.cache.len(), both.cache.pending()), (0, 0));
        prop_assert_eq!(both.cache.stats().bytes, 0);
    }
}

fn host(address: u64, bytes: u64) -> Request {
    Request::new(address, bytes, Attr::new(0x3f00)).unwrap()
}

fn register(cache: &mut MrCache<u64>, request: &Request, region: u64) -> Handle {
    match cache.lookup(request).unwrap() {
        Lookup::Miss(ticket) => cache.complete(ticket, region).unwrap(),
        other => unreachable!("{other:?} for {request:?}"),
    }
}

fn is_hit(cache: &mut MrCache<u64>, request: &Request) -> bool {
    match cache.lookup(request).unwrap() {
        Lookup::Hit(handle) => {
            assert!(matches!(cache.release(handle), Ok(Released::Held { .. })));
            true
        }
        Lookup::Miss(ticket) => {
            cache.fail(ticket);
            false
        }
        Lookup::Busy => false,
    }
}

/// Protocol trap 22: registrations rounded to 4 KiB, on a system with pages of 64 KiB.
#[test]
fn two_buffers_in_one_large_page_do_not_pass_for_each_other() {
    let mut cache = MrCache::new(4096).unwrap();
    register(&mut cache, &host(0x10_0000, 4096), 1);
    assert!(
        !is_hit(&mut cache, &host(0x10_8000, 4096)),
        "the same 64 KiB, but not registered"
    );
}

/// Field report REG-09: a removal out of the middle must leave the rest findable.
#[test]
fn a_removal_leaves_the_others_findable() {
    let mut cache = MrCache::new(4096).unwrap();
    let handles: Vec<Handle> = (0..4)
        .map(|i| register(&mut cache, &host(i * 0x1_0000, 4096), i))
        .collect();
    assert_eq!(cache.release(handles[0]), Ok(Released::Last(0)));
    for i in 1..4 {
        assert!(is_hit(&mut cache, &host(i * 0x1_0000, 4096)));
    }
}

#[test]
fn a_small_region_inside_a_large_one_hides_nothing() {
    let mut cache = MrCache::new(1).unwrap();
    let large = register(&mut cache, &host(1000, 1000), 1);
    // Larger ranges miss; smaller ones hit the large region, so nesting comes from the outside in.
    let outer = register(&mut cache, &host(500, 2000), 2);
    assert!(is_hit(&mut cache, &host(1999, 1)));
    assert!(
        is_hit(&mut cache, &host(1000, 1500)),
        "only the outer one reaches so far"
    );
    assert_eq!(cache.release(outer), Ok(Released::Last(2)));
    assert!(!is_hit(&mut cache, &host(1000, 1500)));
    assert!(is_hit(&mut cache, &host(1999, 1)));
    assert_eq!(cache.release(large), Ok(Released::Last(1)));
}

#[test]
fn a_ticket_of_another_cache_gives_the_region_back() {
    let mut a = MrCache::<u64>::new(4096).unwrap();
    let mut b = MrCache::new(4096).unwrap();
    let Ok(Lookup::Miss(ticket)) = a.lookup(&host(0, 1)) else {
        unreachable!("an empty cache")
    };
    // One of its own is under way, the first as well.
    let Ok(Lookup::Miss(own)) = b.lookup(&host(8192, 1)) else {
        unreachable!("an empty cache")
    };
    let error = b.complete(ticket, 7).unwrap_err();
    assert_eq!(error.region, 7);
    assert!(error.to_string().contains("close the region"));
    assert_eq!((b.len(), b.pending()), (0, 1));
    let own = b.complete(own, 8).unwrap();
    assert_eq!(b.get(own), Some(&8));
}

#[test]
fn ranges_that_nothing_can_cover_are_refused() {
    let mut cache = MrCache::<u64>::new(65536).unwrap();
    let host = |address, bytes| Request::new(address, bytes, Attr::new(0x3f00));
    let empty = host(0x1234, 0).unwrap_err();
    assert_eq!(empty, RequestError::Empty { address: 0x1234 });
    assert!(empty.to_string().contains("0x1234"));
    // A negative int that became a length.
    let minus_one = host(4096, u64::MAX).unwrap_err();
    assert!(minus_one.to_string().contains("negative"));
    let rounds_over = cache.lookup(&host(u64::MAX - 10, 5).unwrap()).unwrap_err();
    assert!(matches!(
        rounds_over,
        RequestError::Overflow {
            page: 65536,
            bytes: 5,
            ..
        }
    ));
    assert_eq!(
        (cache.pending(), cache.stats().misses),
        (0, 0),
        "nothing was left behind"
    );
    assert_eq!(
        MrCache::<u64>::new(3000).unwrap_err(),
        RequestError::Page { page: 3000 }
    );
}

#[test]
fn three_gib_are_one_region() {
    let mut cache = MrCache::new(4096).unwrap();
    register(&mut cache, &host(0x7000_0000_0123, 3 << 30), 1);
    assert!(is_hit(
        &mut cache,
        &host(0x7000_0000_0000 + (3 << 30), 0x123)
    ));
    assert_eq!(cache.stats().bytes, (3 << 30) + 4096);
}

/// Enough regions for many leaves, of two attributes and with every fourth one removed.
#[test]
fn ten_thousand_regions_are_all_found() {
    let mut cache = MrCache::new(4096).unwrap();
    let other = |i: u64| {
        let address = i.wrapping_mul(0x9e37_79b9) % 10_007 * 8192;
        Request::new(address, 4096, Attr::new(0x300)).unwrap()
    };
    let region = |i: u64| host(i * 48_271 % 10_007 * 8192, 4096);
    let handles: Vec<Handle> = (0..10_000)
        .map(|i| register(&mut cache, &region(i), i))
        .collect();
    for i in 0..10_000 {
        assert!(is_hit(&mut cache, &region(i)));
        assert!(!is_hit(&mut cache, &other(i)), "other attributes");
    }
    for (i, &handle) in (0_u64..).zip(&handles).filter(|(i, _)| i % 4 == 0) {
        assert_eq!(cache.release(handle), Ok(Released::Last(i)));
    }
    assert!((0..10_000).all(|i| is_hit(&mut cache, &region(i)) == (i % 4 != 0)));
}
