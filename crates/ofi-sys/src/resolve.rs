//! The functions of a libfabric that is found and opened at run time.

use core::ffi::{CStr, c_void};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::library::{DupInfo, Fabric, FreeInfo, Functions, GetInfo, StrError, Version};
use crate::load_error::{Attempt, LoadError};
use crate::signals::preserving_handlers;

/// Where libfabric is looked for when nobody names a file: the loader's search path, then the two
/// places where the EFA installer puts it.
const CANDIDATES: [&str; 3] = [
    "libfabric.so.1",
    "/opt/amazon/efa/lib64/libfabric.so.1",
    "/opt/amazon/efa/lib/libfabric.so.1",
];

/// Opens the first candidate that opens, and finds its functions.
pub(crate) fn resolve(asked: Option<PathBuf>) -> Result<(Functions, PathBuf), LoadError> {
    let candidates =
        asked.map_or_else(|| CANDIDATES.map(PathBuf::from).to_vec(), |path| vec![path]);
    let mut tried = Vec::new();
    for path in candidates {
        match open(&path)? {
            Ok(handle) => return functions(handle, path),
            Err(reason) => tried.push(Attempt { path, reason }),
        }
    }
    Err(LoadError::NotFound { tried })
}

/// `dlopen`, with signal handlers preserved.
fn open(path: &Path) -> Result<Result<*mut c_void, String>, LoadError> {
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|_| LoadError::BadPath {
        path: path.to_path_buf(),
    })?;
    if is_no_file(path) {
        return Ok(Err(String::from("it is no file")));
    }
    let handle = preserving_handlers(|| {
        // SAFETY: a NUL-terminated name; the constructors that run are those of libfabric and of
        // what it needs, which is what the caller asks for.
        unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) }
    });
    if handle.is_null() {
        Ok(Err(last_dl_error()))
    } else {
        Ok(Ok(handle))
    }
}

/// What the loader would open and read from, and wait for whoever writes to it: a pipe. A bare name is looked
/// for by the loader, which tells what is wrong with anything else.
fn is_no_file(path: &Path) -> bool {
    let is_path = path.as_os_str().as_bytes().contains(&b'/');
    is_path && std::fs::metadata(path).is_ok_and(|about| !about.is_file() && !about.is_dir())
}

/// What `dlerror` says; cleared by it.
fn last_dl_error() -> String {
    // SAFETY: dlerror(3) may be called at any time.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return String::from("no reason given");
    }
    // SAFETY: dlerror(3): NUL-terminated, valid until the next dl call of this thread.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}

/// Looks one function up and gives it its type.
macro_rules! symbol {
    ($handle:expr, $path:expr, $name:literal, $kind:ty) => {{
        let name = concat!($name, "\0");
        // SAFETY: the handle came from dlopen and is never closed; the name is NUL-terminated.
        let address = unsafe { libc::dlsym($handle, name.as_ptr().cast()) };
        if address.is_null() {
            return Err(LoadError::MissingSymbol {
                path: $path,
                symbol: $name,
            });
        }
        // SAFETY: libfabric exports this function with this signature since 1.0; a data pointer and
        // a function pointer are the same on the systems that have dlsym.
        unsafe { core::mem::transmute::<*mut c_void, $kind>(address) }
    }};
}

/// Finds the functions in an open library.
fn functions(handle: *mut c_void, path: PathBuf) -> Result<(Functions, PathBuf), LoadError> {
    let functions = Functions {
        version: symbol!(handle, path, "fi_version", Version),
        getinfo: symbol!(handle, path, "fi_getinfo", GetInfo),
        freeinfo: symbol!(handle, path, "fi_freeinfo", FreeInfo),
        dupinfo: symbol!(handle, path, "fi_dupinfo", DupInfo),
        fabric: symbol!(handle, path, "fi_fabric", Fabric),
        strerror: symbol!(handle, path, "fi_strerror", StrError),
    };
    Ok((functions, path))
}
