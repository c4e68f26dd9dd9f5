//! `ofi perf` as its users run it: processes, a plugin written in C, exit status and output.
#![expect(clippy::unwrap_used, reason = "test code")]

mod common;
mod faults;
mod joined;
mod verified;
