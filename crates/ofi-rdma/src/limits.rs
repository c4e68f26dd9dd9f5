//! Every bound of the engine, in one place, with the relations between them checked at compile time.

/// Rails of one device: the connection message has four entries for endpoint names (protocol 2c.3).
pub const MAX_RAILS: usize = 4;

/// Bytes of an endpoint name on the wire (protocol 2b, 2c.3).
pub const EP_NAME_BYTES: usize = 56;

/// Bytes of CONN and `CONN_RESP` (protocol 2c.3).
pub const CONN_BYTES: usize = 528;

/// Bytes of the longest CTRL: four rails, 64-bit keys (protocol 2c.4).
pub const CTRL_BYTES_MAX: usize = 48;

/// Bytes of CLOSE (protocol 2c.5).
pub const CLOSE_BYTES: usize = 24;

/// A control receive buffer has to hold any control message.
pub const CONTROL_BUFFER_BYTES: usize = CONN_BYTES;

/// Longest message a communicator carries: CTRL has 32 bits for the length (protocol 2e.6), and the
/// plugin tables report sizes as `int`.
pub const MESSAGE_BYTES_MAX: u64 = i32::MAX as u64;

/// Flushes of one communicator not taken by `test`: they have slots of their own beyond the cap of
/// messages, because a flush is never answered "not now" (decision 10).
pub const FLUSHES_MAX: u16 = 1024;

/// Bytes that a flush reads on each rail (protocol 2e.7).
pub const FLUSH_BYTES: u32 = 4;

/// Freed communicator ids that rest before one of them is used again (decision 14).
pub const ID_QUARANTINE: usize = 1024;

/// Typed events kept until somebody polls them; older ones stay, newer ones are counted as lost.
pub const EVENTS_MAX: usize = 256;

/// Posts that a pump tries on one lane before it gives up because the provider says EAGAIN to each
/// of so many different communicators: one dead peer must not block the others, and a full send
/// queue must not cost a try for every communicator.
pub const BUSY_TRIES_PER_LANE: usize = 4;

const _: () = assert!(CTRL_BYTES_MAX <= CONTROL_BUFFER_BYTES);
const _: () = assert!(CLOSE_BYTES <= CONTROL_BUFFER_BYTES);
const _: () = assert!(
    MAX_RAILS <= 15,
    "the segment count of an immediate has four bits"
);
