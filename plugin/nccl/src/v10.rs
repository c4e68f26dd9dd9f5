//! `ncclNetPlugin_v10`: v9 with a profiler, and a configuration for each connection.

use core::ffi::{c_int, c_void};

use ofi_plugin_edge::abi::{LogFn, NcclResult};
use ofi_plugin_edge::connection::{self, Style};
use ofi_plugin_edge::entries as shared;
use ofi_plugin_edge::guard;
use ofi_plugin_edge::life::{self, Caller, Finaliser, Flavour};
use ofi_plugin_edge::profiler::ProfilerFn;
use ofi_plugin_edge::sig::Table;

use crate::NAME;
use crate::contexts::traffic_class;
use crate::entries;
use crate::layout::{CommConfig, DeviceHandle, NetV10};

pub(crate) const fn table() -> Table<NetV10> {
    Table::new(NetV10 {
        name: NAME.as_ptr(),
        init,
        devices: shared::devices,
        get_properties: shared::get_properties,
        listen: shared::listen,
        connect,
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
    })
}

unsafe extern "C" fn init(logger: Option<LogFn>, profiler: Option<ProfilerFn>) -> NcclResult {
    guard("init", || {
        // SAFETY: the header's contract.
        let caller = unsafe { Caller::new(logger, profiler) };
        life::init(Flavour::Nccl, Finaliser::AtExit, caller)
    })
}

unsafe extern "C" fn connect(
    dev: c_int,
    config: *const CommConfig,
    handle: *mut c_void,
    comm: *mut *mut c_void,
    _device_handle: *mut *mut DeviceHandle,
) -> NcclResult {
    guard("connect", || {
        // SAFETY: the header's contract.
        let class = unsafe { traffic_class(config) };
        // SAFETY: the header's contract.
        unsafe { connection::connect((Style::Polled, class), dev, handle, comm) }
    })
}
