//! The functions of the libfabric that was linked at build time (feature `link`).

use core::ffi::{c_char, c_int, c_void};
use std::path::PathBuf;

use crate::bindings::{fi_fabric_attr, fi_info, fid_fabric};
use crate::library::Functions;
use crate::load_error::LoadError;

#[link(name = "fabric")]
unsafe extern "C" {
    fn fi_version() -> u32;
    fn fi_getinfo(
        version: u32,
        node: *const c_char,
        service: *const c_char,
        flags: u64,
        hints: *const fi_info,
        info: *mut *mut fi_info,
    ) -> c_int;
    fn fi_freeinfo(info: *mut fi_info);
    fn fi_dupinfo(info: *const fi_info) -> *mut fi_info;
    fn fi_fabric(
        attr: *mut fi_fabric_attr,
        fabric: *mut *mut fid_fabric,
        context: *mut c_void,
    ) -> c_int;
    fn fi_strerror(errno: c_int) -> *const c_char;
}

/// The linked functions; a path cannot be honoured.
pub(crate) fn resolve(asked: Option<PathBuf>) -> Result<(Functions, PathBuf), LoadError> {
    let path = PathBuf::from("(linked)");
    if let Some(asked) = asked {
        return Err(LoadError::AlreadyLoaded {
            loaded: path,
            asked,
        });
    }
    let functions = Functions {
        version: fi_version,
        getinfo: fi_getinfo,
        freeinfo: fi_freeinfo,
        dupinfo: fi_dupinfo,
        fabric: fi_fabric,
        strerror: fi_strerror,
    };
    Ok((functions, path))
}
