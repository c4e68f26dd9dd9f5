//! What the rules look at, taken out of an `fi_info`, so that they can be tried without libfabric.

use efa_fabric::{Caps, Info, Mode, MrMode, PciAddress, consts};

/// The facts of one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) provider: String,
    pub(super) fabric: String,
    pub(super) domain: String,
    /// The device's name, else the domain's.
    pub(super) name: String,
    pub(super) caps: Caps,
    pub(super) mode: Mode,
    pub(super) mr_mode: MrMode,
    /// Ordering of messages that both sides keep, `FI_ORDER_*`.
    pub(super) order: u64,
    pub(super) addr_format: u32,
    /// The provider says where the endpoint will be. On a host without an interface that is up, those
    /// of the IP stack list entries that nothing can be opened with.
    pub(super) has_address: bool,
    pub(super) protocol: (u32, u32),
    pub(super) cq_data_bytes: usize,
    pub(super) key_bytes: usize,
    pub(super) message_bytes_max: usize,
    pub(super) virtual_addresses: bool,
    pub(super) provider_keys: bool,
    pub(super) device_memory: bool,
    pub(super) pci: Option<PciAddress>,
}

impl Candidate {
    pub(super) fn of(info: &Info) -> Self {
        let device = info.nic();
        let name = device
            .and_then(|nic| nic.name())
            .unwrap_or_else(|| info.domain_name());
        Self {
            provider: info.provider_name().to_owned(),
            fabric: info.fabric_name().to_owned(),
            domain: info.domain_name().to_owned(),
            name: name.to_owned(),
            caps: info.caps(),
            mode: info.mode(),
            mr_mode: info.mr_mode(),
            order: info.msg_order() & info.rx_msg_order(),
            addr_format: info.addr_format(),
            has_address: info.source_address().is_some_and(|bytes| !bytes.is_empty()),
            protocol: info.protocol(),
            cq_data_bytes: info.cq_data_size(),
            key_bytes: info.mr_key_size(),
            message_bytes_max: info.max_msg_size(),
            virtual_addresses: info.uses_virtual_addresses(),
            provider_keys: info.provider_chooses_keys(),
            device_memory: info.caps().contains(Caps::HMEM),
            pci: device.and_then(|nic| nic.pci()),
        }
    }

    /// An interface of the kernel's IP stack rather than a device of its own: the tcp provider, and
    /// whatever else has IP addresses and no PCI device. The filters for tcp mean these.
    pub(super) fn is_ip_interface(&self) -> bool {
        let ip = [
            consts::FI_SOCKADDR,
            consts::FI_SOCKADDR_IN,
            consts::FI_SOCKADDR_IN6,
        ];
        self.provider.starts_with("tcp") || (ip.contains(&self.addr_format) && self.pci.is_none())
    }

    pub(super) const fn is_ipv4(&self) -> bool {
        self.addr_format == consts::FI_SOCKADDR_IN
    }

    /// The fabric, where it tells kinds of network apart: that of an IP interface is its subnet,
    /// which differs between rails of one device.
    pub(super) fn kind_of_fabric(&self) -> Option<&str> {
        (!self.is_ip_interface()).then_some(self.fabric.as_str())
    }
}
