//! One test binary over a real libfabric: run it against as many versions as there are.
//!
//! `OFI_LIBFABRIC_PATH` names the library (a file, or the directory that holds it); without it the
//! machine's is taken. Each test runs on `tcp` (`net` before 1.18), `tcp;ofi_rxm`, `shm` and the emulated `efa`.
//! A machine without libfabric fails, unless `OFI_TEST_ALLOW_NO_FABRIC=1` has tests say that they
//! are skipped.

mod common;
mod dead_peer;
mod faults;
mod objects;
mod owned;
mod tagged;
mod transfer;
