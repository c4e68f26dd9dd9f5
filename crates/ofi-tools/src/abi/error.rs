//! What can go wrong at the plugin's C edge, said so that the reader knows what to do.

use std::path::{Path, PathBuf};

use thiserror::Error;

use super::logger;

/// The plugin could not be loaded, or its table is not usable.
#[derive(Debug, Error)]
pub(crate) enum AbiError {
    #[error(
        "cannot load {path}: {reason}\n  likely: the file is not there or not readable, or a library it needs is not installed\n  try: {}",
        try_to_find(path)
    )]
    Open { path: PathBuf, reason: String },
    #[error(
        "{path} has no symbol {symbol}: {reason}\n  likely: the plugin exports other versions\n  try: nm -D {path} | grep ncclNetPlugin, then --symbol with one of them"
    )]
    Symbol {
        path: PathBuf,
        symbol: String,
        reason: String,
    },
    #[error(
        "no {family} table has version {version} (symbol {symbol})\n  known: neuron v4 to v6, nvidia v6 to v12\n  try: another --symbol, or --flavor with the other family"
    )]
    Version {
        family: &'static str,
        version: u32,
        symbol: String,
    },
    #[error(
        "the symbol {symbol} does not end in _v and a number\n  try: --symbol ncclNetPlugin_v6"
    )]
    SymbolName { symbol: String },
    #[error(
        "cannot tell from the file name whether {path} is a neuron or an nvidia plugin (both use the same symbol names for different tables)\n  try: --flavor neuron (libnccom-net.so) or --flavor nvidia (libnccl-net-ofi.so)"
    )]
    Flavor { path: PathBuf },
    #[error(
        "the plugin's table has NULL for {field}\n  likely: the table belongs to the other family (--flavor), or the plugin is incomplete"
    )]
    NullEntry { field: &'static str },
    #[error(
        "listen wrote beyond the {room} bytes of the handle: byte {at} changed\n  likely: a plugin that puts a longer handle into the v{version} table"
    )]
    HandleOverrun {
        room: usize,
        at: usize,
        version: u32,
    },
    #[error("{call} succeeded and gave NULL for {what}\n  likely: a fault of the plugin")]
    NullResult {
        call: &'static str,
        what: &'static str,
    },
    #[error(
        "devices() succeeded and counted {count}\n  likely: no network device fits; read the plugin's log with --log info"
    )]
    DeviceCount { count: i32 },
    #[error(transparent)]
    Call(#[from] CallError),
}

/// A call that returned something other than ncclSuccess.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{call} returned {code} ({}): {}{}", name(*code), meaning(*code), reason(*code, logger::shown()))]
pub(crate) struct CallError {
    pub(crate) call: &'static str,
    pub(crate) code: i32,
}

impl CallError {
    /// The code of a call that was not made, since the run is over.
    pub(crate) const STOPPED: i32 = -1;

    /// Success or the error of `call`.
    pub(crate) fn check(call: &'static str, code: i32) -> Result<(), Self> {
        if code == 0 {
            Ok(())
        } else {
            Err(Self { call, code })
        }
    }
}

/// The name of an `ncclResult_t` (protocol 2a.1).
pub(crate) const fn name(code: i32) -> &'static str {
    match code {
        0 => "ncclSuccess",
        1 => "ncclUnhandledCudaError",
        2 => "ncclSystemError",
        3 => "ncclInternalError",
        4 => "ncclInvalidArgument",
        5 => "ncclInvalidUsage",
        6 => "ncclRemoteError",
        7 => "ncclInProgress",
        CallError::STOPPED => "not called",
        _ => "not a code of this interface",
    }
}

const fn meaning(code: i32) -> &'static str {
    match code {
        1 => "the device runtime failed",
        2 => "the system or the network below the plugin failed",
        3 => "the plugin refused or lost its way",
        4 | 5 => "the plugin does not take these arguments; check --symbol and --flavor",
        6 => "the peer failed or went away; look at the other rank first",
        CallError::STOPPED => "the run is over",
        _ => "nothing is known about this code",
    }
}

/// Where the plugin's own reason is to be read, if it alone knows one.
fn reason(code: i32, shown: logger::Shown) -> &'static str {
    match (code, shown) {
        (4..=6 | CallError::STOPPED, _) | (_, logger::Shown::Kept) => "",
        (_, logger::Shown::Warnings) => "; the plugin's reason is above; --log info shows more",
        (_, logger::Shown::Everything) => "; what the plugin logged is above",
        (_, logger::Shown::Nothing) => "; --log info shows what the plugin logs",
    }
}

/// What to try when dlopen(3) refused `path`: a name without a slash is no file of this directory.
fn try_to_find(path: &Path) -> String {
    let shown = path.display();
    if path.as_os_str().as_encoded_bytes().contains(&b'/') {
        format!("ldd {shown}")
    } else {
        format!("a bare name is looked up in LD_LIBRARY_PATH; or give ./{shown}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_error_names_call_code_and_meaning() {
        let e = CallError::check("isend", 2).unwrap_err();
        let text = e.to_string();
        assert!(
            text.starts_with("isend returned 2 (ncclSystemError)"),
            "{text}"
        );
        assert_eq!(CallError::check("isend", 0), Ok(()));
        assert!(
            CallError {
                call: "test",
                code: -7
            }
            .to_string()
            .contains("not a code")
        );
    }

    #[test]
    fn the_plugins_reason_is_said_to_be_where_it_is() {
        use logger::Shown;
        assert!(reason(3, Shown::Warnings).contains("is above; --log info shows more"));
        assert!(!reason(2, Shown::Everything).contains("--log info"));
        assert!(!reason(2, Shown::Nothing).contains("above"));
        assert_eq!(reason(6, Shown::Warnings), "");
        assert_eq!(reason(2, Shown::Kept), "");
    }

    #[test]
    fn ldd_is_advised_for_files_and_the_search_path_for_bare_names() {
        let text = try_to_find(Path::new("libx.so"));
        assert!(
            text.contains("LD_LIBRARY_PATH") && text.ends_with("./libx.so"),
            "{text}"
        );
        assert_eq!(try_to_find(Path::new("./libx.so")), "ldd ./libx.so");
    }
}
