//! What an engine is made from: typed, checked once.

use ofi_rdma::EpName;

use crate::tag::TagSpace;

/// Settings of one engine (one endpoint).
#[derive(Clone, Debug)]
pub struct Config {
    /// Name of our endpoint, as the connect message carries it.
    pub name: EpName,
    /// The tags that the provider carries.
    pub tags: TagSpace,
    /// Longest message of the provider; longer ones are refused.
    pub message_bytes_max: u64,
    /// Bound of connect, milliseconds.
    pub connect_timeout_ms: u64,
    /// A communicator without progress for so long is reported; `None`: never.
    pub stall_warn_ms: Option<u64>,
    /// A communicator without progress for so long fails; `None`: never (decision 12).
    pub stall_fail_ms: Option<u64>,
}

/// A setting that cannot work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The provider's tags are too short.
    #[error(
        "the provider carries tags of {0} bits, and {min} are needed: 32 for the number of a listener and one for connect messages",
        min = crate::limits::TAG_BITS_MIN
    )]
    TagBits(u32),
}
