#![doc = include_str!("../README.md")]
//!
//! # Picture
//!
//! ```text
//! Transport
//!  +- Device 0 (a group of NICs)
//!  |   +- Domain: lock { Engine, Port, completion queues }
//!  |       +- rail 0: fi_fabric, fi_domain, CQ, data endpoint, control endpoint
//!  |       +- rail 1: ...
//!  +- Device 1 ...
//!
//! isend -> engine -> pump -> Port::post -> libfabric ~~~ wire ~~~> CQ -> harvest -> engine -> test
//! ```
//!
//! # Map, in reading order
//!
//! | module | what |
//! |---|---|
//! | `transport` | the API that the plugins are skins of |
//! | `device`, `registry`, `owners`, `peer_sets` | a device, its domains by number, those of threads, those of peers |
//! | `traffic`, `twins` | traffic classes; regions used with a domain that they are not of |
//! | `domain`, `open` | rails with one engine over them behind a lock; how rails are opened |
//! | `locked` | what the domains of both protocols are: a core behind a lock, memory, the log |
//! | `progress` | one pass: harvest, demultiplex, pump, refill |
//! | `rail` | one engine operation to one libfabric call |
//! | `rx` | receive buffers: how many are posted where |
//! | `contexts` | from a completion's context back to the operation |
//! | `peers` | address vectors, each name once |
//! | `domain_memory`, `cached` | the caller's memory in a domain; found again |
//! | `stretch`, `region`, `regions`, `slab`, `pages` | memory: to register, registered, numbered, our own, mapped |
//! | `gpu`, `cuda`, `dmabuf` | memory of devices: within reach or not, of which device, by dma-buf |
//! | `handle_words`, `handle_state` | the words callers hold; the state bytes of a connection handle |
//! | `protocol`, `sendrecv` | which protocol; the one on tagged messages, over the same parts |
//! | `efa`, `quirks` | what one provider, or an old libfabric, needs |
//! | `early` | whether a receive may complete before its data |
//! | `sync`, `fork`, `thread`, `clock` | the domain's lock, knowing a forked child, and a thread that ended, time |
//! | [`params`], [`config`], `platform`, [`select`] | settings, instance types, which NICs |
//! | `topology`, [`properties`], `startup` | which NICs make a device, what is told of it, what finding out cost |
//! | [`error`], [`log`], `report` | coded errors, the log's seam, events to lines |
//! | [`shared`] | files in directories that others can write to as well |
//! | `stats` | what is counted, into a file that others can watch |
//! | `trace` | what went over each rail: into a file, the last of it into dumps |
//! | `pace`, `watch`, `lost`, [`dump`] | who polls and who was away; when state dumps are due; connections that were not made; what dumps say |
//!
//! Not here: the C ABI (`plugin/`), the protocol (`ofi-rdma`), libfabric's types (`efa-fabric`).

#![cfg_attr(docsrs, feature(doc_cfg))]

mod cached;
mod clock;
pub mod config;
mod connecting;
mod contexts;
mod cuda;
mod deaf;
mod device;
mod dmabuf;
mod domain;
mod domain_memory;
pub mod dump;
mod early;
mod efa;
pub mod error;
mod expected;
mod fork;
mod gpu;
mod handle_state;
mod handle_words;
mod host_id;
#[cfg(all(test, loom))]
mod interleavings;
mod locked;
pub mod log;
mod lost;
mod open;
mod owners;
mod pace;
mod pages;
pub mod params;
mod peer_sets;
mod peers;
mod platform;
mod progress;
pub mod properties;
mod protocol;
mod quirks;
mod rail;
mod region;
mod regions;
mod registry;
mod report;
mod rx;
pub mod select;
mod sendrecv;
pub mod shared;
mod slab;
mod startup;
mod stats;
mod stretch;
mod sync;
mod teardown;
mod thread;
mod topology;
mod trace;
mod traffic;
mod transport;
mod twins;
mod waits;
mod watch;

pub use config::{Config, DumpConfig, Protocol};
pub use error::{Code, NetError};
pub use expected::Expected;
pub use handle_words::{CommWord, MrWord, ReqWord};
pub use host_id::hash as host_hash;
pub use platform::{accelerators as instance_accelerators, nics as instance_nics};
pub use properties::Properties;
pub use select::{admits as filter_admits, shm_bytes};
pub use startup::Startup;
pub use stretch::{DmaBuf, MemoryKind};
pub use trace::TraceConfig;
pub use traffic::TrafficClass;
pub use transport::{LocalMemory, RemoteMemory, Transport};
pub use watch::start_ticks;

#[doc(inline)]
pub use ofi_topo::Accelerators;

#[doc(inline)]
pub use ofi_rdma::{CommCounters, CommInfo, Counters, Done, Rails};
