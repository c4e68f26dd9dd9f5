//! Every bound of the engine, in one place.

pub use ofi_rdma::limits::{EP_NAME_BYTES, EVENTS_MAX, FLUSHES_MAX, MESSAGE_BYTES_MAX};

/// Messages of one communicator not taken by `test` (protocol 2a.2: `NCCL_NET_MAX_REQUESTS`).
pub const INFLIGHT_MAX: u16 = 128;

/// Bytes of the connect message (protocol 2c.10).
pub const CONNECT_BYTES: usize = 80;

/// Bytes of the buffer that a connect message is awaited in: more than it has, so that a message of
/// another generation (160 bytes from release 1.16 on, protocol 1.2) is told by its length instead of
/// failing the receive.
pub const CONNECT_BUFFER_BYTES: usize = 256;

/// Bits of a tag that the provider has to carry: 32 for the number in the handle, one that marks
/// connect messages (protocol 2c.10).
pub const TAG_BITS_MIN: u32 = 33;

/// The first number given to a listener. A handle does not say which protocol it is of, and where RDMA has
/// the id of a listener there is none from here on (protocol 2c.1: 2^18): an RDMA sender, of ours or of the
/// reference's, refuses such a handle at once instead of waiting for an answer. The reference counts from
/// 1, so that a smaller number is that of its listener or of an RDMA one.
pub const FIRST_TAG: u32 = 1 << 18;

/// Bytes that a flush reads and reports (protocol 2e.12, 2l).
pub const FLUSH_BYTES: u64 = 4;

/// Posts tried in one pump after which it gives up because the provider says EAGAIN to each of so
/// many different communicators: one dead peer must not block the others.
pub const BUSY_TRIES: usize = 4;

const _: () = assert!(CONNECT_BYTES < CONNECT_BUFFER_BYTES);
const _: () = assert!(FLUSHES_MAX >= INFLIGHT_MAX, "a flush a message");
