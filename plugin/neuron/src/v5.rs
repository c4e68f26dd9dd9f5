//! `ncclNetPlugin_v5`: polled connects, tags, groups, one-sided calls; no fini.

use ofi_plugin_edge::abi::{LogFn, NcclResult};
use ofi_plugin_edge::guard;
use ofi_plugin_edge::life::{self, Finaliser, Flavour};

use crate::NAME;
use crate::entries;
use crate::layout::{NetV5, Table};

pub(crate) const fn table() -> Table<NetV5> {
    Table::new(NetV5 {
        name: NAME.as_ptr(),
        init,
        devices: entries::devices,
        get_properties: entries::get_properties,
        listen: entries::listen,
        connect: entries::connect,
        accept: entries::accept,
        reg_mr: entries::reg_mr,
        reg_mr_dma_buf: entries::reg_mr_dma_buf,
        dereg_mr: entries::dereg_mr,
        isend: entries::isend,
        irecv: entries::irecv,
        iflush: entries::iflush,
        test: entries::test,
        close_send: entries::close_send,
        close_recv: entries::close_recv,
        close_listen: entries::close_listen,
        get_mr_key: entries::get_mr_key,
        iwrite: entries::iwrite,
        iwrite_inline: entries::iwrite_inline,
        iread: entries::iread,
    })
}

unsafe extern "C" fn init(logger: Option<LogFn>) -> NcclResult {
    // SAFETY: the header's contract.
    guard("init", || unsafe {
        life::init(Flavour::Neuron, Finaliser::AtExit, logger)
    })
}
