#![doc = include_str!("../README.md")]
//!
//! # Map, in reading order
//!
//! ```text
//! key       Key: slot number + generation, the handle of everything here
//! table     Table<T>: values under checked handles
//! idpool    IdPool: dense numbers for the wire, which rest before they are used again
//! freelist  Freelist<B>: equal buffers carved from blocks that the caller registers
//! mr        MrCache<R>: which region covers this range? SharedMrCache: the same for threads
//! sync      the one door to locks, so that loom can model them
//! ```
//!
//! # What is not here
//!
//! No I/O, no clock, no environment, no thread, no libfabric, no `unsafe`. Addresses are numbers.

#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

pub mod freelist;
pub mod idpool;
pub mod key;
pub mod mr;
#[cfg(feature = "std")]
mod sync;
pub mod table;

pub use freelist::{Block, BlockSource, Freelist, FreelistConfig, Place, Slot};
pub use idpool::{Id, IdError, IdPool};
pub use key::Key;
pub use mr::{Handle, Lookup, MrCache, Released, Request};
#[cfg(feature = "std")]
pub use mr::{Registrar, SharedMrCache};
pub use table::{CacheLine, Full, Occupied, Table, Vacant};
