//! Every interleaving of two threads on one `SharedMrCache`. Run with
//! `RUSTFLAGS="--cfg loom" cargo test -p ofi-pools --release --test loom`.

#![cfg(all(loom, feature = "std"))]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use ofi_pools::mr::{AcquireError, Attr, Refused};
use ofi_pools::{Registrar, Request, SharedMrCache};

struct Rails {
    /// How many registrations fail before one succeeds.
    failures: usize,
    attempts: AtomicUsize,
    open: AtomicUsize,
}

impl Registrar for Rails {
    type Region = ();
    type Error = ();

    fn register(&self, _: &Request) -> Result<(), ()> {
        if self.attempts.fetch_add(1, Ordering::Relaxed) < self.failures {
            return Err(());
        }
        self.open.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn deregister(&self, (): ()) -> Result<(), Refused<(), ()>> {
        self.open.fetch_sub(1, Ordering::Relaxed);
        Ok(())
    }
}

fn cache(failures: usize) -> Arc<SharedMrCache<Rails>> {
    let rails = Rails {
        failures,
        attempts: AtomicUsize::new(0),
        open: AtomicUsize::new(0),
    };
    Arc::new(SharedMrCache::new(4096, rails).unwrap())
}

fn request(address: u64) -> Request {
    Request::new(address, 1, Attr::default()).unwrap()
}

#[test]
fn two_threads_register_one_range_once() {
    loom::model(|| {
        let cache = cache(0);
        let other = cache.clone();
        let thread = loom::thread::spawn(move || other.acquire(&request(10)).unwrap());
        let mine = cache.acquire(&request(20)).unwrap();
        let theirs = thread.join().unwrap();
        assert_eq!(mine, theirs);
        assert_eq!(cache.registrar().attempts.load(Ordering::Relaxed), 1);
        assert_eq!(cache.with(|cache| cache.references(mine)), Some(2));
    });
}

#[test]
fn of_two_threads_one_failure_is_one_threads_error() {
    loom::model(|| {
        let cache = cache(1);
        let other = cache.clone();
        let thread = loom::thread::spawn(move || other.acquire(&request(10)));
        let results = [cache.acquire(&request(20)), thread.join().unwrap()];
        let failed = results
            .iter()
            .filter(|r| **r == Err(AcquireError::Register(())))
            .count();
        assert_eq!(failed, 1, "nobody hangs, and nobody fails for another");
        assert_eq!(cache.with(|cache| (cache.len(), cache.pending())), (1, 0));
    });
}

#[test]
fn acquire_and_release_leave_no_region() {
    loom::model(|| {
        let cache = cache(0);
        let other = cache.clone();
        let work = |cache: &SharedMrCache<Rails>| {
            let handle = cache.acquire(&request(10)).unwrap();
            assert!(
                cache.with(|cache| cache.get(handle).is_some()),
                "held regions stay"
            );
            cache.release(handle).unwrap();
        };
        let thread = loom::thread::spawn(move || work(&other));
        work(&cache);
        thread.join().unwrap();
        assert_eq!(cache.registrar().open.load(Ordering::Relaxed), 0);
        assert!(cache.with(|cache| cache.is_empty()));
    });
}
