//! `ncclNetPlugin_v8`: v7, whose regMr takes a `size_t`.

use ofi_plugin_edge::entries as shared;
use ofi_plugin_edge::sig::Table;

use crate::NAME;
use crate::entries;
use crate::layout::NetV8;

pub(crate) const fn table() -> Table<NetV8> {
    Table::new(NetV8 {
        name: NAME.as_ptr(),
        init: entries::init,
        devices: shared::devices,
        get_properties: shared::get_properties,
        listen: shared::listen,
        connect: entries::connect_device,
        accept: entries::accept_device,
        reg_mr: shared::reg_mr,
        reg_mr_dma_buf: shared::reg_mr_dma_buf,
        dereg_mr: shared::dereg_mr,
        isend: shared::isend,
        irecv: shared::irecv,
        iflush: shared::iflush,
        test: shared::test,
        close_send: shared::close_send,
        close_recv: shared::close_recv,
        close_listen: shared::close_listen,
        get_device_mr: None,
        irecv_consumed: None,
    })
}
