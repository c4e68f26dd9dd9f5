//! The calls of v11 and v12 that take a context: each communicator of the library has one, and the
//! last to go takes the transport down.

use core::ffi::{c_int, c_void};

use ofi_plugin_edge::abi::{LogFn, NcclResult};
use ofi_plugin_edge::connection::{self, Style};
use ofi_plugin_edge::context::{self, Settings};
use ofi_plugin_edge::guard;
use ofi_plugin_edge::life::{Caller, Flavour};
use ofi_plugin_edge::profiler::ProfilerFn;

use crate::layout::{CommConfig, DeviceHandle};

pub(crate) unsafe extern "C" fn init(
    context: *mut *mut c_void,
    comm_id: u64,
    config: *const CommConfig,
    logger: Option<LogFn>,
    profiler: Option<ProfilerFn>,
) -> NcclResult {
    guard("init", || {
        // SAFETY: the header's contract.
        let traffic_class = unsafe { traffic_class(config) };
        let settings = Settings {
            comm_id,
            traffic_class,
        };
        // SAFETY: the header's contract.
        let caller = unsafe { Caller::new(logger, profiler) };
        // SAFETY: the header's contract.
        unsafe { context::open(Flavour::Nccl, settings, caller, context) }
    })
}

pub(crate) unsafe extern "C" fn finalize(context: *mut c_void) -> NcclResult {
    guard("finalize", || context::close(context))
}

pub(crate) unsafe extern "C" fn listen(
    context: *mut c_void,
    dev: c_int,
    handle: *mut c_void,
    comm: *mut *mut c_void,
) -> NcclResult {
    guard("listen", || {
        let class = context::settings(context)?.traffic_class;
        // SAFETY: the header's contract.
        unsafe { connection::listen((Style::Polled, class), dev, handle, comm) }
    })
}

pub(crate) unsafe extern "C" fn connect(
    context: *mut c_void,
    dev: c_int,
    handle: *mut c_void,
    comm: *mut *mut c_void,
    _device_handle: *mut *mut DeviceHandle,
) -> NcclResult {
    guard("connect", || {
        let class = context::settings(context)?.traffic_class;
        // SAFETY: the header's contract.
        unsafe { connection::connect((Style::Polled, class), dev, handle, comm) }
    })
}

/// The class in a configuration; none without one, and -1 is none.
///
/// # Safety
/// `config`, if not NULL, is readable.
pub(crate) unsafe fn traffic_class(config: *const CommConfig) -> Option<u32> {
    // SAFETY: the caller's contract.
    let config = unsafe { config.as_ref() }?;
    u32::try_from(config.traffic_class).ok()
}
