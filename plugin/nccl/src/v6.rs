//! `ncclNetPlugin_v6`: the calls of v5 with registration by dma-buf; `int` sizes everywhere but there.

use ofi_plugin_edge::entries as shared;
use ofi_plugin_edge::sig::Table;

use crate::NAME;
use crate::entries;
use crate::layout::NetV6;

pub(crate) const fn table() -> Table<NetV6> {
    Table::new(NetV6 {
        name: NAME.as_ptr(),
        init: entries::init,
        devices: shared::devices,
        get_properties: shared::get_properties,
        listen: shared::listen,
        connect: shared::connect,
        accept: shared::accept,
        reg_mr: entries::reg_mr_int,
        reg_mr_dma_buf: shared::reg_mr_dma_buf,
        dereg_mr: shared::dereg_mr,
        isend: shared::isend,
        irecv: shared::irecv,
        iflush: shared::iflush,
        test: shared::test,
        close_send: shared::close_send,
        close_recv: shared::close_recv,
        close_listen: shared::close_listen,
    })
}
