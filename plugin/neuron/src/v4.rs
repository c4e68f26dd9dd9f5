//! `ncclNetPlugin_v4`: connects in one call, handles of 64 bytes, one buffer a call, no tags
//! (decision 18, protocol 2a.2).

use core::ffi::{c_int, c_void};

use ofi_plugin_edge::abi::{LogFn, NcclResult};
use ofi_plugin_edge::connection::{self, Style};
use ofi_plugin_edge::data::{self, Message};
use ofi_plugin_edge::entries;
use ofi_plugin_edge::guard;
use ofi_plugin_edge::life::{self, Caller, Finaliser, Flavour, Protocol};
use ofi_plugin_edge::sig::Table;

use crate::NAME;
use crate::layout::NetV4;

pub(crate) const fn table() -> Table<NetV4> {
    Table::new(NetV4 {
        name: NAME.as_ptr(),
        init,
        devices: entries::devices,
        get_properties: entries::get_properties,
        listen,
        connect,
        accept,
        reg_mr: entries::reg_mr,
        dereg_mr: entries::dereg_mr,
        isend,
        irecv,
        iflush,
        test: entries::test,
        close_send: entries::close_send,
        close_recv: entries::close_recv,
        close_listen: entries::close_listen,
    })
}

unsafe extern "C" fn init(logger: Option<LogFn>) -> NcclResult {
    guard("init", || {
        // SAFETY: the header's contract.
        let caller = unsafe { Caller::new(logger, None) };
        // As the reference's: a v4 peer of the reference speaks SENDRECV (decision 18).
        let caller = caller.speaking(Protocol::SendRecv);
        life::init(Flavour::Neuron, Finaliser::AtExit, caller)
    })
}

unsafe extern "C" fn listen(dev: c_int, handle: *mut c_void, comm: *mut *mut c_void) -> NcclResult {
    // SAFETY: the header's contract.
    guard("listen", || unsafe {
        connection::listen((Style::Blocking, None), dev, handle, comm)
    })
}

unsafe extern "C" fn connect(
    dev: c_int,
    handle: *mut c_void,
    comm: *mut *mut c_void,
) -> NcclResult {
    // SAFETY: the header's contract.
    guard("connect", || unsafe {
        connection::connect((Style::Blocking, None), dev, handle, comm)
    })
}

unsafe extern "C" fn accept(listener: *mut c_void, comm: *mut *mut c_void) -> NcclResult {
    // SAFETY: the header's contract.
    guard("accept", || unsafe {
        connection::accept(Style::Blocking, listener, comm)
    })
}

unsafe extern "C" fn isend(
    comm: *mut c_void,
    data: *mut c_void,
    size: c_int,
    mhandle: *mut c_void,
    request: *mut *mut c_void,
) -> NcclResult {
    guard("isend", || {
        let message = Message::new(data, size, mhandle)?;
        // SAFETY: the header's contract.
        unsafe { data::send(comm, message, request) }
    })
}

unsafe extern "C" fn irecv(
    comm: *mut c_void,
    data: *mut c_void,
    size: c_int,
    mhandle: *mut c_void,
    request: *mut *mut c_void,
) -> NcclResult {
    guard("irecv", || {
        let message = Message::new(data, size, mhandle)?;
        // SAFETY: the header's contract.
        unsafe { data::recv(comm, message, request) }
    })
}

unsafe extern "C" fn iflush(
    comm: *mut c_void,
    data: *mut c_void,
    size: c_int,
    mhandle: *mut c_void,
    request: *mut *mut c_void,
) -> NcclResult {
    guard("iflush", || {
        let message = Message::new(data, size, mhandle)?;
        // SAFETY: the header's contract.
        unsafe { data::flush(comm, message, request) }
    })
}
