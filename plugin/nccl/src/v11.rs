//! `ncclNetPlugin_v11`: v10 with contexts.

use ofi_plugin_edge::entries as shared;
use ofi_plugin_edge::sig::Table;

use crate::layout::NetV11;
use crate::{NAME, contexts, entries};

pub(crate) const fn table() -> Table<NetV11> {
    Table::new(NetV11 {
        name: NAME.as_ptr(),
        init: contexts::init,
        devices: shared::devices,
        get_properties: shared::get_properties,
        listen: contexts::listen,
        connect: contexts::connect,
        accept: entries::accept_device,
        reg_mr: shared::reg_mr,
        reg_mr_dma_buf: shared::reg_mr_dma_buf,
        dereg_mr: shared::dereg_mr,
        isend: entries::isend_profiled,
        irecv: entries::irecv_profiled,
        iflush: shared::iflush,
        test: shared::test,
        close_send: shared::close_send,
        close_recv: shared::close_recv,
        close_listen: shared::close_listen,
        get_device_mr: None,
        irecv_consumed: None,
        make_vdevice: None,
        finalize: contexts::finalize,
        set_net_attr: None,
    })
}
