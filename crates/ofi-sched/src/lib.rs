//! Which rails carry a message, and which part of it each: schedules on the stack.
//!
//! A device of several NICs (*rails*) sends a large message as equal *stripes*, one a rail, and
//! rotates small ones over the rails. This crate decides that, and nothing else: [`Threshold`] is
//! the policy of the BASE generation (protocol 2g.6), [`Plan`] its answer, 24 bytes that live in
//! registers and are walked without a division.
//!
//! Not here: when to send eagerly, posting, keys and addresses, what a rail is.
//!
//! ```text
//!            len, rails                          Plan: stripe k on rail (first + k) mod rails
//!                |                               +---------------+---------------+--------+
//!   len < small_max ?                            | stripe 0      | stripe 1      | 2      |
//!     yes: one stripe, small counter + 1   --->  +---------------+---------------+--------+
//!     no:  n = ceil(len / min_stripe),           0               128 B aligned            len
//!          capped and lowered by a table,
//!          large counter + n
//! ```
//!
//! Module map, in reading order: `rails` (how many), `plan` (the answer), `policy` (the seam),
//! `threshold` (the policy of BASE), `divide` (ceil(x / n) for n up to 16 by multiplication).
#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod divide;
mod plan;
mod policy;
mod rails;
mod threshold;

pub use plan::{Plan, STRIPE_ALIGN, Stripe, Stripes};
pub use policy::{Policy, SingleRail};
pub use rails::{MAX_RAILS, RailCount};
pub use threshold::{Config, ConfigError, Threshold};

/// The README's example, run as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
