//! The Neuron tables `ncclNetPlugin_v4`, `_v5` and `_v6` (protocol 2a.2).

use core::ffi::c_char;

use super::error::AbiError;
use super::ops::{
    AcceptFn, ConnectFn, FiniFn, IflushFn, InitFn, IrecvFn, IsendFn, ListenFn, Ops, RegMrFn, need,
    ops,
};
use super::props::PropLayout;
use super::sig::{
    Accept, Close, Connect, DeregMr, Devices, Fini, GetProperties, Iflush, IflushSingle, Init,
    Irecv, IrecvSingle, Isend, IsendUntagged, Listen, RegMr, Test, Unused, table,
};

table! {
    /// v4: no tags, one buffer a receive, blocking connect and accept.
    V4, 128 bytes {
        name: *const c_char = 0,
        init: Option<Init> = 1,
        devices: Option<Devices> = 2,
        get_properties: Option<GetProperties> = 3,
        listen: Option<Listen> = 4,
        connect: Option<Connect> = 5,
        accept: Option<Accept> = 6,
        reg_mr: Option<RegMr> = 7,
        dereg_mr: Option<DeregMr> = 8,
        isend: Option<IsendUntagged> = 9,
        irecv: Option<IrecvSingle> = 10,
        iflush: Option<IflushSingle> = 11,
        test: Option<Test> = 12,
        close_send: Option<Close> = 13,
        close_recv: Option<Close> = 14,
        close_listen: Option<Close> = 15,
    }
}

table! {
    /// v5: tags, grouped receives, one-sided calls.
    V5, 168 bytes {
        name: *const c_char = 0,
        init: Option<Init> = 1,
        devices: Option<Devices> = 2,
        get_properties: Option<GetProperties> = 3,
        listen: Option<Listen> = 4,
        connect: Option<Connect> = 5,
        accept: Option<Accept> = 6,
        reg_mr: Option<RegMr> = 7,
        _reg_mr_dma_buf: Unused = 8,
        dereg_mr: Option<DeregMr> = 9,
        isend: Option<Isend> = 10,
        irecv: Option<Irecv> = 11,
        iflush: Option<Iflush> = 12,
        test: Option<Test> = 13,
        close_send: Option<Close> = 14,
        close_recv: Option<Close> = 15,
        close_listen: Option<Close> = 16,
        _get_mr_key: Unused = 17,
        _iwrite: Unused = 18,
        _iwrite_inline: Unused = 19,
        _iread: Unused = 20,
    }
}

table! {
    /// v6: as v5, with `fini` in slot 2.
    V6, 176 bytes {
        name: *const c_char = 0,
        init: Option<Init> = 1,
        fini: Option<Fini> = 2,
        devices: Option<Devices> = 3,
        get_properties: Option<GetProperties> = 4,
        listen: Option<Listen> = 5,
        connect: Option<Connect> = 6,
        accept: Option<Accept> = 7,
        reg_mr: Option<RegMr> = 8,
        _reg_mr_dma_buf: Unused = 9,
        dereg_mr: Option<DeregMr> = 10,
        isend: Option<Isend> = 11,
        irecv: Option<Irecv> = 12,
        iflush: Option<Iflush> = 13,
        test: Option<Test> = 14,
        close_send: Option<Close> = 15,
        close_recv: Option<Close> = 16,
        close_listen: Option<Close> = 17,
        _get_mr_key: Unused = 18,
        _iwrite: Unused = 19,
        _iwrite_inline: Unused = 20,
        _iread: Unused = 21,
    }
}

impl V4 {
    pub(crate) fn ops(&self) -> Result<Ops, AbiError> {
        ops!(
            self, PropLayout::neuron(4), handle 64, blocking true, fini FiniFn::None,
            init InitFn::Plain, listen ListenFn::Plain, connect ConnectFn::Plain,
            accept AcceptFn::Plain, reg_mr RegMrFn::Size, isend IsendFn::Untagged,
            irecv IrecvFn::Single, iflush IflushFn::Single,
        )
    }
}

impl V5 {
    pub(crate) fn ops(&self) -> Result<Ops, AbiError> {
        ops!(
            self, PropLayout::neuron(6), handle 128, blocking false, fini FiniFn::None,
            init InitFn::Plain, listen ListenFn::Plain, connect ConnectFn::Plain,
            accept AcceptFn::Plain, reg_mr RegMrFn::Size, isend IsendFn::Int,
            irecv IrecvFn::Int, iflush IflushFn::Many,
        )
    }
}

impl V6 {
    pub(crate) fn ops(&self) -> Result<Ops, AbiError> {
        ops!(
            self, PropLayout::neuron(6), handle 128, blocking false,
            fini FiniFn::Plain(need(self.fini, "fini")?),
            init InitFn::Plain, listen ListenFn::Plain, connect ConnectFn::Plain,
            accept AcceptFn::Plain, reg_mr RegMrFn::Size, isend IsendFn::Int,
            irecv IrecvFn::Int, iflush IflushFn::Many,
        )
    }
}
