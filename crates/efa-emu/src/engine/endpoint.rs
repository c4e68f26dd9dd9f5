//! Endpoints: what they are bound to, and their life.

use core::slice::from_ref;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use core::time::Duration;
use std::io;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use super::address::Address;
use super::breakage::Breakage;
use super::domain::Domain;
use super::op::{Line, Op};
use super::queue::{Completion, Queue, failure};
use super::vector::Vector;
use super::{device, locked};
use crate::attrs::Flavor;
use crate::mem::events::Happened;
use crate::mem::layout::{Endpoint, flags};
use crate::mem::receives::{self, Queue as Receives};
use crate::mem::room::reserve;
use crate::mem::{mapping, relay, unexpected};
use crate::plan::Code;
use ofi_sys::consts as c;

/// How long a close waits for peers that are filling a receive.
const CLOSE_PATIENCE: Duration = Duration::from_secs(2);

/// Retries that mean "for ever" (providers.md 6: RNR).
pub(crate) const RNR_FOR_EVER: usize = 7;

/// An endpoint.
#[derive(Debug)]
pub(crate) struct Ep {
    pub(crate) domain: Arc<Domain>,
    /// Place in the segment, and number of the queue pair.
    slot: usize,
    qkey: u32,
    pub(crate) limits: Limits,
    setup: Mutex<Setup>,
    bound: OnceLock<Bound>,
    is_enabled: AtomicBool,
    pub(super) line: Mutex<Line>,
    /// Operations that have not completed.
    pub(super) pending: AtomicUsize,
    /// Serializes posting receives.
    pub(super) receiving: Mutex<()>,
    /// Receives that have not completed.
    pub(super) receives: AtomicU64,
    /// Whether the emulation itself failed at it.
    pub(super) breakage: Breakage,
}

/// What the endpoint was asked to be able to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) tx_size: usize,
    pub(crate) rx_size: usize,
    /// Pieces of what is sent, and of what is received.
    pub(crate) iov: [usize; 2],
    /// The most that options can ask for.
    pub(crate) sizes: Sizes,
    /// What it was asked to do (fi_getinfo(3): of primary capabilities only that).
    pub(crate) caps: u64,
    /// Sends to one peer are received in order.
    pub(crate) ordered: bool,
    /// Flags of operations that have no flags of their own.
    pub(crate) tx_op_flags: u64,
}

/// Bytes that operations can have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) max_msg: usize,
    pub(crate) max_rma: usize,
    pub(crate) inject_msg: usize,
    pub(crate) inject_rma: usize,
}

/// What can be changed until it is enabled.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) tx: Option<(Arc<Queue>, bool)>,
    pub(crate) rx: Option<Arc<Queue>>,
    pub(crate) vector: Option<Arc<Vector>>,
    /// Receiver-not-ready retries.
    pub(crate) rnr_retry: usize,
    pub(crate) sizes: Sizes,
    pub(crate) unsolicited: bool,
    /// Reads and writes are the device's, not made of messages. Bytes and errors are the same either way.
    pub(crate) device_rdma: bool,
    pub(crate) shared_memory: bool,
    pub(crate) homogeneous: bool,
}

/// What an enabled endpoint works with.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) tx: Arc<Queue>,
    /// Success is told only where asked for.
    pub(crate) selective: bool,
    pub(crate) rx: Arc<Queue>,
    pub(crate) vector: Arc<Vector>,
    pub(crate) setup: Setup,
}

impl Ep {
    /// A new endpoint with its address. `None` if the domain, or the process, has as many as it can.
    pub(crate) fn new(domain: Arc<Domain>, limits: Limits, setup: Setup) -> Option<Self> {
        let process = domain.process;
        domain.endpoints.take()?;
        let Some(slot) = process.take_slot() else {
            domain.endpoints.give_back();
            return None;
        };
        let random = mapping::random().unwrap_or_else(|_| process.now_ns());
        domain.users.fetch_add(1, Ordering::Relaxed);
        let stats = domain.nic.stats(process);
        stats.endpoints.fetch_add(1, Ordering::Relaxed);
        Some(Self {
            slot,
            qkey: u32::try_from(random & 0xffff_ffff).unwrap_or(0),
            limits,
            setup: Mutex::new(setup),
            bound: OnceLock::new(),
            is_enabled: AtomicBool::new(false),
            line: Mutex::new(Line::new(limits.tx_size)),
            pending: AtomicUsize::new(0),
            receiving: Mutex::default(),
            receives: AtomicU64::new(0),
            breakage: Breakage::default(),
            domain,
        })
    }

    pub(crate) fn address(&self) -> Address {
        let domain = &self.domain;
        domain.process.address(domain.nic, self.slot, self.qkey)
    }

    /// What peers see of it.
    pub(crate) fn shared(&self) -> &Endpoint {
        &self.domain.process.segment().endpoints[self.slot]
    }

    /// The number of its queue pair.
    pub(super) fn slot(&self) -> usize {
        self.slot
    }

    pub(crate) fn is_direct(&self) -> bool {
        self.domain.flavor == Flavor::Direct
    }

    /// Looks at the setup, or changes it; changes count until the endpoint is enabled.
    pub(crate) fn setup<R>(&self, look: impl FnOnce(&mut Setup) -> R) -> R {
        look(&mut locked(&self.setup))
    }

    /// What it works with, once it is enabled and until it is closed.
    pub(crate) fn bound(&self) -> Option<&Bound> {
        let bound = self.bound.get()?;
        self.is_enabled.load(Ordering::Acquire).then_some(bound)
    }

    /// What it works with, if its receives complete in this queue.
    pub(super) fn receives_into(&self, queue: &Queue) -> Option<&Bound> {
        let bound = self.bound()?;
        core::ptr::eq(Arc::as_ptr(&bound.rx), queue).then_some(bound)
    }

    /// Makes it take part.
    ///
    /// # Errors
    /// A positive errno: something is not bound, or it was enabled before.
    pub(crate) fn enable(self: &Arc<Self>) -> Result<(), i32> {
        use ofi_sys::errno as e;
        let setup = locked(&self.setup).clone();
        let (tx, selective) = setup.tx.clone().ok_or(e::FI_ENOCQ)?;
        let rx = setup.rx.clone().ok_or(e::FI_ENOCQ)?;
        let vector = setup.vector.clone().ok_or(e::FI_ENOAV)?;
        // What peers did waits in the segment until it is read.
        let queue = rx.share()?;
        let unsolicited = setup.unsolicited || !self.is_direct();
        let number = vector.number;
        let bound = Bound {
            tx,
            selective,
            rx,
            vector,
            setup,
        };
        let queues = [Arc::clone(&bound.tx), Arc::clone(&bound.rx)];
        let shared = self.shared();
        room_for_heads(shared).map_err(|_| e::FI_ENOMEM)?;
        self.bound.set(bound).map_err(|_| e::FI_EOPBADSTATE)?;
        receives::reset(shared, self.limits.rx_size);
        // What it will touch: there may be no room in the directory later. Tagged receives: see there.
        receives::make_room(shared, Receives::Untagged).map_err(|_| e::FI_ENOMEM)?;
        shared.queue.store(queue, Ordering::Relaxed);
        shared.qkey.store(self.qkey, Ordering::Relaxed);
        let nic = u32::from(self.domain.nic.number());
        shared.nic.store(nic, Ordering::Relaxed);
        shared.domain.store(self.domain.number, Ordering::Relaxed);
        shared.vector.store(number, Ordering::Relaxed);
        let direct = if self.is_direct() { flags::DIRECT } else { 0 };
        let unsolicited = if unsolicited { flags::UNSOLICITED } else { 0 };
        shared.flags.store(direct | unsolicited, Ordering::Relaxed);
        shared.enabled.store(1, Ordering::Release);
        self.is_enabled.store(true, Ordering::Release);
        for queue in queues {
            queue.attach(self);
        }
        device::watch(self.domain.process, self);
        Ok(())
    }

    /// What a peer did was read: a receive may be over with it.
    pub(super) fn count_received(&self, happened: &Happened) {
        if !happened.ends_receive {
            return;
        }
        self.receive_ended();
        let stats = self.domain.nic.stats(self.domain.process);
        stats.recvs.fetch_add(1, Ordering::Relaxed);
        // What was written is counted as it was written.
        if happened.flags & c::FI_RMA == 0 {
            stats.bytes_in.fetch_add(happened.len, Ordering::Relaxed);
        }
    }

    /// Ends it: peers get no answer any more, and what is pending is flushed.
    pub(crate) fn close(&self) {
        let process = self.domain.process;
        device::forget(process, self);
        let mut is_in_use = false;
        if let Some(bound) = self.bound() {
            is_in_use = self.leave();
            bound.rx.take_all();
            if is_in_use {
                bound.rx.keep_ring();
            }
            self.is_enabled.store(false, Ordering::Release);
            bound.tx.detach(self);
            bound.rx.detach(self);
            // Of a NIC that is lost with what is said to come of that, of others as any close ends it.
            let lost = self.domain.nic.silence().flatten();
            let code = lost.unwrap_or(Code::FLUSHED);
            self.flush_receives(bound, code);
            self.flush_operations(bound, code);
        }
        // Nobody else gets a place in which somebody still is who is stopped.
        if !is_in_use {
            self.give_room_back();
            process.return_slot(self.slot);
        }
        let stats = self.domain.nic.stats(process);
        stats.endpoints.fetch_sub(1, Ordering::Relaxed);
        self.domain.endpoints.give_back();
        self.domain.users.fetch_sub(1, Ordering::Relaxed);
    }

    /// No peer begins anything any more, and what they began ends. Whether one is in the middle of
    /// something still, after so long.
    fn leave(&self) -> bool {
        let process = self.domain.process;
        let shared = self.shared();
        shared.enabled.store(0, Ordering::Release);
        let since = Instant::now();
        let mut is_cleared = false;
        loop {
            // What is being delivered is, and told, before.
            let one = locked(&self.receiving);
            let held = shared.lock.acquire(process.user());
            if held.is_some() && !is_cleared {
                unexpected::clear(process.segment(), shared);
                is_cleared = true;
            }
            let in_use = held.is_none() || receives::restore(shared);
            drop((held, one));
            if !in_use || since.elapsed() > CLOSE_PATIENCE {
                return in_use;
            }
            process.serve();
            std::thread::yield_now();
        }
    }

    /// Its place in the segment takes no room until it is somebody's again, but for what is in front of the
    /// lists: peers that are late look there.
    fn give_room_back(&self) {
        let shared = self.shared();
        if self.bound.get().is_none() {
            return;
        }
        let Some(_held) = shared.lock.acquire(self.domain.process.user()) else {
            return;
        };
        receives::give_back(shared);
        unexpected::give_back(shared);
    }

    fn flush_receives(&self, bound: &Bound, code: Code) {
        let shared = self.shared();
        // Without it if a peer is stopped who has it: this place is not used again.
        let _held = shared.lock.acquire(self.domain.process.user());
        // No error of anybody's.
        self.flush_posted(bound, code, |completion| bound.rx.flush(completion));
    }

    /// Receives that are posted end with a code, and nothing comes into them. Under the endpoint's lock.
    pub(super) fn flush_posted(&self, bound: &Bound, code: Code, tell: impl Fn(Completion)) {
        let shared = self.shared();
        for (which, kind) in [
            (Receives::Untagged, c::FI_MSG),
            (Receives::Tagged, c::FI_TAGGED),
        ] {
            while let Some(posted) = receives::cancel(shared, which, |_| true) {
                self.receive_ended();
                let happened = Happened {
                    flags: c::FI_RECV | kind,
                    context: posted.context,
                    error: failure(code),
                    ..Happened::default()
                };
                let vector = Some(Arc::clone(&bound.vector));
                tell(Completion { happened, vector });
            }
        }
    }

    pub(super) fn flush_operations(&self, bound: &Bound, code: Code) {
        let mut line = locked(&self.line);
        let ops: Vec<Op> = line.drain().collect();
        drop(line);
        for mut op in ops {
            self.give_up(&mut op);
            match op.state.ended {
                // It is told as it went.
                Some(went) => self.ended((bound, None), &op, went, 0),
                None => self.complete_failed(bound, &op, code),
            }
        }
    }

    /// Lets go of what an operation holds at its target.
    pub(super) fn give_up(&self, op: &mut Op) {
        let process = self.domain.process;
        let Some(peer) = op.target.peer.clone() else {
            return;
        };
        let segment = peer.segment(process);
        relay::abandon(segment, &mut op.state.under);
        let (ticket, claim) = (op.state.ticket.take(), op.state.claim.take());
        let target = segment.endpoints.get(usize::from(op.target.address.qpn));
        let (Some(target), true) = (target, ticket.is_some() || claim.is_some()) else {
            return;
        };
        let Some(_held) = target.lock.acquire(process.user()) else {
            // Its owner finds them as it finds those of the dead.
            ticket.inspect(|ticket| unexpected::leave(target, *ticket));
            claim.inspect(|claim| receives::leave(target, claim));
            return;
        };
        if let Some(ticket) = ticket {
            unexpected::withdraw(target, ticket);
        }
        if let Some(claim) = claim {
            receives::unclaim(target, &claim);
        }
    }
}

/// Room for what is in front of the lists.
fn room_for_heads(shared: &Endpoint) -> io::Result<()> {
    reserve(from_ref(&shared.lock))?;
    reserve(from_ref(&shared.queue))?;
    for queue in &shared.receives {
        reserve(from_ref(&queue.head))?;
        reserve(from_ref(&queue.next))?;
    }
    reserve(from_ref(&shared.unexpected.high))?;
    reserve(from_ref(&shared.unexpected.serial))
}
