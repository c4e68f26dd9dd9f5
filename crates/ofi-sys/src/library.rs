//! Finding libfabric, loading it once, and the table of its exported functions.
//!
//! The library is opened with `RTLD_NOW | RTLD_LOCAL`, symbols are looked up without a version (so
//! the newest of each is taken, whose structs only ever grew), and it is never closed: providers
//! start threads and register `atexit` handlers that must not lose their code. Loading the same
//! soname again gives the copy that MPI or another plugin already uses.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::bindings::{fi_fabric_attr, fi_info, fid_fabric};
use crate::load_error::LoadError;
use crate::resolve::resolve;
use crate::signals::preserving_handlers;

/// File name used when a directory is named.
const SONAME: &str = "libfabric.so.1";

static LOADED: OnceLock<Library> = OnceLock::new();
static LOADING: Mutex<()> = Mutex::new(());

pub(crate) type GetInfo = unsafe extern "C" fn(
    u32,
    *const c_char,
    *const c_char,
    u64,
    *const fi_info,
    *mut *mut fi_info,
) -> c_int;
pub(crate) type FreeInfo = unsafe extern "C" fn(*mut fi_info);
pub(crate) type DupInfo = unsafe extern "C" fn(*const fi_info) -> *mut fi_info;
pub(crate) type Fabric =
    unsafe extern "C" fn(*mut fi_fabric_attr, *mut *mut fid_fabric, *mut c_void) -> c_int;
pub(crate) type Version = unsafe extern "C" fn() -> u32;
pub(crate) type StrError = unsafe extern "C" fn(c_int) -> *const c_char;

/// A loaded libfabric: its version and the functions it exports. There is one per process.
pub struct Library {
    path: PathBuf,
    version: u32,
    functions: Functions,
    providers_started: OnceLock<()>,
}

/// The exported functions that are used.
#[derive(Clone, Copy)]
pub(crate) struct Functions {
    pub(crate) version: Version,
    pub(crate) getinfo: GetInfo,
    pub(crate) freeinfo: FreeInfo,
    pub(crate) dupinfo: DupInfo,
    pub(crate) fabric: Fabric,
    pub(crate) strerror: StrError,
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Library")
            .field("path", &self.path)
            .field("version", &self.version())
            .finish_non_exhaustive()
    }
}

/// Splits libfabric's packed version into (major, minor).
#[must_use]
pub const fn version_of(packed: u32) -> (u32, u32) {
    (packed >> 16, packed & 0xffff)
}

impl Library {
    /// Loads libfabric, or returns the one already loaded.
    ///
    /// With `override_path` (a file, or the directory that holds `libfabric.so.1`) only that is
    /// tried. Without, or where it is empty, in this order: `libfabric.so.1` by the loader's rules, then the EFA
    /// installer's directories. Signal handlers that the libraries install while they are loaded
    /// are put back ([`crate::signals`]). A failure is not remembered: a later call tries again.
    ///
    /// With the cargo feature `link` nothing is searched: the functions linked at build time are
    /// used and `override_path` must be `None`.
    ///
    /// # Errors
    ///
    /// [`LoadError`] names every file tried with the loader's reason, or the file that was loaded
    /// before when `override_path` names another.
    ///
    /// # Costs
    ///
    /// Milliseconds the first time (dynamic linking), then a lock.
    pub fn load(override_path: Option<&Path>) -> Result<&'static Self, LoadError> {
        let _one_at_a_time = LOADING.lock().unwrap_or_else(PoisonError::into_inner);
        // An empty variable is one that is not set; to dlopen(3) an empty name is the program itself.
        let named = override_path.filter(|path| !path.as_os_str().is_empty());
        let asked = named.map(file_of);
        if let Some(library) = LOADED.get() {
            return match asked {
                Some(asked) if asked != library.path => Err(LoadError::AlreadyLoaded {
                    loaded: library.path.clone(),
                    asked,
                }),
                _ => Ok(library),
            };
        }
        let (functions, path) = resolve(asked)?;
        Ok(LOADED.get_or_init(|| Self::new(functions, path)))
    }

    fn new(functions: Functions, path: PathBuf) -> Self {
        // SAFETY: fi_version(3) takes and changes nothing.
        let version = unsafe { (functions.version)() };
        Self {
            path,
            version,
            functions,
            providers_started: OnceLock::new(),
        }
    }

    /// The library, if [`Self::load`] succeeded before.
    #[must_use]
    pub fn get() -> Option<&'static Self> {
        LOADED.get()
    }

    /// What was given to `dlopen`, or "(linked)".
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// (major, minor) of the API that the library implements, as `fi_version()` says.
    #[must_use]
    pub const fn version(&self) -> (u32, u32) {
        version_of(self.version)
    }

    /// The same, packed as libfabric packs it: `major << 16 | minor`.
    #[must_use]
    pub const fn version_packed(&self) -> u32 {
        self.version
    }

    /// fi_getinfo(3). The first call starts the providers (about 0.3 s on Debian's 1.17).
    ///
    /// # Safety
    ///
    /// `node` and `service` are null or NUL-terminated; `hints` is null or an `fi_info` of this
    /// library; `info` is valid for a write. The list written there is freed with
    /// [`Self::freeinfo`].
    pub unsafe fn getinfo(
        &self,
        version: u32,
        address: (*const c_char, *const c_char),
        flags: u64,
        hints: *const fi_info,
        info: *mut *mut fi_info,
    ) -> c_int {
        let (node, service) = address;
        // SAFETY: the caller's promise, argument by argument.
        let call =
            || unsafe { (self.functions.getinfo)(version, node, service, flags, hints, info) };
        let mut first = None;
        self.providers_started
            .get_or_init(|| first = Some(preserving_handlers(call)));
        first.unwrap_or_else(call)
    }

    /// `fi_freeinfo`, fi_getinfo(3).
    ///
    /// # Safety
    ///
    /// `info` is a list that this library made and nobody has freed.
    pub unsafe fn freeinfo(&self, info: *mut fi_info) {
        // SAFETY: the caller's promise.
        unsafe { (self.functions.freeinfo)(info) }
    }

    /// `fi_dupinfo`, fi_getinfo(3); of null: an empty `fi_info` (`fi_allocinfo`). Null when out of
    /// memory.
    ///
    /// # Safety
    ///
    /// `info` is null or an `fi_info` that this library made. What is returned is freed with
    /// [`Self::freeinfo`].
    pub unsafe fn dupinfo(&self, info: *const fi_info) -> *mut fi_info {
        // SAFETY: the caller's promise.
        unsafe { (self.functions.dupinfo)(info) }
    }

    /// fi_fabric(3).
    ///
    /// # Safety
    ///
    /// `attr` is the `fabric_attr` of an `fi_info` of this library; `fabric` is valid for a write.
    pub unsafe fn fabric(&self, attr: *mut fi_fabric_attr, fabric: *mut *mut fid_fabric) -> c_int {
        // SAFETY: the caller's promise; a null context is allowed.
        unsafe { (self.functions.fabric)(attr, fabric, core::ptr::null_mut()) }
    }

    /// The library's words for an error number, sign ignored.
    #[must_use]
    pub fn strerror(&self, errno: c_int) -> &'static CStr {
        // fi_errno(3): takes the number without its sign.
        // SAFETY: any number may be asked for.
        let text = unsafe { (self.functions.strerror)(errno.saturating_abs()) };
        if text.is_null() {
            return c"unknown error";
        }
        // SAFETY: fi_errno(3): a constant, NUL-terminated string; the library is never unloaded.
        unsafe { CStr::from_ptr(text) }
    }
}

/// The file that a path means.
fn file_of(path: &Path) -> PathBuf {
    if path.is_dir() {
        path.join(SONAME)
    } else {
        path.to_path_buf()
    }
}
