//! Messages made of raw operations: a window of them in each direction, over all rails.
//!
//! ```text
//! receiver                                sender
//! grant: control message  ------------->  credit
//! arrived: counted        <-------------  stripes of the message
//! ```
//!
//! Messages are counted, not told apart: that is the least anybody can do, so that it is a bound.

use efa_fabric::{CompletionFlags, CqEntry, CqPoll, FabricError, Info, Posted, Target};
use ofi_net::Transport;
use ofi_rdma::limits::MAX_RAILS;
use ofi_sched::{Config, Policy as _, RailCount, Stripe, Threshold};

use super::plan::{EAGER_MAX, Wire};
use super::posts::{self, Contexts, Part};
use super::rails::{Card, Place, Rail, Sizes};
use crate::abi::{Region, Regions};
use crate::bench::Fail;

/// Operations in flight, at most: 128 messages of four stripes, and as many control messages.
const OPERATIONS_MAX: usize = 1024;

/// Completions taken by one read, as the engine does.
const BATCH: usize = 32;

/// One direction of a run.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Flow {
    /// Messages.
    total: u64,
    /// Bytes of each.
    size: usize,
    /// In flight, at most.
    window: u64,
    /// Control messages: sent by a receiver, arrived at a sender.
    granted: u64,
    /// Messages posted whole.
    posted: u64,
    /// Operations of messages that completed here, or arrived.
    operations: u64,
    /// Of how many a message consists.
    stripes: u64,
    /// Stripes of the next message that are posted.
    cut: usize,
}

impl Flow {
    /// Messages that are through.
    #[inline]
    pub(crate) fn done(&self) -> u64 {
        // The division is of a register by 1 to 4, a few cycles, and no part of what is compared.
        self.operations / self.stripes.max(1)
    }

    /// Where message number `message` lies: each of a window in a place of its own, as in `ofi perf`.
    #[inline]
    const fn place(&self, message: u64) -> usize {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "below the window, which is small"
        )]
        let slot = (message % self.window) as usize;
        slot * stride(self.size)
    }

    fn is_done(&self) -> bool {
        self.done() >= self.total
    }
}

/// Bytes from one message of a window to the next.
pub(crate) const fn stride(size: usize) -> usize {
    (size + 128).next_multiple_of(64)
}

/// The rails of one device, with a peer.
#[derive(Debug)]
pub(crate) struct Wires {
    rails: Vec<Rail>,
    /// Of what carries messages, and of control messages.
    contexts: Contexts,
    notes: Contexts,
    batch: [CqEntry; BATCH],
    wire: Wire,
    control_bytes: usize,
    targets: [Place; MAX_RAILS],
    /// Memory that is laid now, and what was.
    laid: Vec<Region>,
    regions: Regions,
    /// The stripes of the next messages: those of a message do not depend on the one before but for
    /// their rails.
    policy: Threshold,
    next_control: usize,
    next_poll: usize,
    stripes: [Stripe; MAX_RAILS],
    pub(crate) send: Flow,
    pub(crate) recv: Flow,
}

impl Wires {
    /// Opens the rails of device `device` as `transport` would.
    ///
    /// # Errors
    /// The call that failed.
    pub(crate) fn open(transport: &Transport, device: usize, wire: Wire) -> Result<Self, Fail> {
        let infos = transport.rails(device)?;
        if infos.is_empty() {
            return Err(Fail::NoRails { device });
        }
        let rails = infos.len().min(MAX_RAILS);
        let sizes = Sizes {
            queue: transport.config().cq_depth(),
            rails,
            data_receive: EAGER_MAX,
        };
        let open = |info: &efa_fabric::InfoBuf| {
            let info: &Info = info;
            Rail::open(info, sizes)
        };
        let rails: Vec<Rail> = infos
            .iter()
            .take(rails)
            .map(open)
            .collect::<Result<_, _>>()?;
        let count = u8::try_from(rails.len()).unwrap_or(1);
        let short = infos.first().is_some_and(|info| info.mr_key_size() <= 4);
        let width = if short { 4 } else { 8 };
        let policy = Threshold::new(Config::BASE).map_err(|_| Fail::NoPlugin)?;
        let mut wires = Self {
            contexts: Contexts::new(OPERATIONS_MAX),
            notes: Contexts::new(OPERATIONS_MAX),
            batch: [CqEntry::EMPTY; BATCH],
            wire,
            control_bytes: 16 + width * usize::from(count),
            targets: [Place::default(); MAX_RAILS],
            laid: Vec::new(),
            regions: Regions::default(),
            policy,
            next_control: 0,
            next_poll: 0,
            stripes: [Stripe {
                rail: 0,
                offset: 0,
                len: 0,
            }; MAX_RAILS],
            send: Flow::default(),
            recv: Flow::default(),
            rails,
        };
        wires.post_receives()?;
        Ok(wires)
    }

    fn post_receives(&mut self) -> Result<(), FabricError> {
        for rail in &self.rails {
            for end in [&rail.control, &rail.data] {
                for index in 0..end.rx.count() {
                    // shm and others have room for fewer; what is refused is not posted.
                    if !matches!(end.rx.post(&end.endpoint, index), Ok(Posted::Accepted)) {
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// What the peer needs to know.
    ///
    /// # Errors
    /// The name of an endpoint cannot be had.
    pub(crate) fn cards(&self) -> Result<Vec<Card>, FabricError> {
        self.rails.iter().map(Rail::card).collect()
    }

    /// Knows its peer from now on.
    ///
    /// # Errors
    /// The provider does not take the names; another number of rails.
    pub(crate) fn meet(&mut self, cards: &[Card]) -> Result<(), Fail> {
        if cards.len() != self.rails.len() {
            return Err(Fail::Rails {
                ours: self.rails.len(),
                theirs: cards.len(),
            });
        }
        for (rail, card) in self.rails.iter_mut().zip(cards) {
            rail.meet(card)?;
        }
        Ok(())
    }

    /// Registers `bytes` to send from, to receive into, or both, as a plugin's user does for each
    /// communicator and direction; where the peer may write, by rail. Nothing is on its way.
    ///
    /// # Errors
    /// No memory, or a registration failed.
    pub(crate) fn lay(
        &mut self,
        bytes: usize,
        (sends, receives): (bool, bool),
    ) -> Result<Vec<Place>, Fail> {
        for region in self.laid.drain(..) {
            self.regions.give(region);
        }
        let mut take = |is_wanted: bool| {
            let bytes = if is_wanted { bytes } else { 1 };
            let region = self.regions.take(bytes);
            region.map_err(|error| Fail::Memory { bytes, error })
        };
        let (out, into) = (take(sends)?, take(receives)?);
        self.laid.extend([out, into]);
        let rails = self.rails.iter_mut();
        rails.map(|rail| rail.lay(out, into)).collect()
    }

    /// Writes there from now on.
    pub(crate) fn aim(&mut self, places: &[Place]) {
        for (target, place) in self.targets.iter_mut().zip(places) {
            *target = *place;
        }
    }

    /// Begins with these messages, sent and received.
    pub(crate) fn begin(&mut self, (sends, recvs): (u64, u64), (size, window): (usize, usize)) {
        let flow = |total| Flow {
            total,
            size,
            window: window as u64,
            stripes: self.cuts(size),
            ..Flow::default()
        };
        (self.send, self.recv) = (flow(sends), flow(recvs));
    }

    /// Of how many operations a message of `size` consists.
    fn cuts(&self, size: usize) -> u64 {
        let rails = self.rail_count();
        let plan = self.policy.clone().plan(size as u64, rails);
        // An eager message is never cut.
        match self.wire {
            Wire::Eager => 1,
            Wire::Rendezvous | Wire::Write => plan.len() as u64,
        }
    }

    fn rail_count(&self) -> RailCount {
        let count = u8::try_from(self.rails.len()).unwrap_or(1);
        RailCount::new(count).unwrap_or(RailCount::ONE)
    }

    /// Whether all messages are through.
    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        self.send.is_done() && self.recv.is_done()
    }

    /// Whether nothing is on its way any more, control messages neither.
    pub(crate) fn is_through(&self) -> bool {
        let told = |flow: &Flow| !self.wire.has_control() || flow.granted >= flow.total;
        self.is_done() && told(&self.send) && told(&self.recv)
    }

    /// Tells the sender of the messages that may come up to number `until`.
    ///
    /// # Errors
    /// What the provider says.
    #[inline]
    pub(crate) fn grant(&mut self, until: u64) -> Result<(), FabricError> {
        let until = until.min(self.recv.total);
        while self.wire.has_control() && self.recv.granted < until {
            let rail = &self.rails[self.next_control];
            let part = Part {
                block: &rail.notes,
                at: 0,
                len: self.control_bytes,
            };
            let with = (&rail.control.endpoint, &mut self.notes);
            let posted = posts::send(with, part, rail.control.peer)?;
            if posted != Posted::Accepted {
                return Ok(());
            }
            self.recv.granted += 1;
            self.next_control = (self.next_control + 1) % self.rails.len();
        }
        Ok(())
    }

    /// Posts messages up to number `until`, as far as the peer has room and the provider takes them.
    ///
    /// # Errors
    /// What the provider says.
    #[inline]
    pub(crate) fn post(&mut self, until: u64) -> Result<(), FabricError> {
        let until = until.min(self.send.total);
        while self.send.posted < until {
            // An eager message does not wait for its receive.
            if self.wire == Wire::Rendezvous && self.send.granted <= self.send.posted {
                return Ok(());
            }
            if !self.post_one()? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Posts what is left of the next message; whether all of it is.
    fn post_one(&mut self) -> Result<bool, FabricError> {
        if self.send.cut == 0 {
            self.cut_next();
        }
        let stripes = usize::try_from(self.send.stripes).unwrap_or(MAX_RAILS);
        while self.send.cut < stripes {
            let stripe = self.stripes[self.send.cut % MAX_RAILS];
            let rail = &self.rails[usize::from(stripe.rail) % self.rails.len()];
            let place = self.send.place(self.send.posted);
            let part = Part {
                block: &rail.out,
                at: place + narrow(stripe.offset),
                len: narrow(stripe.len),
            };
            let with = (&rail.data.endpoint, &mut self.contexts);
            let peer = rail.data.peer;
            let posted = if self.wire == Wire::Eager {
                posts::send_data(with, part, IMMEDIATE, peer)?
            } else {
                let theirs = self.targets[usize::from(stripe.rail) % MAX_RAILS];
                let target = Target {
                    peer,
                    addr: theirs.address + (place as u64) + stripe.offset,
                    key: theirs.key,
                };
                posts::write(with, part, IMMEDIATE, target)?
            };
            if posted != Posted::Accepted {
                return Ok(false);
            }
            self.send.cut += 1;
        }
        self.send.cut = 0;
        self.send.posted += 1;
        Ok(true)
    }

    fn cut_next(&mut self) {
        let (size, rails) = (self.send.size as u64, self.rail_count());
        if self.wire == Wire::Eager {
            let rail = self.policy.plan_one(size, rails);
            self.stripes[0] = Stripe {
                rail,
                offset: 0,
                len: size,
            };
            return;
        }
        let plan = self.policy.plan(size, rails);
        for (at, stripe) in self.stripes.iter_mut().zip(plan.iter()) {
            *at = stripe;
        }
    }

    /// Takes completions from every rail; whether there were any.
    ///
    /// # Errors
    /// A failed operation.
    #[inline]
    pub(crate) fn poll(&mut self) -> Result<bool, Fail> {
        let mut any = false;
        let count = self.rails.len();
        for turn in 0..count {
            let at = (self.next_poll + turn) % count;
            self.rails[at].control.retry()?;
            self.rails[at].data.retry()?;
            match self.rails[at].cq.read_batch(&mut self.batch)? {
                CqPoll::Empty => {}
                CqPoll::Entries(entries) => {
                    any = true;
                    for index in 0..entries {
                        let entry = self.batch[index % BATCH];
                        self.entry(at, &entry)?;
                    }
                }
                CqPoll::ErrorAvailable => {
                    if let Some(error) = self.rails[at].cq.read_error()? {
                        return Err(Fail::Completion(error.to_string()));
                    }
                }
            }
        }
        self.next_poll = (self.next_poll + 1) % count;
        Ok(any)
    }

    #[inline]
    fn entry(&mut self, at: usize, entry: &CqEntry) -> Result<(), Fail> {
        let flags = entry.flags();
        if flags.contains(CompletionFlags::REMOTE_WRITE) {
            self.recv.operations += 1;
            return Ok(());
        }
        let context = entry.context();
        if self.contexts.give_back(context) {
            self.send.operations += 1;
            return Ok(());
        }
        if self.notes.give_back(context) {
            return Ok(());
        }
        let rail = &mut self.rails[at];
        if let Some(index) = rail.control.rx.find(context) {
            self.send.granted += 1;
            rail.control.post_receive(index)?;
        } else if let Some(index) = rail.data.rx.find(context) {
            let place = self.recv.place(self.recv.operations);
            rail.into
                .take_from(place, &rail.data.rx, index, entry.len());
            self.recv.operations += 1;
            rail.data.post_receive(index)?;
        }
        Ok(())
    }
}

/// Immediate data of every operation: nothing is told by it.
const IMMEDIATE: u32 = 0;

/// A part of a message, which is at most 512 MiB.
#[inline]
fn narrow(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
