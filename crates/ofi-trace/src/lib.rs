#![doc = include_str!("../README.md")]
//!
//! # Map
//!
//! `record` (what is kept, and its bytes), `header` (the head of a file), `reader` (hostile bytes in,
//! records out), `bytes` (fields in a fixed order).
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod bytes;
mod header;
mod reader;
mod record;

pub use header::{HEADER_BYTES, Header};
pub use reader::{Reader, TraceError};
pub use record::{Lane, Op, Outcome, RECORD_BYTES_MAX, Record, Stamped};
