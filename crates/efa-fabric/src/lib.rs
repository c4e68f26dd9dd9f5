#![doc = include_str!("../README.md")]
//!
//! # Picture
//!
//! ```text
//!   Library -- Hints::query --> InfoList --> Info
//!                                             |
//!                Fabric::open <---------------+
//!                   ^
//!                Domain::open <--- Cq, Av, Mr, Endpoint (each keeps its domain open)
//!                                              |
//!      layer 1:  Endpoint::post_* (unsafe) ----+----> Cq::read_batch --> CqEntry | CompletionError
//!      layer 2:  Port (endpoint + queue + vector) --> Ticket --> Completed { buffer, outcome }
//! ```
//!
//! # Map
//!
//! | module | what |
//! |---|---|
//! | [`Library`], [`Version`] | found and loaded at run time (`ofi-sys`), and which API to ask for |
//! | [`Hints`], [`InfoList`], [`Info`], [`Nic`] | what to ask for, what there is |
//! | [`Fabric`], [`Domain`], [`Av`], [`Cq`], [`Endpoint`], [`Mr`] | the objects; `fid.rs` has the teardown policy |
//! | [`BoolOption`], [`SizeOption`] | endpoint options with their types |
//! | [`post`] | layer 1: unsafe posts with a written contract |
//! | [`CqEntry`], [`TaggedEntry`], [`CompletionError`] | what came of operations |
//! | [`FabricError`], [`Posted`] | what came of calls |
//! | [`owned`] | layer 2: operations that own what they use |

#![expect(
    clippy::doc_markdown,
    reason = "names of man pages and C constants are plain text here"
)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod av;
mod completion;
mod context;
mod cq;
mod domain;
mod endpoint;
mod error;
mod fabric;
mod fid;
mod flags;
mod hints;
mod info;
mod mr;
mod options;
pub mod owned;
pub mod post;
mod version;

pub use av::{ADDRESS_LEN_MAX, Av, PeerAddr};
pub use completion::CompletionError;
pub use context::Context2;
pub use cq::{Cq, CqEntry, CqPoll, Entry, TaggedEntry};
pub use domain::Domain;
pub use endpoint::{Endpoint, EndpointSetup};
pub use error::{CloseFailed, Errno, FabricError, Posted};
pub use fabric::Fabric;
pub use fid::leak_count;
pub use flags::{Access, Caps, CompletionFlags, CqBind, Mode, MrMode, PostFlags};
pub use hints::Hints;
pub use info::{Info, InfoBuf, InfoIter, InfoList, Nic, PciAddress, Progress, Threading};
pub use mr::{Desc, Dmabuf, Memory, Mr, MrRequest};
pub use ofi_sys::{self as sys, Attempt, Library, LoadError, consts};
pub use options::{BoolOption, SizeOption};
pub use owned::{
    Buffer, Completed, Exposed, Incoming, OperationError, Peer, Port, RemoteRegion, SubmitError,
    Submitted, Ticket, Transfer, Unfinished,
};
pub use post::{Sink, Source, TagMatch, Target};
pub use version::Version;
