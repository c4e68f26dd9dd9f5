//! The NCCL tables `ncclNetPlugin_v6` to `_v12` (protocol 2a.3).

use core::ffi::c_char;

use super::error::AbiError;
use super::ops::{
    AcceptFn, ConnectFn, FiniFn, IflushFn, InitFn, IrecvFn, IsendFn, ListenFn, Ops, RegMrFn, need,
    ops,
};
use super::props::PropLayout;
use super::sig::{
    Accept, AcceptDevice, Close, Connect, ConnectConfig, ConnectContext, ConnectDevice, DeregMr,
    Devices, Finalize, GetProperties, Iflush, Init, InitContext, InitProfiled, Irecv,
    IrecvProfiled, IrecvWide, Isend, IsendProfiled, IsendWide, Listen, ListenContext, RegMr,
    RegMrInt, Test, Unused, table,
};

/// The slots 0 to 16 are the same in all of v6 to v12; what differs are signatures and the tail.
macro_rules! nccl_table {
    ($(#[$doc:meta])* $name:ident, $size:literal bytes,
     $init:ty, $listen:ty, $connect:ty, $accept:ty, $reg_mr:ty, $isend:ty, $irecv:ty,
     { $($field:ident: $ty:ty = $slot:literal,)* }) => {
        table! {
            $(#[$doc])*
            $name, $size bytes {
                name: *const c_char = 0,
                init: Option<$init> = 1,
                devices: Option<Devices> = 2,
                get_properties: Option<GetProperties> = 3,
                listen: Option<$listen> = 4,
                connect: Option<$connect> = 5,
                accept: Option<$accept> = 6,
                reg_mr: Option<$reg_mr> = 7,
                _reg_mr_dma_buf: Unused = 8,
                dereg_mr: Option<DeregMr> = 9,
                isend: Option<$isend> = 10,
                irecv: Option<$irecv> = 11,
                iflush: Option<Iflush> = 12,
                test: Option<Test> = 13,
                close_send: Option<Close> = 14,
                close_recv: Option<Close> = 15,
                close_listen: Option<Close> = 16,
                $($field: $ty = $slot,)*
            }
        }
    };
}

nccl_table! {
    /// v6: regMr with an `int` size.
    V6, 136 bytes, Init, Listen, Connect, Accept, RegMrInt, Isend, Irecv, {}
}
nccl_table! {
    /// v7: device handles beside the communicators.
    V7, 152 bytes, Init, Listen, ConnectDevice, AcceptDevice, RegMrInt, Isend, Irecv, {
        _get_device_mr: Unused = 17,
        _irecv_consumed: Unused = 18,
    }
}
nccl_table! {
    /// v8: regMr with a `size_t` size.
    V8, 152 bytes, Init, Listen, ConnectDevice, AcceptDevice, RegMr, Isend, Irecv, {
        _get_device_mr: Unused = 17,
        _irecv_consumed: Unused = 18,
    }
}
nccl_table! {
    /// v9: `size_t` message sizes.
    V9, 160 bytes, Init, Listen, ConnectDevice, AcceptDevice, RegMr, IsendWide, IrecvWide, {
        _get_device_mr: Unused = 17,
        _irecv_consumed: Unused = 18,
        _make_vdevice: Unused = 19,
    }
}
nccl_table! {
    /// v10: profiler handles, a configuration at connect.
    V10, 160 bytes, InitProfiled, Listen, ConnectConfig, AcceptDevice, RegMr, IsendProfiled,
    IrecvProfiled, {
        _get_device_mr: Unused = 17,
        _irecv_consumed: Unused = 18,
        _make_vdevice: Unused = 19,
    }
}
nccl_table! {
    /// v11 and v12: contexts, finalize.
    V11, 176 bytes, InitContext, ListenContext, ConnectContext, AcceptDevice, RegMr,
    IsendProfiled, IrecvProfiled, {
        _get_device_mr: Unused = 17,
        _irecv_consumed: Unused = 18,
        _make_vdevice: Unused = 19,
        finalize: Option<Finalize> = 20,
        _set_net_attr: Unused = 21,
    }
}

impl V6 {
    pub(crate) fn ops(&self) -> Result<Ops, AbiError> {
        ops!(
            self, PropLayout::nccl(6), handle 128, blocking false, fini FiniFn::None,
            init InitFn::Plain, listen ListenFn::Plain, connect ConnectFn::Plain,
            accept AcceptFn::Plain, reg_mr RegMrFn::Int, isend IsendFn::Int, irecv IrecvFn::Int,
            iflush IflushFn::Many,
        )
    }
}

impl V7 {
    pub(crate) fn ops(&self) -> Result<Ops, AbiError> {
        ops!(
            self, PropLayout::nccl(7), handle 128, blocking false, fini FiniFn::None,
            init InitFn::Plain, listen ListenFn::Plain, connect ConnectFn::Device,
            accept AcceptFn::Device, reg_mr RegMrFn::Int, isend IsendFn::Int, irecv IrecvFn::Int,
            iflush IflushFn::Many,
        )
    }
}

impl V8 {
    pub(crate) fn ops(&self) -> Result<Ops, AbiError> {
        ops!(
            self, PropLayout::nccl(8), handle 128, blocking false,
            fini FiniFn::None,
            init InitFn::Plain, listen ListenFn::Plain, connect ConnectFn::Device,
            accept AcceptFn::Device, reg_mr RegMrFn::Size, isend IsendFn::Int, irecv IrecvFn::Int,
            iflush IflushFn::Many,
        )
    }
}

impl V9 {
    pub(crate) fn ops(&self) -> Result<Ops, AbiError> {
        ops!(
            self, PropLayout::nccl(9), handle 128, blocking false,
            fini FiniFn::None,
            init InitFn::Plain, listen ListenFn::Plain, connect ConnectFn::Device,
            accept AcceptFn::Device, reg_mr RegMrFn::Size, isend IsendFn::Size,
            irecv IrecvFn::Size, iflush IflushFn::Many,
        )
    }
}

impl V10 {
    pub(crate) fn ops(&self) -> Result<Ops, AbiError> {
        ops!(
            self, PropLayout::nccl(9), handle 128, blocking false,
            fini FiniFn::None,
            init InitFn::Profiled, listen ListenFn::Plain, connect ConnectFn::Config,
            accept AcceptFn::Device, reg_mr RegMrFn::Size, isend IsendFn::Profiled,
            irecv IrecvFn::Profiled, iflush IflushFn::Many,
        )
    }
}

impl V11 {
    /// v11 and v12 differ in the properties only.
    pub(crate) fn ops(&self, version: u32) -> Result<Ops, AbiError> {
        ops!(
            self, PropLayout::nccl(version), handle 128, blocking false,
            fini FiniFn::Context(need(self.finalize, "finalize")?),
            init InitFn::Context, listen ListenFn::Context, connect ConnectFn::Context,
            accept AcceptFn::Device, reg_mr RegMrFn::Size, isend IsendFn::Profiled,
            irecv IrecvFn::Profiled, iflush IflushFn::Many,
        )
    }
}
