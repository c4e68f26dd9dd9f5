//! Device properties: the structs of every version, and one view over them.
//!
//! The plugin fills a zeroed block that is larger than any of the structs; fields are then read by
//! the offsets of the version, so no struct is ever built from foreign bytes.

use core::ffi::{c_char, c_int};
use core::mem::{offset_of, size_of};

/// Bytes given to `getProperties`, several times the largest struct.
pub(crate) const PROPS_ROOM: usize = 512;

/// Declares a properties struct and proves its offsets (protocol 2a.2, 2a.3) when compiled.
macro_rules! props {
    ($(#[$doc:meta])* $name:ident, $size:literal bytes {
        $($field:ident: $ty:ty = $at:literal,)*
    }) => {
        $(#[$doc])*
        #[repr(C)]
        #[derive(Debug)]
        struct $name {
            $($field: $ty,)*
        }
        const _: () = {
            assert!(size_of::<$name>() == $size && $size <= PROPS_ROOM);
            $(assert!(offset_of!($name, $field) == $at);)*
        };
    };
}

/// Virtual device of up to `N` NICs.
#[repr(C)]
#[derive(Debug)]
struct VProps<const N: usize> {
    ndevs: c_int,
    devs: [c_int; N],
}

props! {
    /// v4 of both families.
    PropsV4, 40 bytes {
        name: *const c_char = 0, pci_path: *const c_char = 8, guid: u64 = 16,
        ptr_support: c_int = 24, speed: c_int = 28, port: c_int = 32, max_comms: c_int = 36,
    }
}
props! {
    /// Neuron v5 and v6.
    NeuronProps, 80 bytes {
        name: *const c_char = 0, pci_path: *const c_char = 8, guid: u64 = 16,
        ptr_support: c_int = 24, reg_is_global: c_int = 28, speed: c_int = 32,
        port: c_int = 36, latency: f32 = 40, max_comms: c_int = 44, max_recvs: c_int = 48,
        max_write_inline_size: usize = 56, max_mr_key_size: usize = 64,
        rma_supported: c_int = 72,
    }
}
props! {
    /// NCCL v5 and v6.
    NcclPropsV6, 48 bytes {
        name: *const c_char = 0, pci_path: *const c_char = 8, guid: u64 = 16,
        ptr_support: c_int = 24, speed: c_int = 28, port: c_int = 32, latency: f32 = 36,
        max_comms: c_int = 40, max_recvs: c_int = 44,
    }
}
props! {
    /// NCCL v7.
    NcclPropsV7, 56 bytes {
        name: *const c_char = 0, pci_path: *const c_char = 8, guid: u64 = 16,
        ptr_support: c_int = 24, speed: c_int = 28, port: c_int = 32, latency: f32 = 36,
        max_comms: c_int = 40, max_recvs: c_int = 44, device_type: c_int = 48,
        device_version: c_int = 52,
    }
}
props! {
    /// NCCL v8.
    NcclPropsV8, 64 bytes {
        name: *const c_char = 0, pci_path: *const c_char = 8, guid: u64 = 16,
        ptr_support: c_int = 24, reg_is_global: c_int = 28, speed: c_int = 32,
        port: c_int = 36, latency: f32 = 40, max_comms: c_int = 44, max_recvs: c_int = 48,
        device_type: c_int = 52, device_version: c_int = 56,
    }
}
props! {
    /// NCCL v9 and v10.
    NcclPropsV9, 104 bytes {
        name: *const c_char = 0, pci_path: *const c_char = 8, guid: u64 = 16,
        ptr_support: c_int = 24, reg_is_global: c_int = 28, force_flush: c_int = 32,
        speed: c_int = 36, port: c_int = 40, latency: f32 = 44, max_comms: c_int = 48,
        max_recvs: c_int = 52, device_type: c_int = 56, device_version: c_int = 60,
        vprops: VProps<4> = 64, max_p2p_bytes: usize = 88, max_coll_bytes: usize = 96,
    }
}
props! {
    /// NCCL v11.
    NcclPropsV11, 112 bytes {
        name: *const c_char = 0, pci_path: *const c_char = 8, guid: u64 = 16,
        ptr_support: c_int = 24, reg_is_global: c_int = 28, force_flush: c_int = 32,
        speed: c_int = 36, port: c_int = 40, latency: f32 = 44, max_comms: c_int = 48,
        max_recvs: c_int = 52, device_type: c_int = 56, device_version: c_int = 60,
        vprops: VProps<4> = 64, max_p2p_bytes: usize = 88, max_coll_bytes: usize = 96,
        max_multi_request_size: c_int = 104,
    }
}
props! {
    /// NCCL v12.
    NcclPropsV12, 128 bytes {
        name: *const c_char = 0, pci_path: *const c_char = 8, guid: u64 = 16,
        ptr_support: c_int = 24, reg_is_global: c_int = 28, force_flush: c_int = 32,
        speed: c_int = 36, port: c_int = 40, latency: f32 = 44, max_comms: c_int = 48,
        max_recvs: c_int = 52, device_type: c_int = 56, device_version: c_int = 60,
        vprops: VProps<8> = 64, max_p2p_bytes: usize = 104, max_coll_bytes: usize = 112,
        max_multi_request_size: c_int = 120, rail_id: i16 = 124, plane_id: i16 = 126,
    }
}

/// Where the fields of one version stand, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PropLayout {
    ptr_support: usize,
    speed: usize,
    port: usize,
    max_comms: usize,
    latency: Option<usize>,
    max_recvs: Option<usize>,
    reg_is_global: Option<usize>,
}

/// The offsets of one struct; the named extras are those that not every version has.
macro_rules! layout {
    ($t:ty $(, $extra:ident)*) => {
        PropLayout {
            $($extra: Some(offset_of!($t, $extra)),)*
            ..PropLayout {
                ptr_support: offset_of!($t, ptr_support),
                speed: offset_of!($t, speed),
                port: offset_of!($t, port),
                max_comms: offset_of!($t, max_comms),
                latency: None,
                max_recvs: None,
                reg_is_global: None,
            }
        }
    };
}

impl PropLayout {
    /// Neuron's v4, v5 or v6.
    pub(crate) const fn neuron(version: u32) -> Self {
        match version {
            4 => layout!(PropsV4),
            _ => layout!(NeuronProps, latency, max_recvs, reg_is_global),
        }
    }

    /// NCCL's v6 to v12.
    pub(crate) const fn nccl(version: u32) -> Self {
        match version {
            6 => layout!(NcclPropsV6, latency, max_recvs),
            7 => layout!(NcclPropsV7, latency, max_recvs),
            8 => layout!(NcclPropsV8, latency, max_recvs, reg_is_global),
            9 | 10 => layout!(NcclPropsV9, latency, max_recvs, reg_is_global),
            11 => layout!(NcclPropsV11, latency, max_recvs, reg_is_global),
            _ => layout!(NcclPropsV12, latency, max_recvs, reg_is_global),
        }
    }

    /// Reads the block that the plugin filled. Strings are the caller's to copy: the two pointers
    /// are returned beside the numbers.
    pub(crate) fn read(&self, raw: &PropBlock) -> Properties {
        let int = |at: usize| i32::from_ne_bytes(raw.bytes(at));
        let pointer = |at: usize| usize::from_ne_bytes(raw.bytes(at));
        Properties {
            name: pointer(0),
            pci_path: pointer(8),
            guid: u64::from_ne_bytes(raw.bytes(16)),
            ptr_support: int(self.ptr_support),
            speed_mbps: int(self.speed),
            port: int(self.port),
            max_comms: int(self.max_comms),
            latency_us: self
                .latency
                .map_or(0.0, |at| f32::from_ne_bytes(raw.bytes(at))),
            max_recvs: self.max_recvs.map_or(1, int),
            reg_is_global: self.reg_is_global.map(|at| int(at) != 0),
        }
    }
}

/// Memory for `getProperties`: zeroed, 8-byte aligned.
#[repr(C, align(8))]
#[derive(Debug)]
pub(crate) struct PropBlock(pub(crate) [u8; PROPS_ROOM]);

impl PropBlock {
    pub(crate) const fn zeroed() -> Self {
        Self([0; PROPS_ROOM])
    }

    fn bytes<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut out = [0; N];
        out.copy_from_slice(&self.0[at..at + N]);
        out
    }
}

/// What a plugin says of one device; the two strings still as addresses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Properties {
    pub(crate) name: usize,
    pub(crate) pci_path: usize,
    pub(crate) guid: u64,
    pub(crate) ptr_support: i32,
    pub(crate) speed_mbps: i32,
    pub(crate) port: i32,
    pub(crate) max_comms: i32,
    pub(crate) latency_us: f32,
    pub(crate) max_recvs: i32,
    /// None: this version does not say.
    pub(crate) reg_is_global: Option<bool>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_where_each_version_has_them() {
        for (layout, speed, recvs) in [
            (PropLayout::neuron(4), 28, None),
            (PropLayout::neuron(6), 32, Some(48)),
            (PropLayout::nccl(6), 28, Some(44)),
            (PropLayout::nccl(8), 32, Some(48)),
            (PropLayout::nccl(9), 36, Some(52)),
            (PropLayout::nccl(12), 36, Some(52)),
        ] {
            let mut block = PropBlock::zeroed();
            block.0[16..24].copy_from_slice(&0x1122_3344_5566_7788_u64.to_ne_bytes());
            block.0[speed..speed + 4].copy_from_slice(&100_000_i32.to_ne_bytes());
            if let Some(at) = recvs {
                block.0[at..at + 4].copy_from_slice(&8_i32.to_ne_bytes());
            }
            let p = layout.read(&block);
            assert_eq!(p.speed_mbps, 100_000);
            assert_eq!(p.guid, 0x1122_3344_5566_7788);
            assert_eq!(p.max_recvs, if recvs.is_some() { 8 } else { 1 });
        }
    }
}
