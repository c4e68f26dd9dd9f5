//! dlopen and dlsym, as a collectives library calls them (`RTLD_NOW | RTLD_LOCAL`).

use core::ffi::{CStr, c_char, c_void};
use core::ptr::NonNull;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::error::AbiError;

/// The address of `symbol` in the library at `path`.
///
/// The library is never closed: its table, its strings and its exit handlers are used until the
/// process ends.
pub(crate) fn table_address(path: &Path, symbol: &str) -> Result<NonNull<c_void>, AbiError> {
    let open_failed = |reason: String| AbiError::Open {
        path: path.to_owned(),
        reason,
    };
    let file = CString::new(path.as_os_str().as_bytes())
        .map_err(|_| open_failed("the path contains a NUL byte".to_owned()))?;
    // SAFETY: dlopen(3): `file` is a NUL-terminated string that outlives the call. The initialisers
    // of the library run; that they may is what loading a plugin means.
    let library = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if library.is_null() {
        return Err(open_failed(last_error()));
    }
    let symbol_failed = |reason: String| AbiError::Symbol {
        path: path.to_owned(),
        symbol: symbol.to_owned(),
        reason,
    };
    let name = CString::new(symbol)
        .map_err(|_| symbol_failed("the name contains a NUL byte".to_owned()))?;
    // SAFETY: dlsym(3): `library` came from dlopen and is never closed; `name` is NUL-terminated.
    let address = unsafe { libc::dlsym(library, name.as_ptr()) };
    NonNull::new(address).ok_or_else(|| symbol_failed(last_error()))
}

fn last_error() -> String {
    // SAFETY: dlerror(3) takes no argument and gives NULL or a string valid until the next call of
    // a dl function by this thread; it is copied below before any.
    let text = unsafe { libc::dlerror() };
    text_at(text).unwrap_or_else(|| "no reason given".to_owned())
}

/// A copy of the C string at `text`; None for NULL.
///
/// For pointers that come out of the plugin (names, paths) or the C library and that those promise
/// to be NULL or NUL-terminated strings.
pub(crate) fn text_at(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: not NULL, and the plugin ABI (protocol 2a.1) and dlerror(3) promise a NUL-terminated
    // string that stays valid during this call.
    let text = unsafe { CStr::from_ptr(text) };
    Some(text.to_string_lossy().into_owned())
}
