#![doc = include_str!("../README.md")]
//!
//! # Map
//!
//! | module | what |
//! |---|---|
//! | [`bindings`] | structs and enums of the headers, generated once, layouts asserted while compiling |
//! | [`grown`] | structs that grew after 1.17, written by hand, and padding for those still growing |
//! | [`opaque`] | types that are only passed on |
//! | [`consts`], [`errno`] | values that are macros in the headers |
//! | [`Library`], [`LoadError`] | finding and loading libfabric at run time |
//! | [`signals`] | signal handlers kept across a call that may replace them |
//! | [`ops`] | the header's static inline functions: calls through the operation tables |

#![expect(
    clippy::doc_markdown,
    reason = "names of man pages and C constants are plain text here"
)]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[expect(
    missing_docs,
    non_camel_case_types,
    clippy::identity_op,
    clippy::use_self,
    clippy::undocumented_unsafe_blocks,
    clippy::multiple_unsafe_ops_per_block,
    missing_debug_implementations,
    reason = "generated; names and meanings are those of the headers and man pages"
)]
pub mod bindings;
pub mod consts;
pub mod errno;
pub mod grown;
mod library;
mod load_error;
#[expect(non_camel_case_types, reason = "names are those of the headers")]
pub mod opaque;
pub mod ops;
#[cfg_attr(feature = "link", path = "resolve_linked.rs")]
mod resolve;
pub mod signals;

pub use library::{Library, version_of};
pub use load_error::{Attempt, LoadError};
