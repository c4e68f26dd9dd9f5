//! The bit sets of libfabric as types. Bits that this crate has no name for are kept.
//!
//! [`Caps`], [`Mode`] and [`MrMode`] are shown (`Display`) by the names that libfabric's documentation and
//! `fi_info(1)` have for them.

use core::fmt;

use bitflags::{Flags, bitflags};
use ofi_sys::consts as c;

bitflags! {
    /// What an endpoint can do, fi_getinfo(3).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Caps: u64 {
        /// Messages.
        const MSG = c::FI_MSG;
        /// Remote memory access.
        const RMA = c::FI_RMA;
        /// Tagged messages.
        const TAGGED = c::FI_TAGGED;
        /// Atomics.
        const ATOMIC = c::FI_ATOMIC;
        /// May initiate reads.
        const READ = c::FI_READ;
        /// May initiate writes.
        const WRITE = c::FI_WRITE;
        /// May receive.
        const RECV = c::FI_RECV;
        /// May send.
        const SEND = c::FI_SEND;
        /// Peers may read here.
        const REMOTE_READ = c::FI_REMOTE_READ;
        /// Peers may write here.
        const REMOTE_WRITE = c::FI_REMOTE_WRITE;
        /// One receive buffer takes many messages.
        const MULTI_RECV = c::FI_MULTI_RECV;
        /// Device memory.
        const HMEM = c::FI_HMEM;
        /// Peers on this host.
        const LOCAL_COMM = c::FI_LOCAL_COMM;
        /// Peers on other hosts.
        const REMOTE_COMM = c::FI_REMOTE_COMM;
        /// Counters at the target of RMA.
        const RMA_EVENT = c::FI_RMA_EVENT;
        /// Receives tell the source.
        const SOURCE = c::FI_SOURCE;
        /// Receives name the source.
        const DIRECTED_RECV = c::FI_DIRECTED_RECV;
        const _ = !0;
    }

    /// What a provider demands of its user, fi_getinfo(3). [`Context2`](crate::Context2) satisfies
    /// both context modes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Mode: u64 {
        /// 32 bytes of context an operation.
        const CONTEXT = c::FI_CONTEXT;
        /// 64 bytes of context an operation.
        const CONTEXT2 = c::FI_CONTEXT2;
        /// Room before each message (not supported here).
        const MSG_PREFIX = c::FI_MSG_PREFIX;
        /// Immediates of writes consume posted receives.
        const RX_CQ_DATA = c::FI_RX_CQ_DATA;
        const _ = !0;
    }

    /// How memory is registered and addressed, fi_mr(3).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct MrMode: i32 {
        /// The old name for VIRT_ADDR, ALLOCATED and PROV_KEY together.
        const BASIC = 1;
        /// Local buffers need a descriptor.
        const LOCAL = c::FI_MR_LOCAL;
        /// Raw keys (never asked for here).
        const RAW = c::FI_MR_RAW;
        /// Peers address by the owner's virtual address; else by offset in the region.
        const VIRT_ADDR = c::FI_MR_VIRT_ADDR;
        /// Memory must be mapped when it is registered.
        const ALLOCATED = c::FI_MR_ALLOCATED;
        /// The provider chooses keys; else the application does.
        const PROV_KEY = c::FI_MR_PROV_KEY;
        /// Regions must be bound to an endpoint and enabled.
        const ENDPOINT = c::FI_MR_ENDPOINT;
        /// Device memory needs a descriptor.
        const HMEM = c::FI_MR_HMEM;
        const _ = !0;
    }

    /// What a registered region may be used for, fi_mr(3).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Access: u64 {
        /// Local: source of sends.
        const SEND = c::FI_SEND;
        /// Local: buffer of receives.
        const RECV = c::FI_RECV;
        /// Local: sink of reads.
        const READ = c::FI_READ;
        /// Local: source of writes.
        const WRITE = c::FI_WRITE;
        /// Peers may read it.
        const REMOTE_READ = c::FI_REMOTE_READ;
        /// Peers may write it.
        const REMOTE_WRITE = c::FI_REMOTE_WRITE;
        const _ = !0;
    }

    /// What a completion says of its operation, fi_cq(3). Which of them are set differs by provider:
    /// of a write with immediate seen by its target, only REMOTE_WRITE and REMOTE_CQ_DATA are set by
    /// all (TCP before 2.0 leaves RMA out).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct CompletionFlags: u64 {
        /// A message.
        const MSG = c::FI_MSG;
        /// Remote memory access.
        const RMA = c::FI_RMA;
        /// A tagged message.
        const TAGGED = c::FI_TAGGED;
        /// A read that this side initiated.
        const READ = c::FI_READ;
        /// A write that this side initiated.
        const WRITE = c::FI_WRITE;
        /// A receive.
        const RECV = c::FI_RECV;
        /// A send.
        const SEND = c::FI_SEND;
        /// A peer read memory here.
        const REMOTE_READ = c::FI_REMOTE_READ;
        /// A peer wrote memory here.
        const REMOTE_WRITE = c::FI_REMOTE_WRITE;
        /// The data word is valid.
        const REMOTE_CQ_DATA = c::FI_REMOTE_CQ_DATA;
        /// A multi-receive buffer is released.
        const MULTI_RECV = c::FI_MULTI_RECV;
        const _ = !0;
    }

    /// Flags of one operation, for the posts that take them; fi_msg(3), fi_rma(3).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct PostFlags: u64 {
        /// More posts follow at once on this endpoint. Only a hint; must be followed by one without.
        const MORE = c::FI_MORE;
        /// Report a completion.
        const COMPLETION = c::FI_COMPLETION;
        /// The buffer is free on return; at most the inject size.
        const INJECT = c::FI_INJECT;
        /// The data word goes along.
        const REMOTE_CQ_DATA = c::FI_REMOTE_CQ_DATA;
        /// Complete when the buffer is free.
        const INJECT_COMPLETE = c::FI_INJECT_COMPLETE;
        /// Complete when the peer has it.
        const TRANSMIT_COMPLETE = c::FI_TRANSMIT_COMPLETE;
        /// Complete when it is placed in the peer's memory.
        const DELIVERY_COMPLETE = c::FI_DELIVERY_COMPLETE;
        /// After earlier operations to the same peer.
        const FENCE = c::FI_FENCE;
        const _ = !0;
    }

    /// Which of an endpoint's completions go to a queue.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct CqBind: u64 {
        /// Sends, reads and writes initiated here.
        const TRANSMIT = c::FI_SEND;
        /// Receives, and immediates of incoming writes.
        const RECV = c::FI_RECV;
        /// Only operations posted with [`PostFlags::COMPLETION`] report success.
        const SELECTIVE = c::FI_SELECTIVE_COMPLETION;
    }
}

/// Libfabric's names of what is set, with `|` between; what has none here as a number, and nothing as 0.
fn show<B: Flags<Bits: fmt::LowerHex>>(
    set: &B,
    prefix: &str,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let mut names = set.iter_names();
    let mut between = "";
    for (name, _) in names.by_ref() {
        write!(f, "{between}{prefix}{name}")?;
        between = "|";
    }
    let rest = names.remaining();
    if rest.is_empty() && !between.is_empty() {
        return Ok(());
    }
    if rest.is_empty() {
        return f.write_str("0");
    }
    write!(f, "{between}{:#x}", rest.bits())
}

impl fmt::Display for Caps {
    /// `FI_MSG|FI_RMA`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(self, "FI_", f)
    }
}

impl fmt::Display for Mode {
    /// `FI_CONTEXT|FI_CONTEXT2`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(self, "FI_", f)
    }
}

impl fmt::Display for MrMode {
    /// `FI_MR_VIRT_ADDR|FI_MR_PROV_KEY`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(self, "FI_MR_", f)
    }
}

#[cfg(test)]
mod tests {
    use super::{Caps, Mode, MrMode};

    #[test]
    fn bits_are_shown_by_libfabrics_names() {
        let caps = Caps::MSG | Caps::RMA | Caps::HMEM | Caps::LOCAL_COMM;
        assert_eq!(caps.to_string(), "FI_MSG|FI_RMA|FI_HMEM|FI_LOCAL_COMM");
        assert_eq!(Caps::empty().to_string(), "0");
        let unknown = Caps::TAGGED | Caps::from_bits_retain(1 << 41);
        assert_eq!(unknown.to_string(), "FI_TAGGED|0x20000000000");
        assert_eq!(Mode::MSG_PREFIX.to_string(), "FI_MSG_PREFIX");
        let modes = MrMode::BASIC | MrMode::ENDPOINT;
        assert_eq!(modes.to_string(), "FI_MR_BASIC|FI_MR_ENDPOINT");
        assert_eq!(MrMode::from_bits_retain(1 << 20).to_string(), "0x100000");
    }
}
