//! Every entry point of every table is behind the guard: armed, the probe panics inside each, and
//! each answers ncclInternalError. (`cargo test -p ofi-plugin-nccl --features panic-probe`)

use nccl_net_ofi::{
    ncclNetPlugin_v6, ncclNetPlugin_v7, ncclNetPlugin_v8, ncclNetPlugin_v9, ncclNetPlugin_v10,
    ncclNetPlugin_v11, ncclNetPlugin_v12,
};
use ofi_plugin_edge::abi::INVALID_ARGUMENT;
use ofi_plugin_edge::probe;

#[path = "../../tests/slots.rs"]
mod slots;
use slots::{assert_guarded, call, slots};

#[test]
fn no_entry_lets_a_panic_out() {
    // Those that are NULL: getDeviceMr, irecvConsumed; makeVDevice; setNetAttr.
    let tables = [
        (6, slots(&ncclNetPlugin_v6, 17), 16),
        (7, slots(&ncclNetPlugin_v7, 19), 18 - 2),
        (8, slots(&ncclNetPlugin_v8, 19), 18 - 2),
        (9, slots(&ncclNetPlugin_v9, 20), 19 - 3),
        (10, slots(&ncclNetPlugin_v10, 20), 19 - 3),
        (11, slots(&ncclNetPlugin_v11, 22), 21 - 4),
        (12, slots(&ncclNetPlugin_v12, 22), 21 - 4),
    ];
    probe::arm(true);
    for (version, entries, functions) in tables {
        assert_eq!(entries.len(), functions, "v{version}");
        assert_guarded(version, entries);
    }
    probe::arm(false);
    // And not armed it changes nothing: devices(NULL) is an invalid argument (2.l).
    let (slot, devices) = slots(&ncclNetPlugin_v12, 22)[1];
    assert_eq!((slot, call(devices)), (2, INVALID_ARGUMENT));
}
