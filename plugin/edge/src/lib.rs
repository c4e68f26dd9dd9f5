#![doc = include_str!("../README.md")]
//!
//! # Map, in reading order
//!
//! | module | what |
//! |---|---|
//! | [`abi`] | result codes, memory types, the logger's type |
//! | [`translate`] | errors to result codes |
//! | [`guard()`] | the boundary of every entry: no panic leaves, an error is logged once |
//! | `pointer` | NULL checks; words carried in pointers; the caller's handle memory |
//! | `logger`, `env`, `strings` | the caller's logger; the environment; strings nobody frees |
//! | `topo_file` | what NCCL is told of devices with several NICs |
//! | `instance`, `unload` | the one transport of the process; the finaliser of old tables |
//! | [`life`], [`connection`], [`memory`], [`data`], [`one_sided`] | what entry points do, over all tables |
//! | [`context`], [`profiler`] | what only NCCL has: a transport shared by contexts, events of requests |
//! | [`sig`], [`entries`] | the C function types and the entry points that both families share |

pub mod abi;
pub mod connection;
pub mod context;
pub mod data;
pub mod entries;
mod env;
mod guard;
mod instance;
pub mod life;
mod logger;
pub mod memory;
pub mod one_sided;
mod pointer;
pub mod profiler;
pub mod sig;
mod strings;
mod topo_file;
pub mod translate;
mod unload;

pub use guard::guard;
#[cfg(feature = "panic-probe")]
pub use guard::probe;
pub use logger::CLogger;
pub use ofi_net::RemoteMemory;
pub use pointer::Out;
pub use translate::Fail;
