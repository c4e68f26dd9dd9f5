//! listen, connect, accept, close.

use core::ffi::{c_int, c_void};

use ofi_net::CommWord;
use ofi_net::error::Code;

use crate::abi::{self, HANDLE_BYTES, HANDLE_V4_BYTES};
use crate::instance;
use crate::life::device;
use crate::pointer::{CHandle, Out, carried, word};
use crate::translate::Fail;

/// Which of the three a close takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// closeSend.
    Send,
    /// closeRecv.
    Recv,
    /// closeListen.
    Listen,
}

/// How a table connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// NULL and success mean "call again"; handles of 128 bytes (v5 and later).
    Polled,
    /// One call does it; handles of 64 bytes (v4, decision 18).
    Blocking,
}

impl Style {
    const fn handle_bytes(self) -> usize {
        match self {
            Self::Polled => HANDLE_BYTES,
            Self::Blocking => HANDLE_V4_BYTES,
        }
    }
}

/// listen: writes the handle and the listen communicator.
///
/// # Safety
/// `handle`, if not NULL, must be valid for reads and writes of 88 bytes (v4: 64), `comm` for writes.
///
/// # Errors
/// NULL handle (4), NULL comm (3), not initialised (4), anything else 3 (protocol 2l).
pub unsafe fn listen(
    (style, class): (Style, Option<u32>),
    dev: c_int,
    handle: *mut c_void,
    comm: *mut *mut c_void,
) -> Result<(), Fail> {
    // SAFETY: the caller's contract.
    let handle = unsafe { CHandle::new(handle, style.handle_bytes()) }?;
    // SAFETY: the caller's contract.
    let comm = unsafe { Out::new(comm, abi::INTERNAL_ERROR, "listenComm") }?;
    comm.set(core::ptr::null_mut());
    instance::with(|instance| {
        let mut copy = [0; 128];
        let transport = &instance.transport;
        let word = transport
            .listen_classed(device(dev)?, transport.traffic_class(class), &mut copy)
            .map_err(|error| Fail::from(error).with_result(abi::INTERNAL_ERROR))?;
        comm.set(carried(word.to_bits())?);
        handle.write(&copy);
        Ok(())
    })
}

/// connect. Polled: a NULL communicator means "call again with the same handle". Blocking: a
/// communicator at once; one that is there already is success (protocol 2l).
///
/// # Safety
/// `handle`, if not NULL, must be valid for reads and writes of 88 bytes (v4: 64), `comm` for reads
/// and writes.
///
/// # Errors
/// NULL handle (4), NULL comm (3), no such device (3), not initialised (4), damaged handles, the
/// connect deadline.
pub unsafe fn connect(
    (style, class): (Style, Option<u32>),
    dev: c_int,
    handle: *mut c_void,
    comm: *mut *mut c_void,
) -> Result<(), Fail> {
    // SAFETY: the caller's contract.
    let handle = unsafe { CHandle::new(handle, style.handle_bytes()) }?;
    // SAFETY: the caller's contract.
    let comm = unsafe { Out::new(comm, abi::INTERNAL_ERROR, "sendComm") }?;
    instance::with(|instance| {
        if style == Style::Blocking {
            if !comm.get().is_null() {
                return Ok(());
            }
            let mut copy = handle_v4(&handle.read());
            let word = instance.transport.connect_v4(device(dev)?, &mut copy)?;
            comm.set(carried(word.to_bits())?);
            return Ok(());
        }
        comm.set(core::ptr::null_mut());
        let mut copy = handle.read();
        let transport = &instance.transport;
        let class = transport.traffic_class(class);
        let connected = transport.connect_classed(device(dev)?, class, &mut copy);
        handle.write(&copy);
        set_if_some(&comm, connected?)
    })
}

fn handle_v4(copy: &[u8; 128]) -> [u8; HANDLE_V4_BYTES] {
    core::array::from_fn(|i| copy[i])
}

/// accept. Polled: NULL means "call again". Blocking: waits, bounded by the connect deadline; any
/// failure is 2, also that of a communicator that is there already (protocol 2a.2, 2l).
///
/// # Safety
/// `comm`, if not NULL, must be valid for reads and writes.
///
/// # Errors
/// NULL (3), not initialised (4), a listener that gave its connection, the connect deadline.
pub unsafe fn accept(
    style: Style,
    listener: *mut c_void,
    comm: *mut *mut c_void,
) -> Result<(), Fail> {
    // SAFETY: the caller's contract.
    let accepted = unsafe { accept_any(style, listener, comm) };
    match style {
        Style::Polled => accepted,
        Style::Blocking => accepted.map_err(|fail| fail.with_result(abi::SYSTEM_ERROR)),
    }
}

/// # Safety
/// As [`accept`].
unsafe fn accept_any(
    style: Style,
    listener: *mut c_void,
    comm: *mut *mut c_void,
) -> Result<(), Fail> {
    // SAFETY: the caller's contract.
    let comm = unsafe { Out::new(comm, abi::INTERNAL_ERROR, "recvComm") }?;
    instance::with(|instance| {
        let listener = comm_word(listener, "listenComm", abi::INTERNAL_ERROR)?;
        if style == Style::Blocking {
            if !comm.get().is_null() {
                let what = "recvComm is not NULL on entry: it was accepted before";
                return Err(Fail::fixed(abi::SYSTEM_ERROR, Code::AlreadyAccepted, what));
            }
            let word = instance.transport.accept_blocking(listener)?;
            return set_if_some(&comm, Some(word));
        }
        comm.set(core::ptr::null_mut());
        set_if_some(&comm, instance.transport.accept(listener)?)
    })
}

/// closeSend, closeRecv, closeListen. After fini a quiet 4 (protocol 2a.1).
///
/// # Errors
/// NULL (3), a communicator that is not there or of another kind (3), not initialised (4).
pub fn close(side: Side, comm: *mut c_void) -> Result<(), Fail> {
    let closed = instance::with(|instance| {
        let comm = comm_word(comm, "the communicator", abi::INTERNAL_ERROR)?;
        match side {
            Side::Send => instance.transport.close_send(comm)?,
            Side::Recv => instance.transport.close_recv(comm)?,
            Side::Listen => instance.transport.close_listen(comm)?,
        }
        if let Some(events) = &instance.events {
            events.closed(comm);
        }
        Ok(())
    });
    closed.map_err(|fail| match fail.error().code() {
        Code::NotInitialised if instance::is_finalised() => fail.quiet(),
        _ => fail,
    })
}

pub(crate) fn comm_word(
    comm: *mut c_void,
    name: &str,
    null: abi::NcclResult,
) -> Result<CommWord, Fail> {
    word(comm)
        .map(CommWord::from_bits)
        .ok_or_else(|| Fail::null(null, name))
}

fn set_if_some(out: &Out<*mut c_void>, comm: Option<CommWord>) -> Result<(), Fail> {
    if let Some(comm) = comm {
        out.set(carried(comm.to_bits())?);
    }
    Ok(())
}
