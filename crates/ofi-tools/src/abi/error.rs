//! What can go wrong at the plugin's C edge, said so that the reader knows what to do.

use std::path::PathBuf;

use thiserror::Error;

/// The plugin could not be loaded, or its table is not usable.
#[derive(Debug, Error)]
pub(crate) enum AbiError {
    #[error(
        "cannot load {path}: {reason}\n  likely: the file is not there or not readable, or a library it needs is not installed\n  try: ldd {path}"
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
#[error("{call} returned {code} ({}): {}", name(*code), meaning(*code))]
pub(crate) struct CallError {
    pub(crate) call: &'static str,
    pub(crate) code: i32,
}

impl CallError {
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
        _ => "not a code of this interface",
    }
}

const fn meaning(code: i32) -> &'static str {
    match code {
        1 => "the device runtime failed; --log info shows the plugin's reason",
        2 => {
            "the system or the network below the plugin failed; --log info shows the plugin's reason"
        }
        3 => "the plugin refused or lost its way; --log info shows its reason",
        4 | 5 => "the plugin does not take these arguments; check --symbol and --flavor",
        6 => "the peer failed or went away; look at the other rank first",
        _ => "nothing is known about this code; --log info may show a reason",
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
}
