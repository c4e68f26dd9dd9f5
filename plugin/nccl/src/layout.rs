//! The tables of NCCL's net ABI and what their functions are given, byte for byte (protocol 2a.3),
//! checked while compiling.

use core::ffi::{c_char, c_int, c_void};
use core::mem::offset_of;

use ofi_plugin_edge::abi::{LogFn, NcclResult};
use ofi_plugin_edge::profiler::ProfilerFn;
use ofi_plugin_edge::sig::{
    Accept, Close, Connect, DeregMr, Devices, GetProperties, Handle, HandleOut, Iflush, Init,
    Irecv, Isend, Listen, RegMr, RegMrDmaBuf, Test,
};

use crate::properties::{
    PropertiesV6, PropertiesV7, PropertiesV8, PropertiesV9, PropertiesV11, PropertiesV12,
};

/// `ncclNetCommConfig_t` of v10 and later.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CommConfig {
    /// -1: not defined.
    pub traffic_class: c_int,
}

/// `ncclNetDeviceHandle_t` of v7 and later. The argument for it is never touched: with device type
/// HOST nobody looks at it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the fields are those of protocol 2a.3")]
pub struct DeviceHandle {
    pub device_type: c_int,
    pub device_version: c_int,
    pub handle: *mut c_void,
    pub size: usize,
    pub needs_proxy_progress: c_int,
}

/// Half of [`NetAttributes`]: one direction.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the fields are those of protocol 2a.3")]
pub struct CommAttributes {
    pub max_concurrent_peers: c_int,
    pub min_concurrent_peers: c_int,
    pub max_flows_per_peer: c_int,
    pub min_flows_per_peer: c_int,
}

/// `ncclNetAttr_t` of v11 and later.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the fields are those of protocol 2a.3")]
pub struct NetAttributes {
    pub send: CommAttributes,
    pub receive: CommAttributes,
    pub op: u32,
    pub algo: u32,
    pub proto: u32,
}

pub(crate) type InitProfiled =
    unsafe extern "C" fn(Option<LogFn>, Option<ProfilerFn>) -> NcclResult;
pub(crate) type InitContext = unsafe extern "C" fn(
    HandleOut,
    u64,
    *const CommConfig,
    Option<LogFn>,
    Option<ProfilerFn>,
) -> NcclResult;
pub(crate) type ListenContext =
    unsafe extern "C" fn(Handle, c_int, Handle, HandleOut) -> NcclResult;
pub(crate) type ConnectDevice =
    unsafe extern "C" fn(c_int, Handle, HandleOut, *mut *mut DeviceHandle) -> NcclResult;
pub(crate) type ConnectConfig = unsafe extern "C" fn(
    c_int,
    *const CommConfig,
    Handle,
    HandleOut,
    *mut *mut DeviceHandle,
) -> NcclResult;
pub(crate) type ConnectContext =
    unsafe extern "C" fn(Handle, c_int, Handle, HandleOut, *mut *mut DeviceHandle) -> NcclResult;
pub(crate) type AcceptDevice =
    unsafe extern "C" fn(Handle, HandleOut, *mut *mut DeviceHandle) -> NcclResult;
pub(crate) type RegMrInt =
    unsafe extern "C" fn(Handle, Handle, c_int, c_int, HandleOut) -> NcclResult;
pub(crate) type IsendWide =
    unsafe extern "C" fn(Handle, Handle, usize, c_int, Handle, HandleOut) -> NcclResult;
pub(crate) type IsendProfiled =
    unsafe extern "C" fn(Handle, Handle, usize, c_int, Handle, Handle, HandleOut) -> NcclResult;
pub(crate) type IrecvWide = unsafe extern "C" fn(
    Handle,
    c_int,
    HandleOut,
    *mut usize,
    *mut c_int,
    HandleOut,
    HandleOut,
) -> NcclResult;
pub(crate) type IrecvProfiled = unsafe extern "C" fn(
    Handle,
    c_int,
    HandleOut,
    *mut usize,
    *mut c_int,
    HandleOut,
    HandleOut,
    HandleOut,
) -> NcclResult;
pub(crate) type GetDeviceMr = unsafe extern "C" fn(Handle, Handle, HandleOut) -> NcclResult;
pub(crate) type IrecvConsumed = unsafe extern "C" fn(Handle, c_int, Handle) -> NcclResult;
pub(crate) type MakeVDevice = unsafe extern "C" fn(*mut c_int, *mut c_void) -> NcclResult;
pub(crate) type Finalize = unsafe extern "C" fn(Handle) -> NcclResult;
pub(crate) type SetNetAttr = unsafe extern "C" fn(Handle, *mut NetAttributes) -> NcclResult;

/// Declares a table and proves its layout. Slots 0 to 16 are the same calls in every version; what
/// differs are types and the end.
macro_rules! net {
    ($(#[$doc:meta])* $name:ident, $size:literal bytes, $properties:ty,
     $init:ty, $listen:ty, $connect:ty, $accept:ty, $reg_mr:ty, $isend:ty, $irecv:ty,
     { $($field:ident: $type:ty = $slot:literal,)* }) => {
        $(#[$doc])*
        #[repr(C)]
        #[expect(missing_docs, reason = "the slots are those of protocol 2a.3")]
        #[derive(Debug)]
        pub struct $name {
            pub name: *const c_char,
            pub init: $init,
            pub devices: Devices,
            pub get_properties: GetProperties<$properties>,
            pub listen: $listen,
            pub connect: $connect,
            pub accept: $accept,
            pub reg_mr: $reg_mr,
            pub reg_mr_dma_buf: RegMrDmaBuf,
            pub dereg_mr: DeregMr,
            pub isend: $isend,
            pub irecv: $irecv,
            pub iflush: Iflush,
            pub test: Test,
            pub close_send: Close,
            pub close_recv: Close,
            pub close_listen: Close,
            $(pub $field: $type,)*
        }

        const _: () = {
            assert!(size_of::<$name>() == $size);
            assert!(offset_of!($name, name) == 0);
            assert!(offset_of!($name, init) == 8);
            assert!(offset_of!($name, devices) == 2 * 8);
            assert!(offset_of!($name, get_properties) == 3 * 8);
            assert!(offset_of!($name, listen) == 4 * 8);
            assert!(offset_of!($name, connect) == 5 * 8);
            assert!(offset_of!($name, accept) == 6 * 8);
            assert!(offset_of!($name, reg_mr) == 7 * 8);
            assert!(offset_of!($name, reg_mr_dma_buf) == 8 * 8);
            assert!(offset_of!($name, dereg_mr) == 9 * 8);
            assert!(offset_of!($name, isend) == 10 * 8);
            assert!(offset_of!($name, irecv) == 11 * 8);
            assert!(offset_of!($name, iflush) == 12 * 8);
            assert!(offset_of!($name, test) == 13 * 8);
            assert!(offset_of!($name, close_send) == 14 * 8);
            assert!(offset_of!($name, close_recv) == 15 * 8);
            assert!(offset_of!($name, close_listen) == 16 * 8);
            $(assert!(offset_of!($name, $field) == $slot * 8);)*
        };
    };
}

net! {
    /// `ncclNet_v6_t`.
    NetV6, 136 bytes, PropertiesV6, Init, Listen, Connect, Accept, RegMrInt, Isend, Irecv, {}
}
net! {
    /// `ncclNet_v7_t`: device handles beside communicators.
    NetV7, 152 bytes, PropertiesV7, Init, Listen, ConnectDevice, AcceptDevice, RegMrInt, Isend,
    Irecv, {
        get_device_mr: Option<GetDeviceMr> = 17,
        irecv_consumed: Option<IrecvConsumed> = 18,
    }
}
net! {
    /// `ncclNet_v8_t`: regMr takes a `size_t`.
    NetV8, 152 bytes, PropertiesV8, Init, Listen, ConnectDevice, AcceptDevice, RegMr, Isend, Irecv, {
        get_device_mr: Option<GetDeviceMr> = 17,
        irecv_consumed: Option<IrecvConsumed> = 18,
    }
}
net! {
    /// `ncclNet_v9_t`: messages are sized by `size_t`.
    NetV9, 160 bytes, PropertiesV9, Init, Listen, ConnectDevice, AcceptDevice, RegMr, IsendWide,
    IrecvWide, {
        get_device_mr: Option<GetDeviceMr> = 17,
        irecv_consumed: Option<IrecvConsumed> = 18,
        make_vdevice: Option<MakeVDevice> = 19,
    }
}
net! {
    /// `ncclNet_v10_t`: a profiler, and a configuration for each connection.
    NetV10, 160 bytes, PropertiesV9, InitProfiled, Listen, ConnectConfig, AcceptDevice, RegMr,
    IsendProfiled, IrecvProfiled, {
        get_device_mr: Option<GetDeviceMr> = 17,
        irecv_consumed: Option<IrecvConsumed> = 18,
        make_vdevice: Option<MakeVDevice> = 19,
    }
}
net! {
    /// `ncclNet_v11_t`: contexts.
    NetV11, 176 bytes, PropertiesV11, InitContext, ListenContext, ConnectContext, AcceptDevice,
    RegMr, IsendProfiled, IrecvProfiled, {
        get_device_mr: Option<GetDeviceMr> = 17,
        irecv_consumed: Option<IrecvConsumed> = 18,
        make_vdevice: Option<MakeVDevice> = 19,
        finalize: Finalize = 20,
        set_net_attr: Option<SetNetAttr> = 21,
    }
}
net! {
    /// `ncclNet_v12_t`: v11 with other properties.
    NetV12, 176 bytes, PropertiesV12, InitContext, ListenContext, ConnectContext, AcceptDevice,
    RegMr, IsendProfiled, IrecvProfiled, {
        get_device_mr: Option<GetDeviceMr> = 17,
        irecv_consumed: Option<IrecvConsumed> = 18,
        make_vdevice: Option<MakeVDevice> = 19,
        finalize: Finalize = 20,
        set_net_attr: Option<SetNetAttr> = 21,
    }
}

const _: () = {
    assert!(size_of::<CommConfig>() == 4);
    assert!(size_of::<DeviceHandle>() == 32);
    assert!(offset_of!(DeviceHandle, handle) == 8);
    assert!(offset_of!(DeviceHandle, size) == 16);
    assert!(offset_of!(DeviceHandle, needs_proxy_progress) == 24);

    assert!(size_of::<NetAttributes>() == 44);
    assert!(offset_of!(NetAttributes, receive) == 16);
    assert!(offset_of!(NetAttributes, op) == 32);
    assert!(offset_of!(NetAttributes, algo) == 36);
    assert!(offset_of!(NetAttributes, proto) == 40);
};
