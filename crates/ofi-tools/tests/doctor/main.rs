//! `ofi doctor` against hosts that are described in text files, each broken in one way.
#![expect(clippy::unwrap_used, reason = "test code")]

mod elf;
mod fixture;
mod hosts;
mod live;
mod users;
