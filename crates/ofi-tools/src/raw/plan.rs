//! What `ofi raw` puts on the wire, and how much of it.

use serde::{Deserialize, Serialize};

/// The operations that make up one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Wire {
    /// `fi_send` of a control message by the receiver, then `fi_writedata` of each stripe: what a
    /// message is whose receive was posted first
    Rendezvous,
    /// `fi_senddata` into a posted buffer, copied out, and a control message: a small message that
    /// came before its receive
    Eager,
    /// `fi_writedata` alone: what nobody can be faster than
    Write,
}

impl Wire {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Rendezvous => "rendezvous",
            Self::Eager => "eager",
            Self::Write => "write",
        }
    }

    /// Whether the receiver tells of each message beforehand.
    pub(crate) const fn has_control(self) -> bool {
        !matches!(self, Self::Write)
    }
}

/// Longest eager message: what a receive buffer of the protocol holds (protocol 2d.2).
pub(crate) const EAGER_MAX: usize = 8192;
