//! Device properties in the shapes of the tables, byte for byte (protocol 2a.3), checked while
//! compiling.

use core::ffi::{CStr, c_char, c_int};
use core::mem::offset_of;
use core::ptr;

use ofi_plugin_edge::life::DeviceView;

/// `NCCL_NET_DEVICE_HOST`: the host drives the network.
const DEVICE_HOST: c_int = 0;
/// `NCCL_NET_DEVICE_INVALID_VERSION`.
const DEVICE_VERSION: c_int = 0;
/// No number of a rail or plane is known.
const UNKNOWN: i16 = -1;

/// Which devices a virtual one is made of: of itself alone, here.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VirtualProperties<const N: usize> {
    /// How many.
    pub ndevs: c_int,
    /// Their numbers.
    pub devs: [c_int; N],
}

impl<const N: usize> VirtualProperties<N> {
    fn of(index: c_int) -> Self {
        let mut devs = [0; N];
        devs[0] = index;
        Self { ndevs: 1, devs }
    }
}

/// Declares the struct of one version, proves its layout, and fills it.
macro_rules! properties {
    ($(#[$doc:meta])* $name:ident, $size:literal bytes, $view:ident {
        $($field:ident: $type:ty = $offset:literal, $value:expr;)*
    }) => {
        $(#[$doc])*
        #[repr(C)]
        #[expect(missing_docs, reason = "the fields are those of protocol 2a.3")]
        #[derive(Clone, Copy, Debug)]
        pub struct $name {
            $(pub $field: $type,)*
        }

        const _: () = {
            assert!(size_of::<$name>() == $size);
            $(assert!(offset_of!($name, $field) == $offset);)*
        };

        impl From<DeviceView> for $name {
            fn from($view: DeviceView) -> Self {
                Self { $($field: $value,)* }
            }
        }
    };
}

fn pointer(text: Option<&'static CStr>) -> *const c_char {
    text.map_or(ptr::null(), CStr::as_ptr)
}

properties! {
    /// `ncclNetProperties_v6_t`.
    PropertiesV6, 48 bytes, view {
        name: *const c_char = 0, view.name.as_ptr();
        pci_path: *const c_char = 8, pointer(view.pci_path);
        guid: u64 = 16, view.guid;
        ptr_support: c_int = 24, view.ptr_support;
        speed: c_int = 28, view.speed;
        port: c_int = 32, view.port;
        latency: f32 = 36, view.latency;
        max_comms: c_int = 40, view.max_comms;
        max_recvs: c_int = 44, view.max_recvs;
    }
}

properties! {
    /// `ncclNetProperties_v7_t`.
    PropertiesV7, 56 bytes, view {
        name: *const c_char = 0, view.name.as_ptr();
        pci_path: *const c_char = 8, pointer(view.pci_path);
        guid: u64 = 16, view.guid;
        ptr_support: c_int = 24, view.ptr_support;
        speed: c_int = 28, view.speed;
        port: c_int = 32, view.port;
        latency: f32 = 36, view.latency;
        max_comms: c_int = 40, view.max_comms;
        max_recvs: c_int = 44, view.max_recvs;
        device_type: c_int = 48, DEVICE_HOST;
        device_version: c_int = 52, DEVICE_VERSION;
    }
}

properties! {
    /// `ncclNetProperties_v8_t`.
    PropertiesV8, 64 bytes, view {
        name: *const c_char = 0, view.name.as_ptr();
        pci_path: *const c_char = 8, pointer(view.pci_path);
        guid: u64 = 16, view.guid;
        ptr_support: c_int = 24, view.ptr_support;
        reg_is_global: c_int = 28, view.reg_is_global;
        speed: c_int = 32, view.speed;
        port: c_int = 36, view.port;
        latency: f32 = 40, view.latency;
        max_comms: c_int = 44, view.max_comms;
        max_recvs: c_int = 48, view.max_recvs;
        device_type: c_int = 52, DEVICE_HOST;
        device_version: c_int = 56, DEVICE_VERSION;
    }
}

properties! {
    /// `ncclNetProperties_v9_t`, and that of v10.
    PropertiesV9, 104 bytes, view {
        name: *const c_char = 0, view.name.as_ptr();
        pci_path: *const c_char = 8, pointer(view.pci_path);
        guid: u64 = 16, view.guid;
        ptr_support: c_int = 24, view.ptr_support;
        reg_is_global: c_int = 28, view.reg_is_global;
        // Always assigned: the reference leaves what was in the caller's memory.
        force_flush: c_int = 32, 0;
        speed: c_int = 36, view.speed;
        port: c_int = 40, view.port;
        latency: f32 = 44, view.latency;
        max_comms: c_int = 48, view.max_comms;
        max_recvs: c_int = 52, view.max_recvs;
        device_type: c_int = 56, DEVICE_HOST;
        device_version: c_int = 60, DEVICE_VERSION;
        virtual_properties: VirtualProperties<4> = 64, VirtualProperties::of(view.index);
        max_p2p_bytes: usize = 88, view.max_message_bytes;
        max_coll_bytes: usize = 96, view.max_message_bytes;
    }
}

properties! {
    /// `ncclNetProperties_v11_t`.
    PropertiesV11, 112 bytes, view {
        v10: PropertiesV9 = 0, PropertiesV9::from(view);
        // Requests are never combined.
        max_multi_request_size: c_int = 104, 1;
    }
}

properties! {
    /// `ncclNetProperties_v12_t`.
    PropertiesV12, 128 bytes, view {
        name: *const c_char = 0, view.name.as_ptr();
        pci_path: *const c_char = 8, pointer(view.pci_path);
        guid: u64 = 16, view.guid;
        ptr_support: c_int = 24, view.ptr_support;
        reg_is_global: c_int = 28, view.reg_is_global;
        force_flush: c_int = 32, 0;
        speed: c_int = 36, view.speed;
        port: c_int = 40, view.port;
        latency: f32 = 44, view.latency;
        max_comms: c_int = 48, view.max_comms;
        max_recvs: c_int = 52, view.max_recvs;
        device_type: c_int = 56, DEVICE_HOST;
        device_version: c_int = 60, DEVICE_VERSION;
        virtual_properties: VirtualProperties<8> = 64, VirtualProperties::of(view.index);
        max_p2p_bytes: usize = 104, view.max_message_bytes;
        max_coll_bytes: usize = 112, view.max_message_bytes;
        max_multi_request_size: c_int = 120, 1;
        rail_id: i16 = 124, UNKNOWN;
        plane_id: i16 = 126, UNKNOWN;
    }
}
