#![doc = include_str!("../README.md")]
//!
//! # Map
//!
//! `record` (what is kept, and its bytes), `ring` (the last of them, in memory), `header` (the head of a file), `reader`
//! (hostile bytes in, records out), `bytes` (fields in a fixed order), `address` (names of endpoints for people);
//! [`stats`]: the file of counters.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod address;
mod bytes;
mod header;
mod reader;
mod record;
mod ring;
pub mod stats;

pub use address::show_address;
pub use header::{HEADER_BYTES, Header};
pub use reader::{Reader, TraceError};
pub use record::{Lane, Op, Outcome, RECORD_BYTES_MAX, Record, Stamped};
pub use ring::Ring;
