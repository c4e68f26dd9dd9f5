//! What is simulated: the hosts, their work, and what goes wrong.

use crate::rng::Rng;
use crate::spec::{SpecError, check_ranges};

/// One simulation: the hosts, the work they do, and what goes wrong.
///
/// All numbers are checked by [`SimConfig::check`]; rates are in parts per million (`_ppm`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimConfig {
    /// Everything random follows from this.
    pub seed: u64,
    /// Hosts, 1..=8; with one host every link is a link to oneself.
    pub hosts: u8,
    /// Data rails, 1..=4.
    pub rails: u8,
    /// One control rail a data rail (`OFI_NCCL_RR_CTRL_MSG`), instead of one in all.
    pub control_rr: bool,
    /// 64-bit keys in CTRL, and keys that need them.
    pub long_keys: bool,
    /// Remote addresses are virtual addresses; otherwise offsets into the region.
    pub virt_addr: bool,
    /// The provider reports the length of a remote write (libfabric 1.17 tcp does not).
    pub report_len: bool,
    /// The provider carries 8 bytes of CQ data, so peers can tell lengths themselves; otherwise 4.
    pub wide_data: bool,
    /// Receivers send CLOSE (`OFI_NCCL_DISABLE_CLOSE_MESSAGE=0`).
    pub close_messages: bool,
    /// Eager payloads are in their place when the post of the copy returns, as in memory of the host;
    /// otherwise they are read through the network, as for memory of a device.
    pub copies_at_once: bool,
    /// Largest eager message in bytes; -1: eager off.
    pub eager_max: i32,
    /// Bytes per stripe (`OFI_NCCL_MIN_STRIPE_SIZE`), scaled down.
    pub stripe: u32,
    /// Messages below use the small round robin.
    pub small_max: u32,
    /// Links (one communicator pair each) that exist at once.
    pub links: u16,
    /// Messages to carry, over all links.
    pub messages: u64,
    /// Messages of one life of a link, after which both sides close and connect again: at most this
    /// many, drawn.
    pub per_life: u64,
    /// Messages a side tries to keep in flight, 1..=200; drawn for each life up to this. Above 128 it
    /// runs into the cap of the protocol.
    pub window: u16,
    /// Longest message in bytes (16 MiB of the real thing, scaled down).
    pub max_bytes: u32,
    /// How often a send is longer than its receive.
    pub truncate_ppm: u32,
    /// How often a message is empty.
    pub zero_ppm: u32,
    /// How often a receive is followed by a flush.
    pub flush_ppm: u32,
    /// How often a message is accompanied by a one-sided operation; needs virtual addresses.
    pub one_sided_ppm: u32,
    /// How often a receive says that it is optional, so that it is done before its data (protocol
    /// 2e.10); above 0 early completion is on, which needs eager off.
    pub optional_ppm: u32,
    /// What goes wrong.
    pub faults: Faults,
}

/// What the network, the provider and the peers do to the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults {
    /// Shortest time from post to effect, nanoseconds.
    pub delay_min: u32,
    /// Longest ordinary one. Anything above the shortest reorders.
    pub delay_max: u32,
    /// How often an operation takes 50 times as long.
    pub straggler_ppm: u32,
    /// Each lane between two hosts keeps its order (as tcp does).
    pub ordered: bool,
    /// How often a local completion comes before the effect at the peer.
    pub early_local_ppm: u32,
    /// How often `CONN_RESP` is slow, so that CTRL overtakes it.
    pub slow_resp_ppm: u32,
    /// How often a control message is injected: complete at once.
    pub inject_ppm: u32,
    /// How often a post is answered EAGAIN once.
    pub busy_ppm: u32,
    /// How often a lane begins to answer EAGAIN up to 200 times in a row.
    pub storm_ppm: u32,
    /// How often the provider refuses an operation for good.
    pub refuse_ppm: u32,
    /// How often an operation ends in an error completion.
    pub error_ppm: u32,
    /// How often a life of a link ends by a side closing with requests in flight.
    pub abrupt_ppm: u32,
    /// How often a control message comes twice.
    pub dup_ppm: u32,
    /// How often, per operation, something comes that is for nobody: garbage on a control lane, an
    /// immediate or eager message of an unknown or wrong communicator, a stale completion.
    pub stray_ppm: u32,
    /// The last host dies after so many microseconds; 0: it lives.
    pub death_us: u32,
    /// What the others' provider says of it.
    pub death: Death,
    /// Break one promise of the network itself, to see that the oracles notice.
    pub sabotage: Sabotage,
    /// Which operation the sabotage hits, counted from 0.
    pub sabotage_at: u32,
}

/// What a provider reports of a dead peer (providers 1a: they differ).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// Nothing: operations never complete.
    Silent = 0,
    /// Operations fail after a while.
    Error = 1,
    /// Posts are answered EAGAIN for ever.
    Busy = 2,
    /// Operations complete as if all were well.
    Success = 3,
}

/// Promises of a network that can be broken on purpose. A simulation with one of these has to fail:
/// that is what shows that the oracles see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// Keep all promises.
    Nothing = 0,
    /// The immediate of a write is lost; the bytes arrive.
    DropImmediate = 1,
    /// A write is reported twice.
    DoubleImmediate = 2,
    /// One bit of a payload flips.
    FlipBit = 3,
    /// A write lands 64 bytes further on.
    Misplace = 4,
    /// A control message is lost.
    DropControl = 5,
    /// A local completion is lost.
    DropCompletion = 6,
    /// A write reports one byte more than it wrote.
    WrongLength = 7,
}

impl Sabotage {
    /// Every promise that can be broken.
    pub const ALL: [Self; 7] = [
        Self::DropImmediate,
        Self::DoubleImmediate,
        Self::FlipBit,
        Self::Misplace,
        Self::DropControl,
        Self::DropCompletion,
        Self::WrongLength,
    ];
}

impl Default for SimConfig {
    /// Two hosts, two rails, and nothing goes wrong but the order of things.
    fn default() -> Self {
        Self {
            seed: 0,
            hosts: 2,
            rails: 2,
            control_rr: true,
            long_keys: false,
            virt_addr: true,
            report_len: true,
            wide_data: false,
            close_messages: false,
            copies_at_once: false,
            eager_max: 256,
            stripe: 1024,
            small_max: 64,
            links: 4,
            messages: 1000,
            per_life: 1 << 40,
            window: 32,
            max_bytes: 16 << 10,
            truncate_ppm: 50_000,
            zero_ppm: 20_000,
            flush_ppm: 100_000,
            one_sided_ppm: 0,
            optional_ppm: 0,
            faults: Faults::NONE,
        }
    }
}

impl Faults {
    /// Reordering within and across rails, and nothing else.
    pub const NONE: Self = Self {
        delay_min: 500,
        delay_max: 8_000,
        straggler_ppm: 0,
        ordered: false,
        early_local_ppm: 0,
        slow_resp_ppm: 0,
        inject_ppm: 0,
        busy_ppm: 0,
        storm_ppm: 0,
        refuse_ppm: 0,
        error_ppm: 0,
        abrupt_ppm: 0,
        dup_ppm: 0,
        stray_ppm: 0,
        death_us: 0,
        death: Death::Silent,
        sabotage: Sabotage::Nothing,
        sabotage_at: 0,
    };

    /// Everything that a correct engine survives without a failed communicator, at rates that make
    /// it common.
    pub const HARMLESS: Self = Self {
        straggler_ppm: 20_000,
        early_local_ppm: 300_000,
        slow_resp_ppm: 300_000,
        inject_ppm: 200_000,
        busy_ppm: 100_000,
        storm_ppm: 1_000,
        dup_ppm: 20_000,
        stray_ppm: 20_000,
        ..Self::NONE
    };
}

impl SimConfig {
    /// Whether senders put the length of a segment into the CQ data: all hosts are ours.
    #[must_use]
    pub const fn tells_lengths(&self) -> bool {
        self.wide_data && !self.report_len
    }

    /// A configuration drawn from a seed: every knob, with all kinds of faults on or off.
    #[must_use]
    pub fn random(seed: u64, messages: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x5EED);
        let mut config = Self {
            seed,
            messages,
            ..Self::default()
        };
        config.draw_hosts(&mut rng);
        config.draw_work(&mut rng);
        config.faults = Faults::random(&mut rng);
        // Of its own source, so that what seeds drew before it stays.
        config.copies_at_once = Rng::new(seed ^ 0xC0FFEE).chance(500_000);
        config
    }

    fn draw_hosts(&mut self, rng: &mut Rng) {
        self.hosts = small(rng.between(1, 4));
        self.rails = small(rng.between(1, 4));
        self.control_rr = rng.chance(500_000);
        self.long_keys = rng.chance(500_000);
        self.virt_addr = rng.chance(700_000);
        self.report_len = rng.chance(700_000);
        self.wide_data = rng.chance(500_000);
        self.close_messages = rng.chance(300_000);
    }

    fn draw_work(&mut self, rng: &mut Rng) {
        self.stripe = [1, 128, 256, 1024, 4096][pick(rng, 5)];
        let eager = i32::try_from(rng.magnitude(u64::from(self.stripe.min(512)))).unwrap_or(0);
        self.eager_max = if rng.chance(200_000) { -1 } else { eager };
        self.small_max = [0, 64, 300][pick(rng, 3)];
        self.links = u16::from(small(rng.between(1, 12)));
        self.per_life = [20, 300, 5_000, 1 << 40][pick(rng, 4)];
        self.window = [1, 2, 8, 32, 128, 160][pick(rng, 6)];
        self.max_bytes = [64, 1000, 4096, 16 << 10][pick(rng, 4)];
        self.truncate_ppm = [0, 50_000, 500_000][pick(rng, 3)];
        self.zero_ppm = [0, 20_000, 300_000][pick(rng, 3)];
        self.flush_ppm = [0, 100_000, 1_000_000][pick(rng, 3)];
        if self.virt_addr {
            self.one_sided_ppm = [0, 50_000, 1_000_000][pick(rng, 3)];
        }
        if self.eager_max < 0 {
            self.optional_ppm = [0, 300_000, 1_000_000][pick(rng, 3)];
        }
    }

    /// Checks every number against its range and the relations between them.
    ///
    /// # Errors
    /// A [`SpecError`] that names the key, the value and the range.
    pub fn check(&self) -> Result<(), SpecError> {
        check_ranges(self)?;
        let eager = i128::from(self.eager_max);
        if eager > i128::from(self.stripe) {
            return Err(SpecError::Range {
                key: "eager",
                value: eager,
                min: -1,
                max: self.stripe.into(),
            });
        }
        let never = |key, value: u32| SpecError::Range {
            key,
            value: value.into(),
            min: 0,
            max: 0,
        };
        if self.one_sided_ppm > 0 && !self.virt_addr {
            return Err(never("onesided", self.one_sided_ppm));
        }
        if self.optional_ppm > 0 && self.eager_max >= 0 {
            return Err(never("optional", self.optional_ppm));
        }
        Ok(())
    }
}

impl Faults {
    /// Each kind of fault on or off, by chance.
    fn random(rng: &mut Rng) -> Self {
        let delay_min = [10, 500, 5_000][pick(rng, 3)];
        let mut faults = Self {
            delay_min,
            delay_max: delay_min * [1, 4, 40][pick(rng, 3)],
            ordered: rng.chance(150_000),
            ..Self::NONE
        };
        let harmless: [(&mut u32, u32); 9] = [
            (&mut faults.straggler_ppm, 20_000),
            (&mut faults.early_local_ppm, 500_000),
            (&mut faults.slow_resp_ppm, 500_000),
            (&mut faults.inject_ppm, 500_000),
            (&mut faults.busy_ppm, 300_000),
            (&mut faults.storm_ppm, 2_000),
            (&mut faults.dup_ppm, 50_000),
            (&mut faults.stray_ppm, 50_000),
            (&mut faults.abrupt_ppm, 300_000),
        ];
        for (rate, max) in harmless {
            if rng.chance(500_000) {
                *rate = u32::try_from(rng.between(1, u64::from(max))).unwrap_or(max);
            }
        }
        if rng.chance(300_000) {
            faults.error_ppm = 200;
            faults.refuse_ppm = 100;
        }
        if rng.chance(150_000) {
            faults.death_us = u32::try_from(rng.between(50, 3_000)).unwrap_or(50);
            faults.death = [Death::Silent, Death::Error, Death::Busy, Death::Success][pick(rng, 4)];
        }
        faults
    }
}

/// A number below 256.
fn small(value: u64) -> u8 {
    u8::try_from(value).unwrap_or(u8::MAX)
}

/// An index below `len`.
fn pick(rng: &mut Rng, len: u64) -> usize {
    usize::try_from(rng.below(len)).unwrap_or(0)
}
