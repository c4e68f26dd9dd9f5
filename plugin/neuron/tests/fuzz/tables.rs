//! The three tables of Neuron's plugin, for sequences of calls.

use nccom_net::{ncclNetPlugin_v4, ncclNetPlugin_v5, ncclNetPlugin_v6};

#[path = "../../../tests/sequences/mod.rs"]
pub(crate) mod sequences;
use sequences::table::{Shape, Slots, Table};

const V5: Shape = Shape {
    version: 5,
    slots: Slots {
        count: 21,
        fini: 0,
        devices: 2,
        dmabuf: 8,
        dereg: 9,
        key: 17,
    },
    is_v4: false,
    is_wide: false,
    has_config: false,
    has_context: false,
    has_parents: false,
};

const V4: Shape = Shape {
    version: 4,
    slots: Slots {
        count: 16,
        fini: 0,
        devices: 2,
        dmabuf: 0,
        dereg: 8,
        key: 0,
    },
    is_v4: true,
    ..V5
};

const V6: Shape = Shape {
    version: 6,
    slots: Slots {
        count: 22,
        fini: 2,
        devices: 3,
        dmabuf: 9,
        dereg: 10,
        key: 18,
    },
    ..V5
};

fn tables() -> Vec<Table> {
    vec![
        Table::new(&ncclNetPlugin_v6, V6),
        Table::new(&ncclNetPlugin_v5, V5),
        Table::new(&ncclNetPlugin_v4, V4),
    ]
}

/// One sequence.
pub(crate) fn check(bytes: &[u8]) {
    sequences::check(tables, bytes);
}
