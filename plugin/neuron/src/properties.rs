//! Device properties in the shapes of the tables.

use core::ffi::{CStr, c_char};
use core::ptr;

use ofi_plugin_edge::life::DeviceView;

use crate::layout::{PropertiesV4, PropertiesV5};

fn pointer(text: Option<&'static CStr>) -> *const c_char {
    text.map_or(ptr::null(), CStr::as_ptr)
}

impl From<DeviceView> for PropertiesV4 {
    fn from(view: DeviceView) -> Self {
        Self {
            name: view.name.as_ptr(),
            pci_path: pointer(view.pci_path),
            guid: view.guid,
            ptr_support: view.ptr_support,
            speed: view.speed,
            port: view.port,
            max_comms: view.max_comms,
        }
    }
}

impl From<DeviceView> for PropertiesV5 {
    fn from(view: DeviceView) -> Self {
        Self {
            name: view.name.as_ptr(),
            pci_path: pointer(view.pci_path),
            guid: view.guid,
            ptr_support: view.ptr_support,
            reg_is_global: view.reg_is_global,
            speed: view.speed,
            port: view.port,
            latency: view.latency,
            max_comms: view.max_comms,
            max_recvs: view.max_recvs,
            max_write_inline_size: view.max_write_inline_size,
            max_mr_key_size: view.max_mr_key_size,
            rma_supported: view.rma_supported,
        }
    }
}
