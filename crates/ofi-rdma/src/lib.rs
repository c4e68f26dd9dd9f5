//! The rendezvous and eager protocol of a collective transport over libfabric, as a pure state
//! machine: no clock (time is an argument), no I/O, no environment, no threads, no logging, no
//! unsafe. The simulator runs the very code that runs in production.
//!
//! # The contract
//!
//! An [`Engine`] is one domain: its rails, its communicators, its requests. It has four kinds of
//! methods:
//!
//! * **getters**, which change nothing;
//! * **inputs**, `on_*`: what a completion queue said ([`Engine::on_remote_write`],
//!   [`Engine::on_control`], [`Engine::on_eager`], [`Engine::on_local`], [`Engine::on_failed`]) and
//!   that time passed ([`Engine::tick`]);
//! * **commands**, verbs: [`Engine::listen`], [`Engine::connect`], [`Engine::isend`],
//!   [`Engine::irecv`], [`Engine::flush`], [`Engine::iwrite`], [`Engine::iread`], [`Engine::test`],
//!   [`Engine::close`];
//! * **outputs**: operations to post ([`Engine::peek_post`], a guard with `commit`; or
//!   [`Engine::pump`], which offers all of them to a [`RailPort`]), receive buffers to post again
//!   ([`Engine::take_released`]), events ([`Engine::poll_event`]).
//!
//! After any input or command, drain the outputs. Every accepted operation owes exactly one
//! [`Engine::on_local`] or [`Engine::on_failed`] with its token.
//!
//! # The data path, one hop a file
//!
//! ```text
//! isend -> window -> plan -> batch  -> RailPort === wire === harvest -> demux -> complete -> test
//!             ^                                                           |
//!             +------- CTRL (address, keys) <------- irecv                +-> eager copy
//! ```
//!
//! # Map, in reading order
//!
//! `port` (the seam to the provider), `config`, `limits`, `error`, `event`, `key`; `wire` (bytes);
//! `dialect` (what changes between generations); `state` (the state machines, as tables); `window`, `request`, `comm`,
//! `comms`, `batch`, `outbox` (state);
//! `engine` (the whole); `connection` (connect, accept, close); `datapath` (isend, irecv, flush,
//! `one_sided`, pump, demux, complete, test); `fail` (who fails, and by what); `stall` (deadlines); `age` (how old
//! requests are); `view` (what can be told of all that);
//! `same` (when two engines are in one state).
//!
//! Not here: memory registration, addresses of peers, buffers, threads: see `ofi-net`.
#![doc = ""]
#![doc = include_str!("../README.md")]
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod age;
mod batch;
#[cfg(feature = "bench-window")]
#[doc(hidden)]
pub mod bench_window;
mod comm;
mod comms;
mod config;
mod connection;
mod counts;
mod datapath;
mod dialect;
mod engine;
mod error;
mod event;
mod fail;
mod key;
pub mod limits;
mod outbox;
mod port;
mod request;
mod same;
mod stall;
mod state;
mod view;
mod window;
pub mod wire;

pub use age::Age;
pub use comm::CommKind;
pub use config::{Config, ConfigError, KeyWidth};
pub use connection::{Adoption, Target};
pub use counts::CommCounters;
pub use datapath::{
    Admission, Done, NotNow, OneSided, Pending, Post, RecvBuf, RxFate, SendBuf, Test,
};
pub use dialect::{Base, Dialect, ImmFields, Tiny};
pub use engine::{CommInfo, Engine};
pub use error::{Error, FailedRequest, Failure, Mismatch, OpKind, Stage, Violation, Why};
pub use event::{Counters, Event, Stray};
pub use key::{CommKey, ReqKey};
pub use port::{
    Cause, EpName, Lane, Outcome, PeerAddr, PutSource, RailPort, Rails, RegionId, Remote, RxId,
    Token, Wire,
};
pub use view::{CommView, RequestKind, RequestView};
pub use wire::host::HostName;
