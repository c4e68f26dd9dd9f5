//! `ncclNetPlugin_v9`: v8, whose messages are sized by `size_t`; virtual devices, of which there are none.

use ofi_plugin_edge::entries as shared;
use ofi_plugin_edge::sig::Table;

use crate::NAME;
use crate::entries;
use crate::layout::NetV9;

pub(crate) const fn table() -> Table<NetV9> {
    Table::new(NetV9 {
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
        isend: entries::isend_wide,
        irecv: entries::irecv_wide,
        iflush: shared::iflush,
        test: shared::test,
        close_send: shared::close_send,
        close_recv: shared::close_recv,
        close_listen: shared::close_listen,
        get_device_mr: None,
        irecv_consumed: None,
        make_vdevice: None,
    })
}
