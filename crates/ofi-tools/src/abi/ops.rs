//! One shape over all versions: what the tables of v4 to v12 have in common, with an enum for
//! each function whose signature changed.

use core::ffi::c_char;

use super::error::AbiError;
use super::props::PropLayout;
use super::sig::{
    Accept, AcceptDevice, Close, Connect, ConnectConfig, ConnectContext, ConnectDevice, DeregMr,
    Devices, Finalize, Fini, GetProperties, Iflush, IflushSingle, Init, InitContext, InitProfiled,
    Irecv, IrecvProfiled, IrecvSingle, IrecvWide, Isend, IsendProfiled, IsendUntagged, IsendWide,
    Listen, ListenContext, RegMr, RegMrInt, Test,
};

#[derive(Debug, Clone, Copy)]
pub(crate) enum InitFn {
    Plain(Init),
    Profiled(InitProfiled),
    Context(InitContext),
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum FiniFn {
    /// Torn down by the plugin's own exit handler: there is nothing to call.
    None,
    Plain(Fini),
    Context(Finalize),
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum ListenFn {
    Plain(Listen),
    Context(ListenContext),
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum ConnectFn {
    Plain(Connect),
    Device(ConnectDevice),
    Config(ConnectConfig),
    Context(ConnectContext),
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum AcceptFn {
    Plain(Accept),
    Device(AcceptDevice),
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum RegMrFn {
    Int(RegMrInt),
    Size(RegMr),
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum IsendFn {
    Untagged(IsendUntagged),
    Int(Isend),
    Size(IsendWide),
    Profiled(IsendProfiled),
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum IrecvFn {
    Single(IrecvSingle),
    Int(Irecv),
    Size(IrecvWide),
    Profiled(IrecvProfiled),
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum IflushFn {
    Single(IflushSingle),
    Many(Iflush),
}

/// The functions of one table, none of them NULL.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ops {
    pub(crate) name: *const c_char,
    pub(crate) props: PropLayout,
    /// Bytes of the handle that listen may write: 64 up to v4, 128 later.
    pub(crate) handle_bytes: usize,
    /// v4: listen, connect and accept may block (protocol 2a.2, decision 18).
    pub(crate) blocking_setup: bool,
    pub(crate) init: InitFn,
    pub(crate) fini: FiniFn,
    pub(crate) devices: Devices,
    pub(crate) get_properties: GetProperties,
    pub(crate) listen: ListenFn,
    pub(crate) connect: ConnectFn,
    pub(crate) accept: AcceptFn,
    pub(crate) reg_mr: RegMrFn,
    pub(crate) dereg_mr: DeregMr,
    pub(crate) isend: IsendFn,
    pub(crate) irecv: IrecvFn,
    pub(crate) iflush: Option<IflushFn>,
    pub(crate) test: Test,
    pub(crate) close_send: Close,
    pub(crate) close_recv: Close,
    pub(crate) close_listen: Close,
}

/// The function in a slot that must not be empty.
pub(crate) fn need<F>(slot: Option<F>, field: &'static str) -> Result<F, AbiError> {
    slot.ok_or(AbiError::NullEntry { field })
}

/// Builds [`Ops`] from a table: the functions that never changed are taken by name, the others
/// with the wrapper of their generation.
macro_rules! ops {
    ($table:expr, $props:expr, handle $bytes:literal, blocking $blocking:literal, fini $fini:expr,
     $($field:ident $wrap:path,)*) => {{
        let t = $table;
        Ok(Ops {
            name: t.name,
            props: $props,
            handle_bytes: $bytes,
            blocking_setup: $blocking,
            fini: $fini,
            devices: need(t.devices, "devices")?,
            get_properties: need(t.get_properties, "getProperties")?,
            dereg_mr: need(t.dereg_mr, "deregMr")?,
            test: need(t.test, "test")?,
            close_send: need(t.close_send, "closeSend")?,
            close_recv: need(t.close_recv, "closeRecv")?,
            close_listen: need(t.close_listen, "closeListen")?,
            $($field: ops!(@ $field t $wrap),)*
        })
    }};
    (@ iflush $t:ident $wrap:path) => { $t.iflush.map($wrap) };
    (@ $field:ident $t:ident $wrap:path) => { $wrap(need($t.$field, stringify!($field))?) };
}
pub(crate) use ops;
