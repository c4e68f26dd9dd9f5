//! `SharedMrCache`: several threads, a registrar that fails, panics, and looks back at the cache.

#![expect(clippy::unwrap_used, reason = "test code")]
#![expect(
    clippy::disallowed_types,
    reason = "the lock of a test double, not of the crate"
)]
#![cfg(all(feature = "std", not(loom)))]

use core::panic::AssertUnwindSafe;
use core::sync::atomic::{AtomicU64, Ordering};
use ofi_pools::mr::{AcquireError, Attr, Refused, ReleaseError};
use ofi_pools::{Registrar, Request, SharedMrCache};
use std::panic::catch_unwind;
use std::sync::{Arc, Mutex, OnceLock, Weak, mpsc};
use std::thread;

fn host(address: u64, bytes: u64) -> Request {
    Request::new(address, bytes, Attr::new(0x3f00)).unwrap()
}

/// Addresses that the registrar treats in its own way.
const FAILS: u64 = 0x10_0000;
const PANICS: u64 = 0x20_0000;
const STAYS: u64 = 0x30_0000;

/// Counts, and at each call looks into the cache that calls it, which it could not if a lock were
/// held.
#[derive(Default)]
struct Rails {
    cache: OnceLock<Weak<SharedMrCache<Self>>>,
    registered: AtomicU64,
    closed: AtomicU64,
    attempts: AtomicU64,
}

impl Rails {
    fn look_back(&self) {
        if let Some(cache) = self.cache.get().and_then(Weak::upgrade) {
            cache.with(|cache| assert!(cache.len() < 1000));
        }
    }
}

impl Registrar for Rails {
    type Region = u64;
    type Error = &'static str;

    fn register(&self, request: &Request) -> Result<u64, &'static str> {
        self.look_back();
        self.attempts.fetch_add(1, Ordering::Relaxed);
        assert!(request.address() != PANICS, "as the test wants");
        if request.address() == FAILS {
            return Err("rail 2: out of keys");
        }
        self.registered.fetch_add(1, Ordering::Relaxed);
        Ok(request.address())
    }

    fn deregister(&self, region: u64) -> Result<(), Refused<u64, &'static str>> {
        self.look_back();
        if region == STAYS {
            return Err(Refused {
                region,
                error: "device busy",
            });
        }
        self.closed.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

fn cache() -> Arc<SharedMrCache<Rails>> {
    let cache = Arc::new(SharedMrCache::new(4096, Rails::default()).unwrap());
    cache.registrar().cache.set(Arc::downgrade(&cache)).unwrap();
    cache
}

fn counts(cache: &SharedMrCache<Rails>) -> (u64, u64) {
    let rails = cache.registrar();
    (
        rails.registered.load(Ordering::Relaxed),
        rails.closed.load(Ordering::Relaxed),
    )
}

#[test]
fn registers_once_and_closes_with_the_last_reference() {
    let cache = cache();
    let first = cache.acquire(&host(0x5001, 10)).unwrap();
    let second = cache.acquire(&host(0x5fff, 1)).unwrap();
    assert_eq!((first, counts(&cache)), (second, (1, 0)));
    assert_eq!(cache.with(|cache| cache.get(first).copied()), Some(0x5000));
    assert_eq!(cache.release(first), Ok(false));
    assert_eq!(cache.release(second), Ok(true));
    assert_eq!(counts(&cache), (1, 1));
    let error = cache.release(first).unwrap_err();
    assert!(matches!(error, ReleaseError::Stale(_)));
    assert!(error.to_string().contains("deregistered before"));
}

#[test]
fn a_failed_registration_leaves_nothing_and_can_be_tried_again() {
    let cache = cache();
    for attempt in 1..=3 {
        let error = cache.acquire(&host(FAILS, 1)).unwrap_err();
        assert_eq!(error, AcquireError::Register("rail 2: out of keys"));
        assert_eq!(
            error.to_string(),
            "memory registration failed: rail 2: out of keys"
        );
        assert_eq!(cache.registrar().attempts.load(Ordering::Relaxed), attempt);
        assert_eq!(cache.with(|cache| (cache.len(), cache.pending())), (0, 0));
    }
    assert!(
        cache.acquire(&host(FAILS + 4096, 1)).is_ok(),
        "the neighbour is not affected"
    );
}

#[test]
fn a_panicking_registration_leaves_nothing() {
    let cache = cache();
    let caught = catch_unwind(AssertUnwindSafe(|| cache.acquire(&host(PANICS, 1))));
    let message = caught.unwrap_err();
    assert_eq!(message.downcast_ref(), Some(&"as the test wants"));
    assert_eq!(cache.with(|cache| (cache.len(), cache.pending())), (0, 0));
    assert!(
        cache.acquire(&host(PANICS + 4096, 1)).is_ok(),
        "the lock is usable"
    );
}

#[test]
fn a_wrong_request_is_told_apart() {
    let error = cache().acquire(&host(u64::MAX - 10, 5)).unwrap_err();
    assert!(matches!(error, AcquireError::Request(_)));
    assert!(error.to_string().contains("passes the end"));
}

#[test]
fn a_region_that_is_not_closed_comes_back() {
    let cache = cache();
    let handle = cache.acquire(&host(STAYS, 1)).unwrap();
    let error = cache.release(handle).unwrap_err();
    assert!(error.to_string().contains("device busy"));
    assert_eq!(
        error,
        ReleaseError::Refused(Refused {
            region: STAYS,
            error: "device busy"
        })
    );
    assert!(cache.with(|cache| cache.is_empty()));
}

/// A registrar that stops inside `register` until it is told how to end.
struct Gated {
    entered: mpsc::SyncSender<()>,
    outcome: Mutex<mpsc::Receiver<Result<u64, &'static str>>>,
}

impl Registrar for Gated {
    type Region = u64;
    type Error = &'static str;

    fn register(&self, _: &Request) -> Result<u64, &'static str> {
        self.entered.send(()).unwrap();
        self.outcome.lock().unwrap().recv().unwrap()
    }

    fn deregister(&self, _: u64) -> Result<(), Refused<u64, &'static str>> {
        Ok(())
    }
}

/// Waits, with no more than a yield, until `count` lookups were told that the range is busy.
fn await_busy(cache: &SharedMrCache<Gated>, count: u64) {
    while cache.with(|cache| cache.stats().busy) < count {
        thread::yield_now();
    }
}

#[test]
fn who_misses_a_range_under_registration_waits_and_tries_when_it_failed() {
    let (entered, inside) = mpsc::sync_channel(8);
    let (tell, outcome) = mpsc::channel();
    let gated = Gated {
        entered,
        outcome: Mutex::new(outcome),
    };
    let cache = SharedMrCache::new(4096, gated).unwrap();
    thread::scope(|scope| {
        let first = scope.spawn(|| cache.acquire(&host(0, 4096)));
        inside.recv().unwrap();
        let second = scope.spawn(|| cache.acquire(&host(100, 1)));
        let third = scope.spawn(|| cache.acquire(&host(200, 1)));
        await_busy(&cache, 2);
        assert!(
            inside.try_recv().is_err(),
            "nobody registers the range a second time"
        );
        tell.send(Err("first")).unwrap();
        assert_eq!(first.join().unwrap(), Err(AcquireError::Register("first")));
        inside.recv().unwrap();
        tell.send(Ok(7)).unwrap();
        let handles = (
            second.join().unwrap().unwrap(),
            third.join().unwrap().unwrap(),
        );
        assert_eq!(handles.0, handles.1);
        assert_eq!(cache.with(|cache| cache.references(handles.0)), Some(2));
    });
    assert!(inside.try_recv().is_err());
}

#[test]
fn many_threads_leave_no_reference_and_no_region() {
    let cache = cache();
    thread::scope(|scope| {
        for seed in 0..4_u64 {
            let cache = &cache;
            scope.spawn(move || {
                let mut state = seed + 1;
                for _ in 0..2000 {
                    state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                    let request = host((state >> 40) % 8 * 4096, 1 + (state >> 33) % 8192);
                    let handle = cache.acquire(&request).unwrap();
                    let region = cache.with(|cache| cache.get(handle).copied());
                    assert!(region.is_some_and(|start| start <= request.address()));
                    let _was_last: bool = cache.release(handle).unwrap();
                }
            });
        }
    });
    let (registered, closed) = counts(&cache);
    assert_eq!((registered, cache.with(|cache| cache.len())), (closed, 0));
    assert!(registered > 0);
}
