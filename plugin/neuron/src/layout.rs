//! The structs of Neuron's net ABI, byte for byte (protocol 2a.2), checked while compiling.

use core::ffi::{c_char, c_int};
use core::mem::offset_of;

use ofi_plugin_edge::abi::NcclResult;
use ofi_plugin_edge::sig::{
    Accept, Close, Connect, DeregMr, Devices, Fini, GetProperties, Handle, HandleOut, Iflush, Init,
    Irecv, Isend, Listen, RegMr, RegMrDmaBuf, Test,
};

/// What getProperties of v4 fills.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PropertiesV4 {
    /// Device name.
    pub name: *const c_char,
    /// Path in sysfs, or NULL.
    pub pci_path: *const c_char,
    /// Unique number.
    pub guid: u64,
    /// Memory types.
    pub ptr_support: c_int,
    /// Mb/s.
    pub speed: c_int,
    /// Port number.
    pub port: c_int,
    /// Communicators there can be.
    pub max_comms: c_int,
}

/// What getProperties of v5 and v6 fills.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PropertiesV5 {
    /// Device name.
    pub name: *const c_char,
    /// Path in sysfs, or NULL.
    pub pci_path: *const c_char,
    /// Unique number.
    pub guid: u64,
    /// Memory types.
    pub ptr_support: c_int,
    /// A registration serves all communicators.
    pub reg_is_global: c_int,
    /// Mb/s.
    pub speed: c_int,
    /// Port number.
    pub port: c_int,
    /// Microseconds.
    pub latency: f32,
    /// Communicators there can be.
    pub max_comms: c_int,
    /// Buffers of one receive.
    pub max_recvs: c_int,
    /// Bytes of an inline write.
    pub max_write_inline_size: usize,
    /// Bytes of a memory key.
    pub max_mr_key_size: usize,
    /// One-sided calls work.
    pub rma_supported: c_int,
}

pub(crate) type MessageV4 =
    unsafe extern "C" fn(Handle, Handle, c_int, Handle, HandleOut) -> NcclResult;
pub(crate) type GetMrKey = unsafe extern "C" fn(Handle, *mut u64) -> NcclResult;
pub(crate) type OneSided =
    unsafe extern "C" fn(Handle, Handle, usize, Handle, u64, u64, HandleOut) -> NcclResult;
pub(crate) type WriteInline =
    unsafe extern "C" fn(Handle, Handle, usize, u64, u64, HandleOut) -> NcclResult;

/// `ncclNet_v4_t`, 16 slots.
#[repr(C)]
#[expect(missing_docs, reason = "the slots are those of protocol 2a.2")]
#[derive(Debug)]
pub struct NetV4 {
    pub name: *const c_char,
    pub init: Init,
    pub devices: Devices,
    pub get_properties: GetProperties<PropertiesV4>,
    pub listen: Listen,
    pub connect: Connect,
    pub accept: Accept,
    pub reg_mr: RegMr,
    pub dereg_mr: DeregMr,
    pub isend: MessageV4,
    pub irecv: MessageV4,
    pub iflush: MessageV4,
    pub test: Test,
    pub close_send: Close,
    pub close_recv: Close,
    pub close_listen: Close,
}

/// `ncclNet_v5_t`, 21 slots.
#[repr(C)]
#[expect(missing_docs, reason = "the slots are those of protocol 2a.2")]
#[derive(Debug)]
pub struct NetV5 {
    pub name: *const c_char,
    pub init: Init,
    pub devices: Devices,
    pub get_properties: GetProperties<PropertiesV5>,
    pub listen: Listen,
    pub connect: Connect,
    pub accept: Accept,
    pub reg_mr: RegMr,
    pub reg_mr_dma_buf: RegMrDmaBuf,
    pub dereg_mr: DeregMr,
    pub isend: Isend,
    pub irecv: Irecv,
    pub iflush: Iflush,
    pub test: Test,
    pub close_send: Close,
    pub close_recv: Close,
    pub close_listen: Close,
    pub get_mr_key: GetMrKey,
    pub iwrite: OneSided,
    pub iwrite_inline: WriteInline,
    pub iread: OneSided,
}

/// `ncclNet_v6_t`, 22 slots: v5 with fini.
#[repr(C)]
#[expect(missing_docs, reason = "the slots are those of protocol 2a.2")]
#[derive(Debug)]
pub struct NetV6 {
    pub name: *const c_char,
    pub init: Init,
    pub fini: Fini,
    pub devices: Devices,
    pub get_properties: GetProperties<PropertiesV5>,
    pub listen: Listen,
    pub connect: Connect,
    pub accept: Accept,
    pub reg_mr: RegMr,
    pub reg_mr_dma_buf: RegMrDmaBuf,
    pub dereg_mr: DeregMr,
    pub isend: Isend,
    pub irecv: Irecv,
    pub iflush: Iflush,
    pub test: Test,
    pub close_send: Close,
    pub close_recv: Close,
    pub close_listen: Close,
    pub get_mr_key: GetMrKey,
    pub iwrite: OneSided,
    pub iwrite_inline: WriteInline,
    pub iread: OneSided,
}

const _: () = {
    assert!(size_of::<PropertiesV4>() == 40);
    assert!(offset_of!(PropertiesV4, guid) == 16);
    assert!(offset_of!(PropertiesV4, ptr_support) == 24);
    assert!(offset_of!(PropertiesV4, speed) == 28);
    assert!(offset_of!(PropertiesV4, port) == 32);
    assert!(offset_of!(PropertiesV4, max_comms) == 36);

    assert!(size_of::<PropertiesV5>() == 80);
    assert!(offset_of!(PropertiesV5, guid) == 16);
    assert!(offset_of!(PropertiesV5, ptr_support) == 24);
    assert!(offset_of!(PropertiesV5, reg_is_global) == 28);
    assert!(offset_of!(PropertiesV5, speed) == 32);
    assert!(offset_of!(PropertiesV5, port) == 36);
    assert!(offset_of!(PropertiesV5, latency) == 40);
    assert!(offset_of!(PropertiesV5, max_comms) == 44);
    assert!(offset_of!(PropertiesV5, max_recvs) == 48);
    assert!(offset_of!(PropertiesV5, max_write_inline_size) == 56);
    assert!(offset_of!(PropertiesV5, max_mr_key_size) == 64);
    assert!(offset_of!(PropertiesV5, rma_supported) == 72);

    assert!(size_of::<NetV4>() == 128);
    assert!(offset_of!(NetV4, init) == 8);
    assert!(offset_of!(NetV4, reg_mr) == 7 * 8);
    assert!(offset_of!(NetV4, isend) == 9 * 8);
    assert!(offset_of!(NetV4, close_listen) == 15 * 8);

    assert!(size_of::<NetV5>() == 168);
    assert!(offset_of!(NetV5, reg_mr_dma_buf) == 8 * 8);
    assert!(offset_of!(NetV5, isend) == 10 * 8);
    assert!(offset_of!(NetV5, get_mr_key) == 17 * 8);
    assert!(offset_of!(NetV5, iread) == 20 * 8);

    assert!(size_of::<NetV6>() == 176);
    assert!(offset_of!(NetV6, fini) == 2 * 8);
    assert!(offset_of!(NetV6, devices) == 3 * 8);
    assert!(offset_of!(NetV6, isend) == 11 * 8);
    assert!(offset_of!(NetV6, get_mr_key) == 18 * 8);
    assert!(offset_of!(NetV6, iread) == 21 * 8);
};
