//! Receive buffers: how many are posted where, and where they come from (protocol 2d.2, 2k.4).
//!
//! # Policy
//!
//! *Control* lanes start with [`CONTROL_BASE`] buffers over all rails, enough for connection messages,
//! and grow by [`EARLY_CTRLS`] for each send communicator, since its receiver may run that many CTRLs
//! ahead; never beyond `OFI_NCCL_RDMA_MAX_POSTED_CONTROL_BUFFERS`. A control message is consumed at
//! once, so its buffer is posted again at once.
//!
//! *Data* lanes get `OFI_NCCL_RDMA_MAX_POSTED_EAGER_BUFFERS` over all rails when the first listener
//! exists: nobody can send eagerly before. An eager payload without a receive keeps its buffer. When
//! fewer than the minimum are left posted, fresh buffers are posted up to the maximum, without a limit
//! on their number: with a fixed pool one communicator's unread data would block another's (2k.4).
//!
//! What comes back when enough are posted goes to the pool. Counts are per rail, rounded up, and
//! never above the provider's receive queue.
//!
//! *Memory that is refused.* Where no buffers can be registered a lane does with those that it has, and it is tried
//! again when one comes back, when more are wanted, and at each look at the clock. One without any is of no use:
//! the call that needs it fails, with the provider's words ([`Receives::refused`]).

mod given_up;
mod lanes;
mod refusal;

use crate::error::NetError;
use crate::region::Registrar;
use crate::slab::{CONTROL_SLAB, EAGER_SLAB, Slab, SlabSource};
pub(crate) use lanes::{Lanes, lanes};
use ofi_pools::{Freelist, FreelistConfig, Slot};
use ofi_rdma::Lane;
use ofi_rdma::limits::CONTROL_BUFFER_BYTES;

/// Control receives posted over all rails before any send communicator exists.
pub(crate) const CONTROL_BASE: u32 = 64;

/// CTRLs that one receive communicator can be ahead of its sender (protocol 2e.9: 128 in flight).
pub(crate) const EARLY_CTRLS: u32 = 128;

/// Eager receive buffers hold at least so much (decision 23), whatever our own limit is.
pub(crate) const EAGER_BYTES_MIN: usize = 8192;

/// Alignment of receive buffers (decision 23).
const ALIGN_BYTES: usize = 128;

/// Receives in a row that failed before a lane stops being refilled: something is wrong with the
/// endpoint, and posting on would be a busy loop.
const FAILURES_MAX: u32 = 1024;

/// Numbers of the policy, from the parameters and the rails there are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Data lanes.
    pub(crate) data_lanes: u32,
    /// Control lanes.
    pub(crate) control_lanes: u32,
    /// Control receives at most, all lanes together.
    pub(crate) control_max: u32,
    /// Eager receives: refill below, all lanes together.
    pub(crate) eager_min: u32,
    /// Eager receives: post up to, all lanes together; 0 with eager off.
    pub(crate) eager_max: u32,
    /// Bytes of an eager buffer.
    pub(crate) eager_bytes: usize,
    /// Length of the provider's receive queue.
    pub(crate) queue: u32,
}

/// One lane's receives.
#[derive(Clone, Copy, Debug, Default)]
struct LaneState {
    posted: u32,
    target: u32,
    floor: u32,
    failures: u32,
    /// Since when there has been none, as far as that was looked at.
    bare_since_ms: Option<u64>,
}

/// A buffer whose receive has completed and that is not posted again: nobody writes to it while this
/// exists. Given to [`Receives::give`], to a new post, or to [`Arrived::hold`].
#[derive(Debug)]
#[must_use]
pub(crate) struct Arrived {
    lane: Lane,
    slot: Slot,
}

impl Arrived {
    /// Where it arrived.
    pub(crate) const fn lane(&self) -> Lane {
        self.lane
    }

    /// Which buffer.
    pub(crate) const fn slot(&self) -> Slot {
        self.slot
    }

    /// The engine keeps the payload: the buffer comes back through [`Receives::held`].
    pub(crate) const fn hold(self) {}
}

/// A lane in a set of lanes.
const fn bit(lane: Lane) -> u8 {
    1 << lane.index()
}

/// The receive buffers of a domain.
#[derive(Debug)]
pub(crate) struct Receives {
    control: Freelist<Slab>,
    eager: Freelist<Slab>,
    lanes: [LaneState; Lane::COUNT_MAX],
    /// The lanes that have so few receives posted that they shall be filled up: a bit for each.
    low: u8,
    /// The lanes that buffers were refused for since they were last to be had: they are not low meanwhile.
    starved: u8,
    /// The lanes that were given up since somebody asked: a bit for each.
    given_up: u8,
    /// The last refusal.
    refusal: Option<NetError>,
    limits: Limits,
    senders: u32,
    listening: bool,
}

const _: () = assert!(Lane::COUNT_MAX <= 8, "sets of lanes have a bit for each");

impl Receives {
    /// Pools without a buffer yet, and lanes that want none yet.
    ///
    /// # Errors
    /// Sizes that make no sense.
    pub(crate) fn new(
        limits: Limits,
        page: usize,
    ) -> Result<Self, ofi_pools::freelist::ConfigError> {
        let config = |entry_bytes, first, grow| FreelistConfig {
            entry_bytes,
            align: ALIGN_BYTES,
            page,
            first,
            grow,
            max: None,
        };
        Ok(Self {
            control: Freelist::new(config(CONTROL_BUFFER_BYTES, CONTROL_BASE, EARLY_CTRLS))?,
            eager: Freelist::new(config(limits.eager_bytes, limits.eager_max.max(1), 64))?,
            lanes: [LaneState::default(); Lane::COUNT_MAX],
            low: 0,
            starved: 0,
            given_up: 0,
            refusal: None,
            limits,
            senders: 0,
            listening: false,
        })
    }

    /// The pool that the receives of `lane` come from.
    pub(crate) const fn pool(&self, lane: Lane) -> &Freelist<Slab> {
        if lane.is_control() {
            &self.control
        } else {
            &self.eager
        }
    }

    /// As [`Receives::pool`], to take and give.
    pub(crate) const fn pool_mut(&mut self, lane: Lane) -> &mut Freelist<Slab> {
        if lane.is_control() {
            &mut self.control
        } else {
            &mut self.eager
        }
    }

    /// All lanes shall serve one send communicator more.
    pub(crate) fn sender_added(&mut self) {
        self.senders = self.senders.saturating_add(1);
        self.want_more();
    }

    /// One send communicator is gone.
    pub(crate) fn sender_removed(&mut self) {
        self.senders = self.senders.saturating_sub(1);
        self.retarget();
    }

    /// A listener exists: connection messages and eager payloads can come. Whether one did before.
    pub(crate) fn listen(&mut self) -> bool {
        let before = core::mem::replace(&mut self.listening, true);
        self.want_more();
        before
    }

    /// There is no listener after all.
    pub(crate) fn unlisten(&mut self) {
        self.listening = false;
        self.retarget();
    }

    /// All lanes are tried anew, whatever was refused before.
    pub(crate) fn want_more(&mut self) {
        (self.starved, self.refusal) = (0, None);
        self.retarget();
    }

    fn retarget(&mut self) {
        let Limits {
            data_lanes,
            control_lanes,
            control_max,
            eager_min,
            eager_max,
            queue,
            ..
        } = self.limits;
        let early = self.senders.saturating_mul(EARLY_CTRLS);
        let control = CONTROL_BASE
            .saturating_add(early)
            .min(control_max.max(control_lanes));
        let control = control.div_ceil(control_lanes.max(1)).min(queue).max(1);
        let (low, high) = if self.listening {
            (eager_min, eager_max)
        } else {
            (0, 0)
        };
        let high = high.div_ceil(data_lanes.max(1)).min(queue);
        // A lane that should have receives is never left without.
        let low = low.div_ceil(data_lanes.max(1)).max(1).min(high);
        for lane in lanes(data_lanes, control_lanes) {
            if let Some(state) = self.lanes.get_mut(lane.index()) {
                (state.floor, state.target) = if lane.is_control() {
                    (control - control / 16, control)
                } else {
                    (low, high)
                };
            }
            self.mark(lane);
        }
    }

    #[inline]
    fn state(&self, lane: Lane) -> LaneState {
        self.lanes.get(lane.index()).copied().unwrap_or_default()
    }

    fn state_mut(&mut self, lane: Lane) -> Option<&mut LaneState> {
        self.lanes.get_mut(lane.index())
    }

    /// The lane that has been without a receive for longest, though it should have some, and for how long at
    /// `now_ms`: nothing can come in there. Before that nobody called for `away_ms`.
    pub(crate) fn bare(&mut self, now_ms: u64, away_ms: u64) -> Option<(Lane, u64)> {
        let all = lanes(self.limits.data_lanes, self.limits.control_lanes);
        let bare = all.filter_map(|lane| {
            let state = self.state_mut(lane)?;
            // Receives that fail are told of themselves, as long as they are posted again.
            let is_failing = (1..FAILURES_MAX).contains(&state.failures);
            if state.posted > 0 || state.target == 0 || is_failing {
                state.bare_since_ms = None;
                return None;
            }
            let since_ms = state
                .bare_since_ms
                .map_or(now_ms, |since_ms| since_ms + away_ms);
            state.bare_since_ms = Some(since_ms);
            Some((lane, now_ms.saturating_sub(since_ms)))
        });
        bare.reduce(|longest, other| if other.1 > longest.1 { other } else { longest })
    }

    /// Whether a buffer that comes back on `lane` shall be posted again.
    pub(crate) fn wants(&self, lane: Lane) -> bool {
        let state = self.state(lane);
        state.posted < state.target && state.failures < FAILURES_MAX
    }

    /// Whether some lane has so few receives posted that it shall be filled up.
    #[inline]
    pub(crate) const fn any_low(&self) -> bool {
        self.low != 0
    }

    /// Whether `lane` is one of them.
    pub(crate) const fn is_low(&self, lane: Lane) -> bool {
        self.low & bit(lane) != 0
    }

    /// The receives of `lane` are others than before.
    #[inline]
    fn mark(&mut self, lane: Lane) {
        let state = self.state(lane);
        let is_tried = state.failures < FAILURES_MAX && self.starved & bit(lane) == 0;
        if state.posted < state.floor && is_tried {
            self.low |= bit(lane);
        } else {
            self.low &= !bit(lane);
        }
    }

    /// A receive was posted.
    pub(crate) fn posted(&mut self, lane: Lane) {
        if let Some(state) = self.state_mut(lane) {
            state.posted += 1;
        }
        self.mark(lane);
    }

    fn came_back(&mut self, lane: Lane) {
        if let Some(state) = self.state_mut(lane) {
            state.posted = state.posted.saturating_sub(1);
        }
        self.mark(lane);
    }

    /// The receive on `slot` came back with a message.
    pub(crate) fn received(&mut self, lane: Lane, slot: Slot) -> Arrived {
        self.came_back(lane);
        if let Some(state) = self.state_mut(lane) {
            state.failures = 0;
        }
        self.mark(lane);
        Arrived { lane, slot }
    }

    /// The receive on `slot` came back with an error.
    pub(crate) fn failed(&mut self, lane: Lane, slot: Slot) -> Arrived {
        self.came_back(lane);
        self.unpostable(lane);
        Arrived { lane, slot }
    }

    /// A fresh buffer for `lane`, growing its pool when all are in use.
    ///
    /// # Errors
    /// The slab could not be made.
    pub(crate) fn fresh(
        &mut self,
        lane: Lane,
        registrar: &Registrar,
    ) -> Result<Option<Arrived>, NetError> {
        let access = if lane.is_control() {
            CONTROL_SLAB
        } else {
            EAGER_SLAB
        };
        let taken = self.pool_mut(lane).take(&mut SlabSource {
            registrar,
            access,
            binds_to: None,
        })?;
        Ok(taken.map(|slot| Arrived { lane, slot }))
    }

    /// Gives a buffer back to its pool. One that is not taken was given back before: nothing to do.
    pub(crate) fn give(&mut self, buffer: Arrived) {
        let Arrived { lane, slot } = buffer;
        let given = self.pool_mut(lane).give(slot);
        debug_assert!(given.is_ok(), "{given:?}");
    }

    /// The data buffer of a held eager payload.
    pub(crate) fn held(&self, rail: u8, index: u32) -> Option<Arrived> {
        let slot = self.eager.taken(index)?;
        Some(Arrived {
            lane: Lane::data(rail),
            slot,
        })
    }

    /// Lends the first `len` bytes of a message, or all that the buffer has.
    pub(crate) fn lend<R>(
        &self,
        buffer: &Arrived,
        len: usize,
        read: impl FnOnce(&[u8]) -> R,
    ) -> Option<R> {
        let place = self.pool(buffer.lane).place(buffer.slot).ok()?;
        let (pages, len) = (place.block.pages(), len.min(place.bytes));
        // SAFETY: an `Arrived` is made by the completion of the receive on its buffer and given up
        // to post it again, so that nothing is posted here while it is borrowed.
        unsafe { pages.with_bytes(place.offset, len, read) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receives(limits: Limits) -> Receives {
        Receives::new(limits, 4096).unwrap()
    }

    const FOUR: Limits = Limits {
        data_lanes: 4,
        control_lanes: 4,
        control_max: 2048,
        eager_min: 64,
        eager_max: 128,
        eager_bytes: EAGER_BYTES_MIN,
        queue: 1024,
    };

    fn target(receives: &Receives, lane: Lane) -> u32 {
        receives.state(lane).target
    }

    #[test]
    fn lanes_are_data_then_control() {
        let all: Vec<_> = lanes(2, 1).collect();
        assert_eq!(all, [Lane::data(0), Lane::data(1), Lane::control(0)]);
    }

    #[test]
    fn a_lane_is_bare_for_as_long_as_somebody_called() {
        let mut receives = receives(FOUR);
        receives.listen();
        let mut bare = |now_ms, away_ms| receives.bare(now_ms, away_ms).unwrap().1;
        assert_eq!(
            [bare(1000, 0), bare(1500, 0), bare(9000, 7000)],
            [0, 500, 1000]
        );
    }

    #[test]
    fn control_receives_grow_with_senders_up_to_the_parameter() {
        let mut receives = receives(FOUR);
        receives.listen();
        assert_eq!(target(&receives, Lane::control(3)), 16);
        receives.sender_added();
        assert_eq!(target(&receives, Lane::control(0)), 48);
        for _ in 0..1000 {
            receives.sender_added();
        }
        assert_eq!(
            target(&receives, Lane::control(0)),
            512,
            "2048 over four rails"
        );
        for _ in 0..1001 {
            receives.sender_removed();
        }
        assert_eq!(target(&receives, Lane::control(0)), 16);
    }

    #[test]
    fn the_providers_queue_is_a_bound() {
        let mut receives = receives(Limits { queue: 10, ..FOUR });
        receives.listen();
        receives.sender_added();
        assert_eq!(target(&receives, Lane::control(0)), 10);
        assert_eq!(target(&receives, Lane::data(0)), 10);
    }

    #[test]
    fn data_receives_come_with_the_first_listener() {
        let mut receives = receives(FOUR);
        receives.sender_added();
        assert!(!receives.wants(Lane::data(0)) && receives.wants(Lane::control(0)));
        receives.listen();
        assert_eq!(target(&receives, Lane::data(2)), 32);
        assert!(receives.is_low(Lane::data(2)));
    }

    #[test]
    fn a_lane_is_low_below_its_floor_and_full_at_its_target() {
        let mut receives = receives(FOUR);
        receives.listen();
        let lane = Lane::data(1);
        for _ in 0..32 {
            assert!(receives.wants(lane));
            receives.posted(lane);
        }
        assert!(!receives.wants(lane) && !receives.is_low(lane));
        for _ in 0..17 {
            receives.came_back(lane);
        }
        assert!(receives.is_low(lane), "15 of 32, below 16");
    }
}
