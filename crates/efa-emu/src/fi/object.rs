//! Objects that C holds: the struct that the header describes first, what we know of it after.

use core::ffi::c_void;
use std::sync::Arc;

use ofi_sys::bindings as b;
use ofi_sys::errno::FI_EINVAL;

/// An object.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Object<F, T> {
    head: F,
    inner: Arc<T>,
}

/// Starts a fid.
pub(super) fn fid(class: usize, context: *mut c_void, ops: &'static b::fi_ops) -> b::fid {
    b::fid {
        fclass: class,
        context,
        // libfabric's structs are not const, and it does not write them.
        ops: core::ptr::from_ref(ops).cast_mut(),
    }
}

/// A static table, as the structs have it.
pub(super) const fn table<T>(ops: &'static T) -> *mut T {
    core::ptr::from_ref(ops).cast_mut()
}

/// Gives C a new object.
///
/// # Errors
/// There is nowhere to put it.
///
/// # Safety
/// `into` is writable, or NULL.
pub(super) unsafe fn give<F, T>(head: F, inner: Arc<T>, into: *mut *mut F) -> Result<(), i32> {
    if into.is_null() {
        return Err(FI_EINVAL);
    }
    let object = Box::into_raw(Box::new(Object { head, inner }));
    // SAFETY: the caller's promise.
    unsafe { into.write(object.cast()) };
    Ok(())
}

/// Looks into an object.
///
/// # Safety
/// A fid that [`give`] gave with this `F` and `T`, and that was not closed.
pub(super) unsafe fn inner<'a, F: 'a, T: 'a>(fid: *const F) -> &'a Arc<T> {
    // SAFETY: the caller's promise: the head is the object's first field.
    let object = unsafe { &*fid.cast::<Object<F, T>>() };
    &object.inner
}

/// Takes an object back from C.
///
/// # Safety
/// As [`inner`], and nobody uses it any more.
pub(super) unsafe fn take<F, T>(fid: *mut b::fid) -> Arc<T> {
    // SAFETY: the caller's promise; a fid is the head's first field.
    let object = unsafe { Box::from_raw(fid.cast::<Object<F, T>>()) };
    object.inner
}
