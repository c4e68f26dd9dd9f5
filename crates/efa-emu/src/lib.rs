#![doc = include_str!("../README.md")]
//!
//! # Map
//!
//! | module | what |
//! |---|---|
//! | [`plan`] | what goes wrong, and when: from one seed and a small script |
//! | [`shape`] | NICs of real instances |
//! | [`stats`] | what happened, for tests to read |

pub mod plan;
pub mod shape;
pub mod stats;
