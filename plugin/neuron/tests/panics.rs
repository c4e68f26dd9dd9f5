//! Every entry point of every table is behind the guard: armed, the probe panics inside each, and
//! each answers ncclInternalError. (`cargo test -p ofi-plugin-neuron --features panic-probe`)

use core::ffi::c_int;
use core::ptr::from_ref;

use nccom_net::{ncclNetPlugin_v4, ncclNetPlugin_v5, ncclNetPlugin_v6};
use ofi_plugin_edge::abi::{INTERNAL_ERROR, INVALID_ARGUMENT};
use ofi_plugin_edge::probe;

/// Enough arguments for any entry point (regMrDmaBuf, irecv, iwrite: seven); in the C calling
/// conventions of x86-64 and aarch64 Linux those beyond a function's own are ignored.
type Entry = unsafe extern "C" fn(usize, usize, usize, usize, usize, usize, usize) -> c_int;

fn slots<T>(table: &'static T, count: usize) -> Vec<Entry> {
    assert_eq!(size_of::<T>(), count * size_of::<Entry>());
    let first = from_ref(table).cast::<Option<Entry>>();
    // The first slot is the name.
    (1..count)
        .map(|slot| {
            // SAFETY: the slot lies in the table, which has `count` of them.
            let slot = unsafe { first.add(slot) };
            // SAFETY: every slot but the first holds a function (protocol 2a.2).
            let entry = unsafe { slot.read() };
            entry.expect("no slot of Neuron's tables is NULL")
        })
        .collect()
}

#[test]
fn no_entry_lets_a_panic_out() {
    let tables = [
        ("v4", slots(&ncclNetPlugin_v4, 16)),
        ("v5", slots(&ncclNetPlugin_v5, 21)),
        ("v6", slots(&ncclNetPlugin_v6, 22)),
    ];
    probe::arm(true);
    for (version, entries) in tables {
        for (slot, entry) in (1..).zip(entries) {
            // SAFETY: the probe panics before the body looks at an argument, and NULL is allowed
            // for every argument anyway.
            let result = unsafe { entry(0, 0, 0, 0, 0, 0, 0) };
            assert_eq!(result, INTERNAL_ERROR, "{version} slot {slot}");
        }
    }
    probe::arm(false);
    // And not armed it changes nothing: devices(NULL) is an invalid argument (2.l).
    let devices = slots(&ncclNetPlugin_v6, 22)[2];
    // SAFETY: NULL is allowed for every argument.
    let result = unsafe { devices(0, 0, 0, 0, 0, 0, 0) };
    assert_eq!(result, INVALID_ARGUMENT);
}
