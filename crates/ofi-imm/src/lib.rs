//! The immediate word of collective transports over libfabric.
//!
//! A write with remote CQ data (`fi_writedata`) carries one small integer to the target's
//! completion queue. A collective transport packs into it which communicator, which message and
//! how many segments; the target decides from that word alone to whom a completion belongs. This
//! crate is that word: bounded field types, layouts whose widths are checked at compile time,
//! total decoding, serial-number arithmetic, and conversions that say what a provider with
//! narrower CQ data would cut off.
//!
//! Not here: byte order on the wire (the provider's concern: CQ data is a host-order value),
//! messages other than the immediate, tables of communicators.
//!
//! ```text
//!  31  28 27                            10 9              0
//! +------+--------------------------------+----------------+
//! | nseg |            comm_id             |      seq       |   Nseg4Comm18Seq10
//! +------+------+-------------------------+----------------+
//! | nseg | recv |         comm_id         |      seq       |   Nseg4Recv3Comm15Seq10
//! +------+------+-------------------------+----------------+
//!  63                28 27             10 9               0
//! +--------------------+-----------------+----------------+
//! |        rkey        |     comm_id     |      seq       |   Rkey36Comm18Seq10
//! +--------------------+-----------------+----------------+
//! ```
//!
//! Module map, in reading order: `field` (bounded integers), `seq` (numbers that wrap), `shape`
//! (the description of a layout), `layout` (the trait and the three families), `cq_data` (between
//! a word and the provider's `u64`).
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod cq_data;
mod field;
mod layout;
mod seq;
mod shape;

pub use cq_data::CqDataError;
pub use field::{CommId, Id, Idx, Key, RecvIdx, Rkey36, SegCount, Segs};
pub use layout::Layout;
pub use layout::nseg_comm_seq::{Fields, Nseg4Comm18Seq10, NsegCommSeq, NsegCommSeqFields};
pub use layout::nseg_recv_comm_seq::{
    Nseg4Recv3Comm15Seq10, NsegRecvCommSeq, NsegRecvCommSeqFields,
};
pub use layout::rkey_comm_seq::{Rkey36Comm18Seq10, RkeyCommSeq, RkeyCommSeqFields};
pub use seq::{Seq, SerialSeq};
pub use shape::{Part, Shape};

/// The README's example, run as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
