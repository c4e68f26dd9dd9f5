//! The SENDRECV protocol of a collective transport over libfabric's tagged messages, as a pure state
//! machine: no clock (time is an argument), no I/O, no environment, no threads, no logging, no unsafe.
//!
//! # The contract
//!
//! An [`Engine`] is one endpoint: its communicators, its requests. It has four kinds of methods, like
//! that of `ofi-rdma`, whose words it uses (keys, names, causes, failures, events):
//!
//! * **getters**, which change nothing;
//! * **inputs**, `on_*`: what the completion queue said ([`Engine::on_local`], [`Engine::on_connect`],
//!   [`Engine::on_truncated`], [`Engine::on_failed`]) and that time passed ([`Engine::tick`]);
//! * **commands**, verbs: [`Engine::listen`], [`Engine::connect`], [`Engine::isend`],
//!   [`Engine::irecv`], [`Engine::flush`], [`Engine::test`], [`Engine::close`];
//! * **outputs**: operations to post ([`Engine::peek_post`], a guard with `commit`), receives to cancel
//!   ([`Engine::take_cancel`]), or both by [`Engine::pump`]; events ([`Engine::poll_event`]).
//!
//! After any input or command, drain the outputs. Every accepted operation owes exactly one of the
//! inputs with its token, also when it was cancelled.
//!
//! ```text
//!  sender                                    receiver
//!  connect: fi_tsend(control | tag) -------> fi_trecv(control | tag), posted by listen
//!  isend:   fi_tsend(tag)           -------> fi_trecv(tag): irecv
//! ```
//!
//! # Map, in reading order
//!
//! `port` (the seam to the provider), `config`, `limits`, `error`; `tag`, `wire` (tags and bytes);
//! `state` (the state machines, as tables); `comm`, `token`, `outbox` (state); `engine` (the whole);
//! `connection` (listen, connect, accept, close); `message` (isend, irecv, flush, test), `pump`,
//! `complete`; `stall` (deadlines); `view` (what can be told of all that).
//!
//! Not here: memory registration, addresses of peers, buffers, threads: see `ofi-net`.
#![doc = ""]
#![doc = include_str!("../README.md")]
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod comm;
mod complete;
mod config;
mod connection;
mod engine;
mod error;
pub mod limits;
mod message;
mod outbox;
mod port;
mod pump;
mod stall;
mod state;
mod tag;
mod token;
mod view;
pub mod wire;

pub use complete::Rest;
pub use config::{Config, ConfigError};
pub use connection::Target;
pub use engine::Engine;
pub use error::Error;
pub use port::{Buffer, Post, TagPort, Wire};
pub use pump::Pending;
pub use tag::TagSpace;
pub use token::Op;
