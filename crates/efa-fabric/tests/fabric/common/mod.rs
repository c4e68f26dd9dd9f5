//! What the tests share: which library, which providers, a pair of endpoints, polling with a deadline.
#![expect(
    clippy::print_stderr,
    reason = "a skipped test is named where people look"
)]

use core::ffi::CStr;
use core::time::Duration;
use std::path::PathBuf;
use std::sync::Once;
use std::time::Instant;

use efa_fabric::{Caps, Hints, InfoBuf, Library, MrMode, consts};

mod memory;
mod side;

pub(crate) use memory::Block;
pub(crate) use side::{Event, Side, accepted, connect, drain_until, wait_for};

/// How long anything may take before a test fails.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// The library under test. `None`, after saying so, only where the environment allows it.
pub(crate) fn library(test: &str) -> Option<&'static Library> {
    let path = std::env::var_os("OFI_LIBFABRIC_PATH").map(PathBuf::from);
    show_emulated_efa();
    match Library::load(path.as_deref()) {
        Ok(library) => Some(library),
        Err(error) if std::env::var_os("OFI_TEST_ALLOW_NO_FABRIC").is_some_and(|v| v == "1") => {
            eprintln!("skipped: {test}: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Lets libfabric find the emulated EFA, which is built beside the tests.
fn show_emulated_efa() {
    static SHOWN: Once = Once::new();
    SHOWN.call_once(|| {
        let tests = std::env::current_exe().expect("this binary");
        let dir = tests.parent().expect("its directory");
        assert!(dir.join("libefa_emu_fi.so").exists(), "{}", dir.display());
        // SAFETY: libfabric, the only C code here that reads the environment, is loaded after; Rust's
        // own readers are serialized.
        unsafe { std::env::set_var("FI_PROVIDER_PATH", dir) };
    });
}

/// The registration modes that this crate's tests can live with: all that EFA asks for.
pub(crate) fn modes() -> MrMode {
    MrMode::LOCAL | MrMode::VIRT_ADDR | MrMode::ALLOCATED | MrMode::PROV_KEY
}

/// The entry of a provider to test with, on the loopback interface where it has one. `None` only
/// where [`library`] gives none. Before 1.18 the TCP provider with RDM endpoints was named `net`.
pub(crate) fn info(test: &str, provider: &CStr, mr_mode: MrMode) -> Option<InfoBuf> {
    entry(
        test,
        provider,
        Hints::rdm(Caps::MSG | Caps::RMA).mr_mode(mr_mode),
    )
}

/// [`info`] with all the registration modes there are.
pub(crate) fn plain_info(test: &str, provider: &CStr) -> Option<InfoBuf> {
    info(test, provider, modes())
}

/// As [`plain_info`], with tagged messages in order.
pub(crate) fn tagged_info(test: &str, provider: &CStr) -> Option<InfoBuf> {
    let hints = Hints::rdm(Caps::TAGGED | Caps::MSG | Caps::RMA)
        .msg_order(consts::FI_ORDER_SAS)
        .mr_mode(modes());
    entry(test, provider, hints)
}

fn entry(test: &str, provider: &CStr, hints: Hints) -> Option<InfoBuf> {
    let library = library(test)?;
    let old = provider == c"tcp" && library.version() < (1, 18);
    let provider = if old { c"net" } else { provider };
    let list = hints
        .provider(provider)
        .query(library)
        .expect("the provider");
    // 1.17 answers the name of a core provider with its layered forms too.
    // EFA's other fabric has tests of its own, in efa-emu.
    let entries = || {
        list.iter().filter(|info| {
            info.provider_name().as_bytes() == provider.to_bytes()
                && info.fabric_name() != "efa-direct"
        })
    };
    let entry = entries()
        .find(|info| info.domain_name() == "lo")
        .or_else(|| entries().next());
    Some(
        entry
            .expect("an entry of the provider")
            .dup()
            .expect("memory"),
    )
}

/// Calls `step` until it says true; fails the test after [`DEADLINE`].
pub(crate) fn until(what: &str, mut step: impl FnMut() -> bool) {
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
macro_rules! on_each_provider {
    (tagged: $($name:ident)*) => {
        on_each_provider!(@@ tagged_info, $($name)*);
    };
    (@@ $info:ident, $($name:ident)*) => {
        on_each_provider!(@ tcp, c"tcp", $info, $($name)*);
        on_each_provider!(@ rxm, c"tcp;ofi_rxm", $info, $($name)*);
        on_each_provider!(@ shm, c"shm", $info, $($name)*);
        on_each_provider!(@ efa, c"efa", $info, $($name)*);
    };
    (@ $module:ident, $provider:literal, $info:ident, $($name:ident)*) => {
        mod $module {
            $(#[test]
            fn $name() {
                let test = concat!(stringify!($module), "::", stringify!($name));
                if let Some(info) = $crate::common::$info(test, $provider) {
                    super::$name(&info);
                }
            })*
        }
    };
    ($($name:ident)*) => {
        on_each_provider!(@@ plain_info, $($name)*);
    };
}

pub(crate) use on_each_provider;
