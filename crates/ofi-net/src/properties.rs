//! What getProperties says of a device (protocol 2a.4): true values, also where the reference reports
//! none.

use std::path::Path;

use ofi_topo::{PciAddress, Sysfs};

use crate::config::Config;
use crate::dmabuf::{self, Lesson};
use crate::host_id;
use crate::select::Nic;

/// Communicators a device can have: ids on the wire have 18 bits (protocol 2c.1).
pub const MAX_COMMS: u32 = 1 << 18;

/// Latency of EFA as the reference reports it on AWS, microseconds (protocol 2h.5).
const AWS_LATENCY_US: f32 = 75.0;

/// An instance type whose drivers report another link speed than it has (protocol 2a.4).
const P5EN: &str = "p5en.48xlarge";
const P5EN_LINK_BPS: u64 = 200_000_000_000;

/// Properties of one device.
#[derive(Clone, Debug, PartialEq)]
pub struct Properties {
    /// Name of its first NIC.
    pub name: String,
    /// Where its first NIC sits in sysfs; `None` for software providers.
    pub pci_path: Option<String>,
    /// Differs between devices and between hosts; the same for every process of a host.
    pub guid: u64,
    /// Memory of accelerators can be registered.
    pub device_memory: bool,
    /// Memory can be registered by dma-buf: until the kernel or a driver says that it cannot after all.
    pub dmabuf: bool,
    /// A registration serves every communicator of the device.
    pub reg_is_global: bool,
    /// Mb/s, of all its NICs together; 0 when nobody knows.
    pub speed_mbps: u64,
    /// Always 1.
    pub port: u32,
    /// Microseconds.
    pub latency_us: f32,
    /// Communicators it can have.
    pub max_comms: u32,
    /// Buffers of one receive: 1.
    pub max_recvs: u32,
    /// Bytes of a message: what the provider takes in one operation, at most `INT_MAX`.
    pub max_message_bytes: usize,
    /// Most bytes of an inline one-sided write.
    pub max_write_inline_bytes: usize,
    /// Bytes of a memory key.
    pub max_mr_key_bytes: usize,
    /// Whether one-sided calls work: where remote addresses are virtual addresses (decision 15).
    pub rma_supported: bool,
}

impl Properties {
    /// Of device number `index`, whose rails are on `nics` (the first stands for the device; one that
    /// carries several rails is repeated). `None` without a NIC.
    #[must_use]
    pub fn of(config: &Config, index: usize, nics: &[&Nic]) -> Option<Self> {
        let leader = nics.first()?;
        Some(Self {
            name: leader.name.clone(),
            pci_path: pci_path(&config.fs_root, leader),
            guid: guid_of(&config.fs_root, index, &leader.name, leader.pci),
            dmabuf: nics.iter().all(|nic| dmabuf::is_offered(config, &nic.info)),
            device_memory: nics.iter().all(|nic| nic.device_memory),
            // A registration of one domain is unknown to the others.
            reg_is_global: !config.is_domain_per_thread() && !config.endpoint_per_comm,
            speed_mbps: speed_mbps(config, nics),
            port: 1,
            latency_us: latency_us(config, leader),
            max_comms: MAX_COMMS,
            max_recvs: 1,
            max_message_bytes: max_message_bytes(nics),
            max_write_inline_bytes: leader.info.inject_size(),
            max_mr_key_bytes: leader.key_bytes,
            rma_supported: nics.iter().all(|nic| nic.virtual_addresses),
        })
    }

    /// The same, after what the device learned.
    pub(crate) fn as_of(&self, lesson: &Lesson) -> Self {
        Self {
            dmabuf: self.dmabuf && self.device_memory && lesson.are_tried(),
            ..self.clone()
        }
    }
}

fn max_message_bytes(nics: &[&Nic]) -> usize {
    let int_max = usize::try_from(i32::MAX).unwrap_or(usize::MAX);
    let longest = nics.iter().map(|nic| nic.message_bytes_max);
    longest.fold(int_max, usize::min)
}

fn pci_path(root: &Path, nic: &Nic) -> Option<String> {
    let path = Sysfs::new(root).pci_path(nic.pci?).ok()?;
    path.into_os_string().into_string().ok()
}

/// A NIC that carries several rails has its speed once.
fn speed_mbps(config: &Config, nics: &[&Nic]) -> u64 {
    let mut counted: Vec<&Nic> = Vec::new();
    for nic in nics {
        if !counted.iter().any(|known| core::ptr::eq(*known, *nic)) {
            counted.push(nic);
        }
    }
    let bps = counted.iter().map(|nic| link_bps(config, nic.speed_bps));
    bps.fold(0, u64::saturating_add) / 1_000_000
}

/// The speed of a NIC's link, of which the provider says `told`.
pub(crate) fn link_bps(config: &Config, told: u64) -> u64 {
    match config.product_name.as_deref() {
        Some(P5EN) => P5EN_LINK_BPS,
        _ => told,
    }
}

fn latency_us(config: &Config, leader: &Nic) -> f32 {
    match config.net_latency_us {
        Some(us) => f32::from(us),
        None => match config.platform() {
            Some(platform) => f32::from(platform.latency_us),
            None if leader.is_aws => AWS_LATENCY_US,
            None => 0.0,
        },
    }
}

/// 56 bits of host and NIC, then the device's number as in the reference (2a.4). The reference takes
/// an IPv4 address for the host, which containers on different hosts share; the kernel's boot id is
/// the same for no two hosts.
fn guid_of(root: &Path, index: usize, name: &str, pci: Option<PciAddress>) -> u64 {
    let mut hash = host_id::of(root);
    match pci {
        Some(pci) => hash.add(pci.to_string().as_bytes()),
        None => {
            // Interfaces of containers have equal names: the host name tells them apart.
            let host = Sysfs::new(root).line("proc/sys/kernel/hostname");
            hash.add(host.unwrap_or_default().as_bytes());
            hash.add(name.as_bytes());
        }
    }
    hash.value() << 8 | (index as u64 & 0xFF)
}

#[cfg(test)]
mod tests {
    use super::{guid_of, link_bps};
    use crate::config::Config;
    use crate::params::Flavour;
    use ofi_topo::PciAddress;
    use std::path::PathBuf;

    /// A file tree of a host, removed at the end.
    struct Host(PathBuf);

    impl Host {
        fn new(name: &str, boot_id: &str, hostname: &str) -> Self {
            let root = std::env::temp_dir().join(format!("ofi-net-{name}-{}", std::process::id()));
            std::fs::create_dir_all(root.join("proc/sys/kernel/random")).unwrap();
            std::fs::write(root.join("proc/sys/kernel/random/boot_id"), boot_id).unwrap();
            std::fs::write(root.join("proc/sys/kernel/hostname"), hostname).unwrap();
            Self(root)
        }
    }

    impl Drop for Host {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).unwrap();
        }
    }

    fn guid(host: &Host, index: usize, name: &str, pci: Option<&str>) -> u64 {
        guid_of(
            &host.0,
            index,
            name,
            pci.map(|pci| pci.parse::<PciAddress>().unwrap()),
        )
    }

    /// Whatever the driver says, in the properties and in the file for NCCL alike.
    #[test]
    fn links_of_p5en_have_their_speed() {
        let on = |product: &str| Config {
            product_name: Some(product.to_owned()),
            ..Config::new(Flavour::Nccl)
        };
        for (product, bps) in [("p5en.48xlarge", 200_000_000_000), ("p5.48xlarge", 7)] {
            assert_eq!(link_bps(&on(product), 7), bps, "{product}");
        }
    }

    #[test]
    fn a_guid_is_stable_and_differs_between_devices_hosts_and_containers() {
        let a = Host::new("a", "11111111-1111\n", "node\n");
        let b = Host::new("b", "22222222-2222\n", "node\n");
        let container = Host::new("c", "11111111-1111\n", "pod\n");
        let pci = Some("0000:a0:06.0");
        assert_eq!(guid(&a, 0, "eth0", None), guid(&a, 0, "eth0", None));
        assert_eq!(guid(&a, 3, "x", pci) & 0xFF, 3);
        let all = [
            guid(&a, 0, "eth0", None),
            guid(&a, 1, "eth0", None),
            guid(&a, 0, "eth1", None),
            guid(&b, 0, "eth0", None),
            guid(&container, 0, "eth0", None),
            guid(&a, 0, "eth0", pci),
            guid(&b, 0, "eth0", pci),
        ];
        let distinct: std::collections::HashSet<u64> = all.into_iter().collect();
        assert_eq!(distinct.len(), all.len());
        // A PCI device is one device, whatever the container is called.
        assert_eq!(guid(&a, 0, "x", pci), guid(&container, 0, "x", pci));
    }
}
