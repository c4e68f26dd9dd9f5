#![doc = include_str!("../README.md")]
//!
//! # Map, in reading order
//!
//! [`Board`] and [`Group`] (what a benchmark calls), `settings` (how long, and where to), `sample` (times and
//! ratios), `record` (the file), [`threads`] (contention), [`cold`] (an empty cache), [`random`] (indices).
#![forbid(unsafe_code)]

mod board;
pub mod cold;
pub mod random;
mod record;
mod sample;
mod settings;
pub mod threads;

pub use board::{Board, Group, time};
