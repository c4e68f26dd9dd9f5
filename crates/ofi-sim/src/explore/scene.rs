//! What is explored: a small configuration, and what may go wrong in it.

use ofi_rdma::limits::MAX_RAILS;
use ofi_rdma::{Config, Dialect, EpName, KeyWidth, Lane};

use crate::config::Sabotage;
use crate::ops::endpoint_name;

/// A small configuration of one sender and one receiver, of which every interleaving is visited.
///
/// Everything that the network, the provider and the two callers may do next is a move; budgets bound
/// how often something goes wrong. See [`explore`](crate::explore::explore).
#[derive(Clone, Copy, Debug)]
pub struct Scene {
    /// Data rails, 1..=4.
    pub rails: u8,
    /// The messages: bytes given to isend and to irecv, each below 65536; at most 16 of them.
    pub messages: &'static [(u32, u32)],
    /// Longest eager message (at most 128, the stripe here); `None`: off.
    pub eager_max: Option<u32>,
    /// Begin with a connection that is made; otherwise connecting is explored too.
    pub connected: bool,
    /// Each side may close at any moment, with whatever is in flight.
    pub may_close: bool,
    /// CLOSE is exchanged (`OFI_NCCL_DISABLE_CLOSE_MESSAGE=0`).
    pub close_messages: bool,
    /// Receives are optional (CTRL of type 5).
    pub optional: bool,
    /// Each receive is flushed once it is done.
    pub flush: bool,
    /// Operations that may fail, at any moment until they complete, having taken effect or not.
    pub errors: u8,
    /// Control messages that may come twice.
    pub repeats: u8,
    /// Times that a lane may turn busy, until it is free again.
    pub busy: u8,
    /// Control messages up to this length may go out by inject: they complete in the call.
    pub inject_max: u16,
    /// Eager payloads are in their place when the post of the copy returns (memory of the host).
    pub copies_at_once: bool,
    /// A promise that the network breaks every time, to see that it is noticed (there are no bytes here
    /// whose bits could flip).
    pub sabotage: Sabotage,
}

impl Scene {
    /// Two rails, one rendezvous message in two segments, connected, and nothing goes wrong.
    pub const PLAIN: Self = Self {
        rails: 2,
        messages: &[(200, 200)],
        eager_max: None,
        connected: true,
        may_close: false,
        close_messages: false,
        optional: false,
        flush: false,
        errors: 0,
        repeats: 0,
        busy: 0,
        inject_max: 0,
        copies_at_once: false,
        sabotage: Sabotage::Nothing,
    };

    /// Bytes of message `k` that travel (protocol 2e.6).
    pub(super) fn moved(&self, k: u8) -> u32 {
        self.messages
            .get(usize::from(k))
            .map_or(0, |&(send, recv)| send.min(recv))
    }

    /// Messages there are.
    pub(super) fn count(&self) -> u8 {
        u8::try_from(self.messages.len()).unwrap_or(u8::MAX)
    }
}

/// Segments are cut from here on.
const STRIPE_BYTES: u64 = 128;

/// The engine's bounds, in virtual milliseconds.
pub(super) const BOUND_MS: u64 = 1_000;

/// The settings of the engine of a host.
pub(super) fn engine_config(scene: &Scene, host: u8) -> Config {
    let names = |lane: fn(u8) -> Lane| {
        let mut names = [EpName::EMPTY; MAX_RAILS];
        for (rail, name) in (0..scene.rails).zip(&mut names) {
            *name = EpName::new(&endpoint_name(host, lane(rail))).unwrap_or(EpName::EMPTY);
        }
        names
    };
    Config {
        data_rails: scene.rails,
        control_rails: 1,
        control_names: names(Lane::control),
        data_names: names(Lane::data),
        key_width: KeyWidth::Short,
        lengths_told: true,
        cq_data_bytes: 4,
        eager_max: scene.eager_max,
        min_stripe_bytes: STRIPE_BYTES,
        small_max_bytes: 0,
        connect_timeout_ms: BOUND_MS,
        stall_warn_ms: None,
        stall_fail_ms: Some(BOUND_MS),
        close_messages: scene.close_messages,
        early_completion: scene.optional,
    }
}

/// The protocol with four-bit sequence numbers and two messages in flight: as [`ofi_rdma::Tiny`], one
/// step larger, so that messages can overtake each other.
#[derive(Clone, Copy, Debug, Hash)]
pub struct Pair;

impl Dialect for Pair {
    const SEQ_BITS: u32 = 4;
    const WINDOW: u16 = 4;
    const INFLIGHT_MAX: u16 = 2;

    fn encode_imm(nseg: u8, comm: u32, seq: u16) -> u32 {
        u32::from(nseg & 15) << 28 | (comm & 0x3_FFFF) << 10 | u32::from(seq & 15)
    }

    fn imm_nseg(word: u32) -> u8 {
        u8::try_from(word >> 28).unwrap_or(0)
    }

    fn imm_comm(word: u32) -> u32 {
        word >> 10 & 0x3_FFFF
    }

    fn imm_seq(word: u32) -> u16 {
        u16::try_from(word & 15).unwrap_or(0)
    }
}
