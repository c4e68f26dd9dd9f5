//! `libhwloc.so.15`, found when it is asked for and kept for good, and what is called of it (hwloc 2.x,
//! "hwloc.h" and "hwloc/export.h").

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::{self, NonNull};
use std::io;
use std::sync::OnceLock;

use super::HwlocError;

/// The library of hwloc 2.x.
const FILE: &CStr = c"libhwloc.so.15";
const FILE_NAME: &str = "libhwloc.so.15";
/// `HWLOC_TYPE_FILTER_KEEP_ALL`: bridges and accelerators of no known class are among what is left out
/// otherwise.
const KEEP_ALL: c_int = 0;

type Init = unsafe extern "C" fn(*mut *mut c_void) -> c_int;
type SetXml = unsafe extern "C" fn(*mut c_void, *const c_char, c_int) -> c_int;
type SetFilter = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;
type Load = unsafe extern "C" fn(*mut c_void) -> c_int;
type Export = unsafe extern "C" fn(*mut c_void, *mut *mut c_char, *mut c_int, usize) -> c_int;
type FreeXml = unsafe extern "C" fn(*mut c_void, *mut c_char);
type Destroy = unsafe extern "C" fn(*mut c_void);

/// The functions, of a library that is never closed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Functions {
    init: Init,
    set_xml: SetXml,
    set_filter: SetFilter,
    load: Load,
    export: Export,
    free_xml: FreeXml,
    destroy: Destroy,
}

static LOADED: OnceLock<Functions> = OnceLock::new();

impl Functions {
    /// Those of this process; a failure is not remembered.
    pub(crate) fn load() -> Result<Self, HwlocError> {
        if let Some(loaded) = LOADED.get() {
            return Ok(*loaded);
        }
        let found = Self::find()?;
        Ok(*LOADED.get_or_init(|| found))
    }

    fn find() -> Result<Self, HwlocError> {
        // SAFETY: dlopen(3) of a name that ends. Constructors of the library run, which are those of
        // hwloc and of what it needs.
        let handle = unsafe { libc::dlopen(FILE.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        let handle = NonNull::new(handle).ok_or_else(|| HwlocError::NotFound {
            reason: last_error(),
        })?;
        let symbol = |name: &'static CStr| {
            // SAFETY: dlsym(3) of an open library and a name that ends.
            let found = unsafe { libc::dlsym(handle.as_ptr(), name.as_ptr()) };
            NonNull::new(found).ok_or_else(|| HwlocError::MissingFunction {
                name: name.to_str().unwrap_or_default(),
                file: FILE_NAME,
            })
        };
        macro_rules! function {
            ($name:literal as $kind:ty) => {{
                let found = symbol($name)?;
                // SAFETY: the function of this name has this type in every hwloc 2.x; the library is never
                // closed.
                unsafe { core::mem::transmute::<*mut c_void, $kind>(found.as_ptr()) }
            }};
        }
        Ok(Self {
            init: function!(c"hwloc_topology_init" as Init),
            set_xml: function!(c"hwloc_topology_set_xmlbuffer" as SetXml),
            set_filter: function!(c"hwloc_topology_set_io_types_filter" as SetFilter),
            load: function!(c"hwloc_topology_load" as Load),
            export: function!(c"hwloc_topology_export_xmlbuffer" as Export),
            free_xml: function!(c"hwloc_free_xmlbuffer" as FreeXml),
            destroy: function!(c"hwloc_topology_destroy" as Destroy),
        })
    }
}

fn last_error() -> String {
    // SAFETY: dlerror(3): NULL, or a text that ends and lives until the next call of this thread.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return FILE_NAME.to_owned();
    }
    // SAFETY: as above.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_string_lossy().into_owned()
}

/// A topology, destroyed when it is dropped.
#[derive(Debug)]
pub(crate) struct Topology {
    functions: Functions,
    raw: *mut c_void,
}

impl Topology {
    /// An empty one.
    pub(crate) fn new(functions: Functions) -> Result<Self, HwlocError> {
        let mut raw = ptr::null_mut();
        // SAFETY: writes one pointer.
        let result = unsafe { (functions.init)(&raw mut raw) };
        checked("hwloc_topology_init", result)?;
        Ok(Self { functions, raw })
    }

    /// To be read from a dump.
    pub(crate) fn set_xml(&self, text: &str) -> Result<(), HwlocError> {
        let bytes = text.len();
        let len = c_int::try_from(bytes).map_err(|_| HwlocError::TooLong { bytes })?;
        // SAFETY: initialised and not loaded; hwloc copies so many bytes.
        let result = unsafe { (self.functions.set_xml)(self.raw, text.as_ptr().cast(), len) };
        checked("hwloc_topology_set_xmlbuffer", result)
    }

    /// With all PCI functions.
    pub(crate) fn keep_io(&self) -> Result<(), HwlocError> {
        // SAFETY: initialised and not loaded.
        let result = unsafe { (self.functions.set_filter)(self.raw, KEEP_ALL) };
        checked("hwloc_topology_set_io_types_filter", result)
    }

    /// Discovery.
    pub(crate) fn load(&self) -> Result<(), HwlocError> {
        // SAFETY: initialised; once.
        let result = unsafe { (self.functions.load)(self.raw) };
        checked("hwloc_topology_load", result)
    }

    /// What it is, as XML of hwloc 2.
    pub(crate) fn export(&self) -> Result<String, HwlocError> {
        let (mut text, mut len) = (ptr::null_mut(), 0);
        // SAFETY: loaded; writes a pointer and a length. 0: the format of hwloc 2.
        let result = unsafe { (self.functions.export)(self.raw, &raw mut text, &raw mut len, 0) };
        checked("hwloc_topology_export_xmlbuffer", result)?;
        // SAFETY: a text that ends, made by the call.
        let copy = unsafe { CStr::from_ptr(text) }
            .to_string_lossy()
            .into_owned();
        // SAFETY: made by this topology, given back once.
        unsafe { (self.functions.free_xml)(self.raw, text) };
        Ok(copy)
    }
}

impl Drop for Topology {
    fn drop(&mut self) {
        // SAFETY: initialised, and nobody else's.
        unsafe { (self.functions.destroy)(self.raw) }
    }
}

fn checked(call: &'static str, result: c_int) -> Result<(), HwlocError> {
    if result == 0 {
        return Ok(());
    }
    let reason = io::Error::last_os_error().to_string();
    Err(HwlocError::Call { call, reason })
}
