//! The device's attributes: an object that hangs off an `fi_info`, which libfabric copies, prints and
//! closes with it.

use core::ffi::{c_char, c_int, c_void};
use std::ffi::CString;

use ofi_sys::bindings as b;
use ofi_sys::consts as c;
use ofi_sys::errno as e;

use crate::fi::guard::guarded;
use crate::shape::NicSpec;

/// The object: what C sees first, what it points to after.
#[repr(C)]
struct Object {
    nic: b::fid_nic,
    device: b::fi_device_attr,
    bus: b::fi_bus_attr,
    link: b::fi_link_attr,
    /// Owns what the attributes point to.
    _texts: Vec<CString>,
    spec: NicSpec,
}

static OPS: b::fi_ops = b::fi_ops {
    size: size_of::<b::fi_ops>(),
    close: Some(close),
    bind: Some(crate::fi::none::bind),
    control: Some(control),
    ops_open: Some(crate::fi::none::ops_open),
    tostr: Some(tostr),
    ops_set: Some(crate::fi::none::ops_set),
};

/// Makes the object of a NIC.
pub(super) fn object(spec: &NicSpec) -> *mut b::fid_nic {
    let text = |text: &str| CString::new(text).unwrap_or_default();
    let mtu = spec.mtu;
    let texts = vec![
        text(&spec.name),
        text(&spec.device_id),
        text(&spec.device_version),
        text(&spec.vendor_id),
        text(&spec.driver),
        text(&spec.firmware),
        text(&format!("EFA-{:016x}", spec.guid)),
        text("Ethernet"),
    ];
    let at = |i: usize| {
        texts
            .get(i)
            .map_or(core::ptr::null_mut(), |t| t.as_ptr().cast_mut())
    };
    let device = b::fi_device_attr {
        name: at(0),
        device_id: at(1),
        device_version: at(2),
        vendor_id: at(3),
        driver: at(4),
        firmware: at(5),
    };
    let link = b::fi_link_attr {
        address: at(6),
        mtu,
        speed: usize::try_from(spec.speed_bps).unwrap_or(usize::MAX),
        state: b::FI_LINK_UP,
        network_type: at(7),
    };
    let bus = b::fi_bus_attr {
        bus_type: b::FI_BUS_PCI,
        attr: b::fi_bus_attr_union {
            pci: b::fi_pci_attr {
                domain_id: spec.pci.domain,
                bus_id: spec.pci.bus,
                device_id: spec.pci.device,
                function_id: spec.pci.function,
            },
        },
    };
    let nic = b::fid_nic {
        fid: b::fid {
            fclass: c::FI_CLASS_NIC,
            context: core::ptr::null_mut(),
            ops: (&raw const OPS).cast_mut(),
        },
        ..Default::default()
    };
    let object = Box::into_raw(Box::new(Object {
        nic,
        device,
        bus,
        link,
        _texts: texts,
        spec: spec.clone(),
    }));
    // SAFETY: just made.
    let inside = unsafe { &mut *object };
    inside.nic.device_attr = &raw mut inside.device;
    inside.nic.bus_attr = &raw mut inside.bus;
    inside.nic.link_attr = &raw mut inside.link;
    &raw mut inside.nic
}

unsafe extern "C" fn close(fid: *mut b::fid) -> c_int {
    guarded(|| {
        // SAFETY: fi_nic(3): an object of this provider that nobody uses any more.
        drop(unsafe { Box::from_raw(fid.cast::<Object>()) });
        Ok(())
    })
}

unsafe extern "C" fn control(fid: *mut b::fid, command: c_int, arg: *mut c_void) -> c_int {
    guarded(|| {
        if command != c::FI_DUP || arg.is_null() {
            return Err(e::FI_ENOSYS);
        }
        // SAFETY: fi_nic(3): an object of this provider.
        let original = unsafe { &*fid.cast::<Object>() };
        let copy = object(&original.spec);
        // SAFETY: FI_DUP: the argument is where the copy's address goes.
        unsafe { arg.cast::<*mut b::fid_nic>().write(copy) };
        Ok(())
    })
}

unsafe extern "C" fn tostr(fid: *const b::fid, buf: *mut c_char, len: usize) -> c_int {
    guarded(|| {
        // SAFETY: fi_nic(3): an object of this provider.
        let object = unsafe { &*fid.cast::<Object>() };
        let text = print(&object.spec);
        let bytes = text.as_bytes();
        if buf.is_null() || len == 0 {
            return Err(e::FI_EINVAL);
        }
        // It is one of several that print into the same buffer.
        // SAFETY: fi_tostr(3): a buffer of that length, with a text that ends in it.
        let before = unsafe { libc::strnlen(buf, len) };
        let room = len.saturating_sub(before + 1).min(bytes.len());
        let rest = buf.wrapping_add(before);
        if before < len {
            // SAFETY: as above, behind that text.
            unsafe { rest.cast::<u8>().copy_from(bytes.as_ptr(), room) };
            // SAFETY: as above; what was before and the room are less than the length.
            unsafe { rest.wrapping_add(room).write(0) };
        }
        Ok(())
    })
}

/// As `fi_info -v` shows a NIC.
fn print(spec: &NicSpec) -> String {
    let mut out = String::from("nic:\n");
    let pci = spec.pci;
    let lines = [
        "    fi_device_attr:".to_owned(),
        format!("        name: {}", spec.name),
        format!("        device_id: {}", spec.device_id),
        format!("        device_version: {}", spec.device_version),
        format!("        vendor_id: {}", spec.vendor_id),
        format!("        driver: {}", spec.driver),
        format!("        firmware: {}", spec.firmware),
        "    fi_bus_attr:".to_owned(),
        "        bus_type: FI_BUS_PCI".to_owned(),
        "        fi_pci_attr:".to_owned(),
        format!("            domain_id: {}", pci.domain),
        format!("            bus_id: {}", pci.bus),
        format!("            device_id: {}", pci.device),
        format!("            function_id: {}", pci.function),
        "    fi_link_attr:".to_owned(),
        format!("        address: EFA-{:016x}", spec.guid),
        format!("        mtu: {}", spec.mtu),
        format!("        speed: {}", spec.speed_bps),
        "        state: FI_LINK_UP".to_owned(),
        "        network_type: Ethernet".to_owned(),
    ];
    for line in lines {
        out.push_str(&line);
        out.push('\n');
    }
    out
}
