//! The functions of a table, whatever their types, to be called with NULLs.

use core::ffi::c_int;
use core::ptr::from_ref;

use ofi_plugin_edge::abi::INTERNAL_ERROR;

/// Enough arguments for any entry point (NCCL's irecv: eight); in the C calling conventions of x86-64
/// and aarch64 Linux those beyond a function's own are ignored.
pub(crate) type Entry =
    unsafe extern "C" fn(usize, usize, usize, usize, usize, usize, usize, usize) -> c_int;

/// The functions of a table of `count` slots, by slot. The first slot is the name; others may be NULL.
pub(crate) fn slots<T>(table: &'static T, count: usize) -> Vec<(usize, Entry)> {
    assert_eq!(size_of::<T>(), count * size_of::<Entry>());
    let first = from_ref(table).cast::<Option<Entry>>();
    (1..count)
        .filter_map(|slot| {
            // SAFETY: the slot lies in the table, which has `count` of them.
            let at = unsafe { first.add(slot) };
            // SAFETY: every slot but the first holds a function or NULL (protocol 2a.2, 2a.3).
            let entry = unsafe { at.read() };
            Some((slot, entry?))
        })
        .collect()
}

/// Calls a function with NULL for every argument.
pub(crate) fn call(entry: Entry) -> c_int {
    // SAFETY: NULL is allowed for every argument of every call.
    unsafe { entry(0, 0, 0, 0, 0, 0, 0, 0) }
}

/// Each of the functions answers an internal error, for that is what a panic becomes.
pub(crate) fn assert_guarded(version: u32, entries: Vec<(usize, Entry)>) {
    for (slot, entry) in entries {
        assert_eq!(call(entry), INTERNAL_ERROR, "v{version} slot {slot}");
    }
}
