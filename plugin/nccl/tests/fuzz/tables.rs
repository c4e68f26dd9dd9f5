//! The seven tables of NCCL's plugin, for sequences of calls.

use nccl_net_ofi::{
    ncclNetPlugin_v6, ncclNetPlugin_v7, ncclNetPlugin_v8, ncclNetPlugin_v9, ncclNetPlugin_v10,
    ncclNetPlugin_v11, ncclNetPlugin_v12,
};

#[path = "../../../tests/sequences/mod.rs"]
pub(crate) mod sequences;
use sequences::table::{Shape, Slots, Table};

const fn slots(count: usize) -> Slots {
    Slots {
        count,
        fini: if count == 22 { 20 } else { 0 },
        devices: 2,
        dmabuf: 8,
        dereg: 9,
        key: 0,
    }
}

const V6: Shape = Shape {
    version: 6,
    slots: slots(17),
    is_v4: false,
    is_wide: false,
    has_config: false,
    has_context: false,
    has_parents: false,
};

const V7: Shape = Shape {
    version: 7,
    slots: slots(19),
    ..V6
};

const V8: Shape = Shape { version: 8, ..V7 };

const V9: Shape = Shape {
    version: 9,
    slots: slots(20),
    is_wide: true,
    ..V8
};

const V10: Shape = Shape {
    version: 10,
    has_config: true,
    has_parents: true,
    ..V9
};

const V11: Shape = Shape {
    version: 11,
    slots: slots(22),
    has_config: false,
    has_context: true,
    ..V10
};

const V12: Shape = Shape { version: 12, ..V11 };

fn tables() -> Vec<Table> {
    vec![
        Table::new(&ncclNetPlugin_v12, V12),
        Table::new(&ncclNetPlugin_v11, V11),
        Table::new(&ncclNetPlugin_v10, V10),
        Table::new(&ncclNetPlugin_v9, V9),
        Table::new(&ncclNetPlugin_v8, V8),
        Table::new(&ncclNetPlugin_v7, V7),
        Table::new(&ncclNetPlugin_v6, V6),
    ]
}

/// One sequence.
pub(crate) fn check(bytes: &[u8]) {
    sequences::check(tables, bytes);
}
