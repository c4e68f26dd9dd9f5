//! init, fini, devices, getProperties.

use core::ffi::{CStr, c_int};

pub use ofi_net::Protocol;
pub use ofi_net::params::Flavour;
use ofi_net::properties::Properties;

use crate::abi;
pub use crate::instance::Caller;
use crate::pointer::Out;
use crate::translate::Fail;
use crate::{instance, strings, unload};

/// Who takes the plugin down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finaliser {
    /// The table has a fini, and it is the only way (Neuron v6).
    Fini,
    /// The table has none: exit(3) or dlclose(3) do it (Neuron v4 and v5, NCCL v6 to v10).
    AtExit,
}

/// init.
///
/// # Errors
/// Already initialised (2); a fork of a process that is; those of the configuration and the devices.
pub fn init(flavour: Flavour, finaliser: Finaliser, caller: Caller) -> Result<(), Fail> {
    instance::init(flavour, caller)?;
    if finaliser == Finaliser::AtExit {
        unload::finalise_at_exit();
    }
    Ok(())
}

/// fini.
///
/// # Errors
/// Not initialised (2); calls on other threads that do not end.
pub fn fini() -> Result<(), Fail> {
    instance::fini()
}

/// devices.
///
/// # Safety
/// `count`, if not NULL, must be valid for writes.
///
/// # Errors
/// NULL (4); not initialised (4).
pub unsafe fn devices(count: *mut c_int) -> Result<(), Fail> {
    // SAFETY: the caller's contract.
    let count = unsafe { Out::new(count, abi::INVALID_ARGUMENT, "ndev") }?;
    instance::with(|instance| {
        count.set(c_int::try_from(instance.transport.devices()?).unwrap_or(c_int::MAX));
        Ok(())
    })
}

/// What getProperties of every table is filled from.
#[derive(Clone, Copy, Debug)]
pub struct DeviceView {
    /// Name; never freed.
    pub name: &'static CStr,
    /// Path in sysfs; never freed.
    pub pci_path: Option<&'static CStr>,
    /// Unique among devices and hosts.
    pub guid: u64,
    /// Bits of memory types (`NCCL_PTR_*`).
    pub ptr_support: c_int,
    /// A registration serves all communicators of the device.
    pub reg_is_global: c_int,
    /// Mb/s.
    pub speed: c_int,
    /// Port number.
    pub port: c_int,
    /// Microseconds.
    pub latency: f32,
    /// Communicators there can be.
    pub max_comms: c_int,
    /// Its number, the only device behind it: none is virtual.
    pub index: c_int,
    /// Buffers of one receive.
    pub max_recvs: c_int,
    /// Bytes of a message, at most `INT_MAX`.
    pub max_message_bytes: usize,
    /// Bytes of an inline write.
    pub max_write_inline_size: usize,
    /// Bytes of a memory key.
    pub max_mr_key_size: usize,
    /// One-sided calls work.
    pub rma_supported: c_int,
}

/// getProperties, before it takes the shape of a table.
///
/// # Errors
/// No such device (3); not initialised (4).
pub fn properties(dev: c_int) -> Result<DeviceView, Fail> {
    instance::with(|instance| {
        let properties = instance.transport.properties(device(dev)?)?;
        Ok(view(dev, &properties, instance.flavour))
    })
}

fn view(index: c_int, properties: &Properties, flavour: Flavour) -> DeviceView {
    let int = |n: u64| c_int::try_from(n).unwrap_or(c_int::MAX);
    // What `memory::register` takes (protocol 2a.4).
    let device_bits = match flavour {
        _ if !properties.device_memory => 0,
        Flavour::Neuron => abi::PTR_NEURON,
        Flavour::Nccl if properties.dmabuf => abi::PTR_CUDA | abi::PTR_DMABUF,
        Flavour::Nccl => abi::PTR_CUDA,
    };
    DeviceView {
        name: strings::intern(&properties.name),
        pci_path: properties.pci_path.as_deref().map(strings::intern),
        guid: properties.guid,
        ptr_support: abi::PTR_HOST | device_bits,
        reg_is_global: properties.reg_is_global.into(),
        speed: int(properties.speed_mbps),
        port: int(properties.port.into()),
        latency: properties.latency_us,
        max_comms: int(properties.max_comms.into()),
        index,
        max_recvs: int(properties.max_recvs.into()),
        max_message_bytes: properties.max_message_bytes,
        max_write_inline_size: properties.max_write_inline_bytes,
        max_mr_key_size: properties.max_mr_key_bytes,
        rma_supported: properties.rma_supported.into(),
    }
}

/// A device index of a C caller.
pub(crate) fn device(dev: c_int) -> Result<usize, Fail> {
    let unknown = |_| {
        let what = format!("device {dev}");
        Fail::fixed(
            abi::INTERNAL_ERROR,
            ofi_net::error::Code::UnknownDevice,
            what,
        )
    };
    usize::try_from(dev).map_err(unknown)
}

#[cfg(test)]
mod tests {
    use super::{Flavour, Properties, view};
    use crate::abi::{PTR_CUDA, PTR_DMABUF, PTR_HOST, PTR_NEURON};

    #[test]
    fn memory_that_cannot_be_registered_is_not_offered() {
        let properties = Properties {
            name: "nic".to_owned(),
            pci_path: None,
            guid: 1,
            device_memory: true,
            dmabuf: true,
            reg_is_global: true,
            speed_mbps: 100_000,
            port: 1,
            latency_us: 0.0,
            max_comms: 1,
            max_recvs: 1,
            max_message_bytes: 1,
            max_write_inline_bytes: 0,
            max_mr_key_bytes: 4,
            rma_supported: true,
        };
        let support = |properties: &Properties, flavour| view(0, properties, flavour).ptr_support;
        let all = PTR_HOST | PTR_CUDA | PTR_DMABUF;
        assert_eq!(support(&properties, Flavour::Nccl), all);
        assert_eq!(support(&properties, Flavour::Neuron), PTR_HOST | PTR_NEURON);
        let by_address = Properties {
            dmabuf: false,
            ..properties.clone()
        };
        assert_eq!(support(&by_address, Flavour::Nccl), PTR_HOST | PTR_CUDA);
        let plain = Properties {
            device_memory: false,
            ..properties
        };
        assert_eq!(support(&plain, Flavour::Neuron), PTR_HOST);
        assert_eq!(support(&plain, Flavour::Nccl), PTR_HOST);
    }
}
