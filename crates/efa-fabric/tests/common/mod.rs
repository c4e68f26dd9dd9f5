//! What the tests share: which library, which providers, a pair of endpoints, polling with a deadline.
#![expect(
    dead_code,
    clippy::print_stderr,
    reason = "each test file uses a part of it; a skipped test is named where people look"
)]

use core::ffi::CStr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use efa_fabric::{Caps, Hints, InfoBuf, Library, MrMode};

mod memory;
mod side;

pub use memory::Block;
pub use side::{Event, Side, accepted, connect, drain_until, wait_for};

/// How long anything may take before a test fails.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// The library under test: OFI_LIBFABRIC_PATH, or the machine's. `None`, after saying so, only where
/// OFI_TEST_ALLOW_NO_FABRIC=1 allows a machine without one.
pub fn library(test: &str) -> Option<&'static Library> {
    let path = std::env::var_os("OFI_LIBFABRIC_PATH").map(PathBuf::from);
    match Library::load(path.as_deref()) {
        Ok(library) => Some(library),
        Err(error) if std::env::var_os("OFI_TEST_ALLOW_NO_FABRIC").is_some_and(|v| v == "1") => {
            eprintln!("skipped: {test}: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// The registration modes that this crate's tests can live with: all that EFA asks for.
pub fn modes() -> MrMode {
    MrMode::LOCAL | MrMode::VIRT_ADDR | MrMode::ALLOCATED | MrMode::PROV_KEY
}

/// The entry of a provider to test with, on the loopback interface where it has one. `None` only
/// where [`library`] gives none. Before 1.18 the TCP provider with RDM endpoints was named `net`.
pub fn info(test: &str, provider: &CStr, mr_mode: MrMode) -> Option<InfoBuf> {
    let library = library(test)?;
    let old = provider == c"tcp" && library.version() < (1, 18);
    let provider = if old { c"net" } else { provider };
    let hints = Hints::rdm(Caps::MSG | Caps::RMA)
        .provider(provider)
        .mr_mode(mr_mode);
    let list = hints.query(library).expect("the provider");
    // 1.17 answers the name of a core provider with its layered forms too.
    let entry = list
        .iter()
        .filter(|info| info.provider_name().as_bytes() == provider.to_bytes())
        .max_by_key(|info| info.domain_name() == "lo");
    Some(
        entry
            .expect("an entry of the provider")
            .dup()
            .expect("memory"),
    )
}

/// Calls `step` until it says true; fails the test after [`DEADLINE`].
pub fn until(what: &str, mut step: impl FnMut() -> bool) {
    let start = Instant::now();
    while !step() {
        assert!(
            start.elapsed() < DEADLINE,
            "gave up after {DEADLINE:?}: {what}"
        );
        std::thread::yield_now();
    }
}

/// Makes one test per provider of functions that take an entry.
#[macro_export]
macro_rules! on_each_provider {
    ($($name:ident)*) => {
        $crate::on_each_provider!(@ tcp, c"tcp", $($name)*);
        $crate::on_each_provider!(@ rxm, c"tcp;ofi_rxm", $($name)*);
        $crate::on_each_provider!(@ shm, c"shm", $($name)*);
    };
    (@ $module:ident, $provider:literal, $($name:ident)*) => {
        mod $module {
            $(#[test]
            fn $name() {
                let test = concat!(stringify!($module), "::", stringify!($name));
                if let Some(info) = $crate::common::info(test, $provider, $crate::common::modes()) {
                    super::$name(&info);
                }
            })*
        }
    };
}
