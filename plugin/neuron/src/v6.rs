//! `ncclNetPlugin_v6`: v5 with fini, which is the only way it is taken down.

use ofi_plugin_edge::abi::{LogFn, NcclResult};
use ofi_plugin_edge::life::{self, Caller, Finaliser, Flavour};
use ofi_plugin_edge::sig::Table;
use ofi_plugin_edge::{entries, guard};

use crate::NAME;
use crate::layout::NetV6;
use crate::one_sided;

pub(crate) const fn table() -> Table<NetV6> {
    Table::new(NetV6 {
        name: NAME.as_ptr(),
        init,
        fini,
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
        get_mr_key: one_sided::get_mr_key,
        iwrite: one_sided::iwrite,
        iwrite_inline: one_sided::iwrite_inline,
        iread: one_sided::iread,
    })
}

unsafe extern "C" fn init(logger: Option<LogFn>) -> NcclResult {
    guard("init", || {
        // SAFETY: the header's contract.
        let caller = unsafe { Caller::new(logger, None) };
        life::init(Flavour::Neuron, Finaliser::Fini, caller)
    })
}

unsafe extern "C" fn fini() -> NcclResult {
    guard("fini", life::fini)
}
