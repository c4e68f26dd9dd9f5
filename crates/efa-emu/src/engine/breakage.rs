//! A bug of the emulation ends the endpoint that it shows at: not the program, which may be about other
//! things, and not the thread that all endpoints share.
//!
//! ```text
//! panic --> caught, told once --> posts: EOTHER; peers: no such queue pair; what is pending: 125/1
//! ```

use core::panic::AssertUnwindSafe;
use core::sync::atomic::{AtomicU8, Ordering};
use std::panic::catch_unwind;

use super::endpoint::Ep;
use super::locked;
use crate::plan::Code;

/// Whether an endpoint is broken.
#[derive(Debug, Default)]
pub(super) struct Breakage(AtomicU8);

const BROKEN: u8 = 1;
/// What was pending has been flushed.
const ENDED: u8 = 2;

impl Ep {
    /// Runs a step of its work; a panic breaks it.
    pub(super) fn contained(&self, step: impl FnOnce(&Self)) {
        if caught(|| step(self)).is_some() {
            return;
        }
        if self.breakage.0.swap(BROKEN, Ordering::AcqRel) == 0 {
            let (nic, address) = (self.domain.nic.index, self.address().to_text());
            tell(
                &format!("endpoint {address} of NIC {nic}"),
                "its operations end with 125/1, and more are refused (EOTHER)",
            );
        }
    }

    pub(super) fn is_broken(&self) -> bool {
        self.breakage.0.load(Ordering::Acquire) != 0
    }

    /// Once: what is pending ends. Not where it broke, since a queue may be locked there.
    pub(super) fn end_broken(&self) {
        let first =
            self.breakage
                .0
                .compare_exchange(BROKEN, ENDED, Ordering::AcqRel, Ordering::Acquire);
        let (Ok(_), Some(bound)) = (first, self.bound()) else {
            return;
        };
        // Peers get no answer any more.
        self.shared().enabled.store(0, Ordering::Release);
        // Each by itself: what broke it may break one of these as well.
        let _told = caught(|| self.flush_operations(bound, Code::FLUSHED));
        let _told = caught(|| {
            let _one = locked(&self.receiving);
            // Without it if a peer is stopped who has it: this place is not used again.
            let _held = self.shared().lock.acquire(self.domain.process.user());
            self.flush_posted(bound, Code::FLUSHED, |told| bound.rx.flush(told));
        });
        // Last: who waits for it finds all of them ended.
        self.pending.store(0, Ordering::Release);
    }
}

/// `None` after a panic. What is shared is behind locks that outlive one, or atomic.
pub(super) fn caught<T>(step: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(step)).ok()
}

#[expect(
    clippy::print_stderr,
    reason = "a provider has no other way to say what is to be done"
)]
/// Says what a bug of ours means for the program.
pub(super) fn tell(what: &str, so: &str) {
    let why = "a bug of the emulated EFA (the panic above says where), not of the program";
    eprintln!("efa-emu: {what} failed: {why}; {so}");
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::Ordering;
    use core::time::Duration;
    use std::sync::Arc;
    use std::time::Instant;

    use ofi_sys::consts as c;
    use ofi_sys::errno as e;

    use crate::attrs::Flavor;
    use crate::engine::domain::Domain;
    use crate::engine::endpoint::{Ep, Limits, RNR_FOR_EVER, Setup, Sizes};
    use crate::engine::locked;
    use crate::engine::op::{Course, IOV, Kind, Local, Op, Remote, State};
    use crate::engine::post::Request;
    use crate::engine::process::Process;
    use crate::engine::queue::{Queue, Read, failure};
    use crate::engine::vector::Vector;
    use crate::generation::Generation;
    use crate::mem::receives::{self, Posted};
    use crate::plan::Code;

    /// An endpoint that knows itself, with what it needs.
    struct Open {
        ep: Arc<Ep>,
        queue: Arc<Queue>,
        vector: Arc<Vector>,
        own: u64,
    }

    fn open(process: &'static Process) -> Open {
        let nic = process.nics().first().expect("a NIC");
        let domain = Arc::new(Domain::new(process, nic, Flavor::Rdm));
        let queue = Arc::new(Queue::new(Arc::clone(&domain), 64).expect("a place"));
        let vector = Arc::new(Vector::new(Arc::clone(&domain)));
        let sizes = Sizes {
            max_msg: 4096,
            max_rma: 4096,
            inject_msg: 0,
            inject_rma: 0,
        };
        let limits = Limits {
            tx_size: 16,
            rx_size: 16,
            iov: [IOV; 2],
            sizes,
            caps: c::FI_MSG | c::FI_TAGGED,
            ordered: true,
            tx_op_flags: 0,
        };
        let setup = Setup {
            tx: Some((Arc::clone(&queue), false)),
            rx: Some(Arc::clone(&queue)),
            vector: Some(Arc::clone(&vector)),
            rnr_retry: RNR_FOR_EVER,
            sizes,
            unsolicited: true,
            device_rdma: true,
            shared_memory: true,
            homogeneous: false,
        };
        let ep = Arc::new(Ep::new(domain, limits, setup).expect("a place"));
        ep.enable().expect("bound");
        let own = vector.insert(ep.address()).expect("room");
        Open {
            ep,
            queue,
            vector,
            own,
        }
    }

    impl Open {
        fn send(&self) -> Result<(), i32> {
            self.ep.post(&Request {
                kind: Kind::Send,
                context: 7,
                flags: 0,
                pieces: &[],
                keys: &[],
                remote: Remote::default(),
                peer: self.own,
                data: None,
                tag: None,
                silent: false,
            })
        }

        /// An operation that no caller can make: its pieces are not there.
        fn impossible(&self) -> Op {
            Op {
                kind: Kind::Send,
                context: 8,
                flags: 0,
                report: true,
                data: None,
                tag: None,
                local: Local::Pieces {
                    pieces: [(0, 0); IOV],
                    keys: [None; IOV],
                    count: IOV + 1,
                },
                len: 1,
                remote: Remote::default(),
                target: self.vector.target(self.own).expect("known"),
                until_delivered: false,
                more: false,
                course: Course::default(),
                state: State::default(),
            }
        }

        /// What the thread alone does, for nobody reads the queue.
        fn wait_for_the_thread(&self) {
            let since = Instant::now();
            while self.ep.pending.load(Ordering::Acquire) > 0 {
                assert!(since.elapsed() < Duration::from_secs(20), "no progress");
                std::thread::yield_now();
            }
        }

        fn error(&self) -> (u64, Option<(u16, u16)>) {
            let read = self.queue.read(1, |_, _| {});
            assert!(matches!(read, Read::Error), "{read:?}");
            let told = self.queue.read_error().expect("an error").happened;
            (told.context, told.error)
        }
    }

    #[test]
    fn a_panic_ends_its_endpoint_and_nothing_else() {
        let process = Process::get(|| Generation::parse("2.5").expect("a version"));
        let process = process.expect("shared memory");
        process.remove_file();
        let (broken, whole) = (open(process), open(process));
        let posted = Posted {
            context: 9,
            ..Posted::default()
        };
        let post = |side: &Open| side.ep.post_receive(receives::Queue::Tagged, &posted);
        assert_eq!(post(&broken), Ok(()));
        let mut line = locked(&broken.ep.line);
        line.post(broken.impossible(), 0);
        broken.ep.pending.store(1, Ordering::Release);
        drop(line);
        broken.wait_for_the_thread();
        assert_eq!(broken.send(), Err(e::FI_EOTHER));
        assert_eq!(post(&broken), Err(e::FI_EOTHER));
        let flushed = failure(Code::FLUSHED);
        assert_eq!(broken.error(), (8, flushed));
        assert_eq!(broken.error(), (9, flushed));
        // The thread goes on with the others.
        for _ in 0..3 {
            assert_eq!(whole.send(), Ok(()));
            whole.wait_for_the_thread();
        }
        assert!(matches!(whole.queue.read(9, |_, _| {}), Read::Entries(3)));
        for side in [&broken, &whole] {
            side.ep.close();
        }
    }
}
