//! Every entry point of every table is behind the guard: armed, the probe panics inside each, and
//! each answers ncclInternalError. (`cargo test -p ofi-plugin-neuron --features panic-probe`)

use nccom_net::{ncclNetPlugin_v4, ncclNetPlugin_v5, ncclNetPlugin_v6};
use ofi_plugin_edge::abi::INVALID_ARGUMENT;
use ofi_plugin_edge::probe;

#[path = "../../tests/slots.rs"]
mod slots;
use slots::{assert_guarded, call, slots};

#[test]
fn no_entry_lets_a_panic_out() {
    let tables = [
        (4, slots(&ncclNetPlugin_v4, 16), 15),
        (5, slots(&ncclNetPlugin_v5, 21), 20),
        (6, slots(&ncclNetPlugin_v6, 22), 21),
    ];
    probe::arm(true);
    for (version, entries, functions) in tables {
        assert_eq!(entries.len(), functions, "v{version} has a NULL");
        assert_guarded(version, entries);
    }
    probe::arm(false);
    // And not armed it changes nothing: devices(NULL) is an invalid argument (2.l).
    let (slot, devices) = slots(&ncclNetPlugin_v6, 22)[2];
    assert_eq!((slot, call(devices)), (3, INVALID_ARGUMENT));
}
