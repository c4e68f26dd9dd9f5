//! Conversations of one engine with a peer made of bytes, message by message (protocol 2c.10, 2d.8,
//! 2e.12).
#![expect(clippy::unwrap_used, reason = "test code")]

mod bench;
mod close;
mod connect;
mod deadlines;
mod hostile;
mod messages;
mod schedule;
