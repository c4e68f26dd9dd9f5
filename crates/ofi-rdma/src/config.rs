//! What an engine is made from: typed, checked once, never read again from anywhere.

use crate::limits::MAX_RAILS;
use crate::port::EpName;
use crate::wire::capability::{Capabilities, EagerLimit};

/// Width of the remote keys in CTRL, decided by each side from its provider: `mr_key_size <= 4`
/// gives short keys (protocol 2c.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyWidth {
    /// 32-bit keys.
    Short,
    /// 64-bit keys.
    Long,
}

impl KeyWidth {
    /// Bytes of one key on the wire.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::Short => 4,
            Self::Long => 8,
        }
    }
}

/// Settings of one engine (one domain).
#[derive(Clone, Debug)]
pub struct Config {
    /// Data rails, 1..=[`MAX_RAILS`].
    pub data_rails: u8,
    /// Control rails, 1 or `data_rails` (`OFI_NCCL_RR_CTRL_MSG`).
    pub control_rails: u8,
    /// Names of our control endpoints, the first `control_rails` used.
    pub control_names: [EpName; MAX_RAILS],
    /// Names of our data endpoints, the first `data_rails` used.
    pub data_names: [EpName; MAX_RAILS],
    /// Width of keys in CTRL.
    pub key_width: KeyWidth,
    /// Whether the provider says the length of an incoming write (libfabric 1.17 does not on TCP:
    /// providers 1a).
    pub lengths_told: bool,
    /// Bytes of CQ data that the provider carries; 4 are needed.
    pub cq_data_bytes: usize,
    /// Largest message sent eagerly; `None` turns eager off (`OFI_NCCL_EAGER_MAX_SIZE`).
    pub eager_max: Option<u32>,
    /// Bytes per stripe (`OFI_NCCL_MIN_STRIPE_SIZE`), at least 1 and at least `eager_max`.
    pub min_stripe_bytes: u64,
    /// Messages below use the small round robin (`OFI_NCCL_SCHED_MAX_SMALL_RR_SIZE`).
    pub small_max_bytes: u64,
    /// Bound of connect and of the last step of accept, milliseconds.
    pub connect_timeout_ms: u64,
    /// A communicator without progress for so long is reported; `None`: never.
    pub stall_warn_ms: Option<u64>,
    /// A communicator without progress for so long fails; `None`: never (decision 12).
    pub stall_fail_ms: Option<u64>,
    /// Send CLOSE when a receive communicator closes, and wait for it in the background when a send
    /// communicator closes (`OFI_NCCL_DISABLE_CLOSE_MESSAGE=0`).
    pub close_messages: bool,
    /// Complete a receive that says it is optional with its CTRL (`OFI_NCCL_EARLY_COMPLETION`); needs
    /// eager messages off.
    pub early_completion: bool,
}

/// A setting that cannot work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Rails outside 1..=4.
    #[error(
        "{0} rails asked for: a device has 1 to {MAX_RAILS} (the connection message has that many entries)"
    )]
    Rails(u8),
    /// Control rails neither 1 nor the number of data rails.
    #[error(
        "{control} control rails with {data} data rails: it is 1 or the same number (OFI_NCCL_RR_CTRL_MSG)"
    )]
    ControlRails {
        /// Control rails asked for.
        control: u8,
        /// Data rails.
        data: u8,
    },
    /// Eager messages longer than a stripe (protocol 2g.6).
    #[error(
        "OFI_NCCL_EAGER_MAX_SIZE is {eager}, above OFI_NCCL_MIN_STRIPE_SIZE, {stripe}: an eager message has to fit one stripe; lower the first or raise the second"
    )]
    EagerAboveStripe {
        /// Largest eager message.
        eager: u32,
        /// Bytes per stripe.
        stripe: u64,
    },
    /// Early completion with eager messages: a receiver cannot tell such a message from a write.
    #[error(
        "OFI_NCCL_EARLY_COMPLETION needs OFI_NCCL_EAGER_MAX_SIZE=-1 on all ranks: eager messages are up to {0} bytes here"
    )]
    EarlyWithEager(u32),
    /// A stripe of no bytes.
    #[error("OFI_NCCL_MIN_STRIPE_SIZE is 0: it has to be at least 1")]
    ZeroStripe,
}

impl Config {
    /// What we can do and want, for peers of our own kind.
    pub(crate) const fn capabilities(&self) -> Capabilities {
        let carries = self.cq_data_bytes >= 8;
        let tells = if carries {
            Capabilities::TELLS_LENGTHS
        } else {
            0
        };
        let wants = carries && !self.lengths_told;
        let flags = if wants {
            tells | Capabilities::WANTS_LENGTHS
        } else {
            tells
        };
        Capabilities::new(flags).with_eager(EagerLimit::of(self.eager_max))
    }

    /// Checks the relations between settings.
    ///
    /// # Errors
    /// The first relation that does not hold.
    pub fn check(&self) -> Result<(), ConfigError> {
        let (data, control) = (self.data_rails, self.control_rails);
        if data == 0 || usize::from(data) > MAX_RAILS {
            return Err(ConfigError::Rails(data));
        }
        if control != 1 && control != data {
            return Err(ConfigError::ControlRails { control, data });
        }
        if self.min_stripe_bytes == 0 {
            return Err(ConfigError::ZeroStripe);
        }
        match self.eager_max {
            Some(eager) if self.early_completion => Err(ConfigError::EarlyWithEager(eager)),
            Some(eager) if u64::from(eager) > self.min_stripe_bytes => {
                Err(ConfigError::EagerAboveStripe {
                    eager,
                    stripe: self.min_stripe_bytes,
                })
            }
            _ => Ok(()),
        }
    }
}
