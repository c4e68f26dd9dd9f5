//! The counters of a process, as they stand in a file that it maps (`OFI_NCCL_STATS_DIR`): where each is, and
//! how any bytes are read.
//!
//! ```text
//! word 0            64                      64 + 64 * 208             + 512 * 24
//!      | head, totals | rails (one a NIC)     | communicators           | end
//! ```
//!
//! A file is words of 64 bits, little-endian; each is written and read whole, so a reader sees no half of a
//! number. Totals and rails only grow. The slot of a communicator is used again: its first word and its
//! last one are its generation, written last and first, so that a reader who finds two different ones has
//! caught a change and leaves it out. Writing and reading want no lock.
//!
//! `layout` (where), `possible` (what words can be), `read` (any bytes to a [`Snapshot`]).

mod layout;
mod possible;
mod read;

pub use layout::{
    COMM_WORDS, COMMS_MAX, CommAt, FILE_WORDS, HEAD_WORDS, HW_MAX, HW_WORDS, HeadAt, MAGIC,
    RAIL_WORDS, RAILS_MAX, RailAt, State, Total, VERSION, comm_word, hw_word, rail_word,
    text_words, total_word,
};
pub use read::{Comm, Hw, Rail, Side, Snapshot, StatsError};
